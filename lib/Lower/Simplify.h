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

/// Marks shape ops whose result is what lies in memory, not a view, and
/// products that are stored in their own type although somebody widens it.
inline constexpr llvm::StringLiteral kStoredAttr = "exec.stored";

/// Whether each element of the op's one result is a cheap function of its
/// operands' elements, the same however often it is computed. Null: false.
bool isElementwise(mlir::Operation *op);

/// What is special about functions of a training step: one op per mutable
/// source, sums over micro-batches as additions, updates of optimizers in
/// elementwise ops; no attributes of earlier phases on nn ops.
void prepareTraining(mlir::func::FuncOp function);

/// Takes away casts that undo each other: a rounding for the way between
/// devices (`as_made`) where nothing travels, and a widening that is rounded
/// back, also behind ops that move elements.
void undoCasts(mlir::func::FuncOp function);

/// For GPUs, whose memory is slow beside what they compute: what is computed
/// from a product of 16 bits (with a bias; of a convolution also with an addend
/// and relu) is stored in 16 bits and widened where it is read. A sum with a
/// wide tensor behind a matmul, gradients of weights and what leaves the
/// function stay wide. Needs the marks of roundings (`as_made`).
void storeNarrow(mlir::func::FuncOp function);

/// For GPUs: products of 16 bits whose rows do not begin at multiples of 16
/// bytes get up to seven columns more, see PadProducts.cpp. After storeNarrow.
void padProducts(mlir::func::FuncOp function);

/// Takes away `as_made`, which nothing needs any more.
void dropRoundingMarks(mlir::func::FuncOp function);

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

/// What attention gives is stored as a transpose of it that somebody reads;
/// other readers take it from there, by strides.
void storeTransposed(mlir::func::FuncOp function);

/// Long reductions over leading dimensions to few elements (statistics of
/// BatchNorm, gradient norms) become two: of parts, which threads share, and of
/// their results. The parts depend on the shape alone.
void splitReductions(mlir::func::FuncOp function);

/// Gives every use of a shape op or inline constant an op of its own, in front
/// of the user; for GPUs of a widening, too, which costs less than what it
/// saves in memory.
void sinkShapeOps(mlir::func::FuncOp function);

/// Removes ops that nothing uses.
void eraseDeadOps(mlir::func::FuncOp function);

} // namespace kerf

#endif // KERF_LIB_LOWER_SIMPLIFY_H
