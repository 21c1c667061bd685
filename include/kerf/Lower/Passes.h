//===- Passes.h - passes of the lower phase ---------------------*- C++ -*-===//
#ifndef KERF_LOWER_PASSES_H
#define KERF_LOWER_PASSES_H

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace kerf {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kerf/Lower/Passes.h.inc"

/// The passes over tensors that prepare the decision what is computed together
/// (lib/Lower/Prepare), in their order.
void buildPreparePipeline(mlir::OpPassManager &passes);

/// The passes over tensors that decide what is computed together, in which
/// order, and where each result is written (lib/Lower/Library,
/// lib/Lower/Fusion).
void buildFormGroupsPipeline(mlir::OpPassManager &passes);

/// For a device other than the CPU kerf-set-target, those two, then
/// kerf-bufferize, kerf-work-in-place, kerf-plan-arenas,
/// kerf-verify-after-lower. What cannot be lowered is an error at its op; the
/// module is then valid, but neither what it was nor what it should be.
void buildLowerPipeline(mlir::OpPassManager &passes,
                        exec::Device device = exec::Device::Cpu);

} // namespace kerf

#endif // KERF_LOWER_PASSES_H
