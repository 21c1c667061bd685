//===- JoinUpdate.h - the last backward pass and its update -----*- C++ -*-===//
#ifndef KERF_LIB_PARTITION_JOINUPDATE_H
#define KERF_LIB_PARTITION_JOINUPDATE_H

#include "mlir/IR/BuiltinOps.h"

namespace kerf {

/// Where a stage's first update sums gradients over devices right after the
/// last micro-batch's backward pass, one function does both.
void joinUpdates(mlir::ModuleOp module);

} // namespace kerf

#endif // KERF_LIB_PARTITION_JOINUPDATE_H
