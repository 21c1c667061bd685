//===- Simplify.h - nn functions as lowering wants them ---------*- C++ -*-===//
//
// The steps before units are formed. Each takes a function of nn (and, after
// partitioning, dist) ops and leaves one that computes the same.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_SIMPLIFY_H
#define KERF_LIB_LOWER_SIMPLIFY_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {

/// Marks ops that an update of an optimizer was expanded to.
inline constexpr llvm::StringLiteral kUpdateAttr = "exec.update";

/// What is special about functions of a training step: one op per mutable
/// source, sums over micro-batches as additions, updates of optimizers in
/// elementwise ops; no attributes of earlier phases on nn ops.
void prepareTraining(mlir::func::FuncOp function);

/// Takes away casts that undo each other: a rounding for the way between
/// devices (`as_made`) where nothing travels, and a widening that is rounded
/// back.
void undoCasts(mlir::func::FuncOp function);

/// Products of float16 become those of rounded float32: the CPU's library has
/// no others.
void widenProducts(mlir::func::FuncOp function);

/// Elementwise ops on splat constants become splat constants.
void foldSplats(mlir::func::FuncOp function);

/// Batch norms whose statistics are constant go into the convolution in front
/// of them (w' = w s, b' = b s + t with s = scale / sqrt(variance + epsilon),
/// t = bias - mean s); all others become x s + t.
void foldBatchNorms(mlir::func::FuncOp function);

/// Factors on an operand of a matmul become factors on its result, where a
/// library call takes them for nothing; small powers become products.
void moveScalars(mlir::func::FuncOp function);

/// dist.mask and dist.all_slice in nn ops over dist.shard_index, whose scale
/// becomes a factor.
void expandPlacement(mlir::func::FuncOp function);

/// Long reductions over leading dimensions to few elements (statistics of
/// BatchNorm, gradient norms) become two: of parts, which threads share, and of
/// their results. The parts depend on the shape alone.
void splitReductions(mlir::func::FuncOp function);

/// Gives every use of a shape op or inline constant an op of its own, in front
/// of the user.
void sinkShapeOps(mlir::func::FuncOp function);

/// Removes ops that nothing uses.
void eraseDeadOps(mlir::func::FuncOp function);

} // namespace kerf

#endif // KERF_LIB_LOWER_SIMPLIFY_H
