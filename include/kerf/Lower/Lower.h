//===- Lower.h - from local tensor functions to buffers, calls --*- C++ -*-===//
//
// Takes a module whose functions are on local shapes (after the collectives
// phase, or one unpartitioned @main) and gives one of `exec` ops:
// kernels, functions on buffers in a planned arena, parameters, stages.
// Compiling the kernels is Codegen.h; writing the folder is
// kerf/Package/Package.h.
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

/// Groups and library calls on tensors, and dist, to exec: what is computed at
/// load to `init` functions. Buffers have no offsets yet. The module's
/// `exec.mesh` is set.
mlir::LogicalResult bufferize(mlir::ModuleOp module);

/// Gives every buffer and slot its offset, after letting kernels and
/// all-reduces work in place. Sets `scratch` on functions, `arena` and
/// `lower_bound` on stages. Peak bytes of a rank are a stage's `arena`.
mlir::LogicalResult planArenas(mlir::ModuleOp module);

/// The contract with packaging: nothing but exec ops, everything planned, no
/// two buffers that are live together overlap, indices dense.
mlir::LogicalResult verifyLowered(mlir::ModuleOp module);

} // namespace kerf

#endif // KERF_LOWER_LOWER_H
