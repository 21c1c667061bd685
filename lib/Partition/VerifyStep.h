//===- VerifyStep.h - checks phases and stages of a plan --------*- C++ -*-===//
#ifndef KERF_LIB_PARTITION_VERIFYSTEP_H
#define KERF_LIB_PARTITION_VERIFYSTEP_H

#include "kerf/Dist/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {

/// Checks phases, stages, colocation, time axes, sums over micro-batches and
/// assignments of a function whose ops are each valid. Emits all errors, on the
/// ops.
mlir::LogicalResult verifyStep(mlir::func::FuncOp function,
                               const dist::Mesh &mesh);

} // namespace kerf

#endif // KERF_LIB_PARTITION_VERIFYSTEP_H
