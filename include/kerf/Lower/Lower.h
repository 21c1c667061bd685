//===- Lower.h - from local tensor functions to buffers, calls --*- C++ -*-===//
//
// Turns a module whose functions have local shapes (after the collectives
// phase, or one unpartitioned @main) into one of `exec` ops: kernels, functions
// on buffers in a planned arena, parameters, stages. Codegen.h compiles the
// kernels; kerf/Package/Package.h writes the folder.
//
// Errors are emitted at the op that cannot be lowered; the module is then in an
// undefined but valid state. Deterministic; no threads.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_LOWER_H
#define KERF_LOWER_LOWER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

namespace kerf {

/// From groups and library calls on tensors, and ops of dist, to ops of exec;
/// ops that are computed at load go to `init` functions. Buffers have no
/// offsets yet. Needs the module's `exec.mesh`.
mlir::LogicalResult bufferize(mlir::ModuleOp module);

/// Gives every buffer and slot its offset, after letting kernels and
/// all-reduces work in place. Sets `scratch` on functions, `arena` and
/// `lower_bound` on stages. Peak bytes of a rank are a stage's `arena`.
mlir::LogicalResult planArenas(mlir::ModuleOp module);

/// Checks the guarantees to packaging: only exec ops, every buffer has an
/// offset, no two buffers that are live together overlap, indices are dense.
mlir::LogicalResult verifyLowered(mlir::ModuleOp module);

} // namespace kerf

#endif // KERF_LOWER_LOWER_H
