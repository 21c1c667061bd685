//===- VerifyStep.h - what runs when, in a plan -----------------*- C++ -*-===//
#ifndef KERF_LIB_PARTITION_VERIFYSTEP_H
#define KERF_LIB_PARTITION_VERIFYSTEP_H

#include "kerf/Dist/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {

/// Checks phases, stages, colocation, time axes, sums over micro-batches and
/// assignments of a function whose ops are right each for itself. Errors are
/// emitted on the ops, all of them.
mlir::LogicalResult verifyStep(mlir::func::FuncOp function,
                               const dist::Mesh &mesh);

} // namespace kerf

#endif // KERF_LIB_PARTITION_VERIFYSTEP_H
