//===- OpKinds.h - classes of tensor ops for lowering -----------*- C++ -*-===//
#ifndef KERF_LIB_LOWER_OPKINDS_H
#define KERF_LIB_LOWER_OPKINDS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {

/// Whether each element of the op's single result is a cheap function of its
/// operands' elements, independent of how often it is computed. Null: false.
bool isElementwise(mlir::Operation *op);

/// Whether a source is small enough to be part of the kernels that use it.
bool isInline(mlir::Operation *op);

/// Whether the result is a view of the operand's memory: reshapes, and slices
/// of whole rows that start where a buffer may start.
bool isAlias(mlir::Operation *op);

/// Whether the first reader of a view's result, behind reshapes, is an update.
bool isReadByUpdate(mlir::Operation *view);

/// Whether floats of the type have the range of float32 (float16 does not).
bool hasRange(mlir::Type type);

/// Whether the op changes precision only, not the range. Null: false.
bool isRounding(mlir::Operation *op);

/// The block of a function; null if it has no body, and an error if it has more
/// than one block.
mlir::FailureOr<mlir::Block *> blockOf(mlir::func::FuncOp function);

/// For each result of a function that is a sum over micro-batches the argument
/// with which it shares its memory; -1: none.
llvm::SmallVector<int64_t> accumulators(mlir::func::FuncOp function);

} // namespace kerf

#endif // KERF_LIB_LOWER_OPKINDS_H
