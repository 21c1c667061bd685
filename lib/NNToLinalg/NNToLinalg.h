//===- NNToLinalg.h - the forms of nn ops in linalg -------------*- C++ -*-===//
#ifndef KERF_LIB_NNTOLINALG_NNTOLINALG_H
#define KERF_LIB_NNTOLINALG_NNTOLINALG_H

#include "kerf/NN/NN.h"
#include "kerf/NNToLinalg/Passes.h"

namespace kerf::nntolinalg {

using Results = llvm::SmallVector<mlir::Value>;
using Body = llvm::function_ref<Results(mlir::OpBuilder &, mlir::ValueRange)>;

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// Floats of less than 32 bits are computed with in f32.
mlir::Type computeTypeOf(mlir::Type element);
/// A scalar in another type, as nn.cast has it.
mlir::Value castElement(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value value, mlir::Type to);

/// `shape` as the target of a right-aligned broadcast from `type`.
mlir::AffineMap broadcastMap(mlir::RankedTensorType type,
                             llvm::ArrayRef<int64_t> shape);
/// A loop for each dim of the results, which have one shape; `operands` are
/// right-aligned and repeated along dims of size 1.
Results byElement(mlir::OpBuilder &builder, mlir::Location loc,
                  mlir::ValueRange operands,
                  llvm::ArrayRef<mlir::RankedTensorType> results, Body body);

/// The values that take the place of an op's results; empty: no form.
Results lowerByElement(mlir::OpBuilder &builder, mlir::Operation *op);
Results lowerShape(mlir::OpBuilder &builder, mlir::Operation *op);

} // namespace kerf::nntolinalg

#endif // KERF_LIB_NNTOLINALG_NNTOLINALG_H
