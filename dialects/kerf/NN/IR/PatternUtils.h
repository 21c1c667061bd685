//===- PatternUtils.h - questions that rewrites share -----------*- C++ -*-===//
//
// Small questions shared by the Canonicalize*.cpp files: types, constants whose
// elements are one number, reshapes that only add or drop dimensions of size 1,
// and the groups of dimensions that a reshape keeps together.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_IR_PATTERNUTILS_H
#define KERF_NN_IR_PATTERNUTILS_H

#include "kerf/NN/NN.h"
#include "kerf/Support/TensorTypes.h"

#include "mlir/IR/PatternMatch.h"

namespace kerf::nn {

/// Whether each element of the result depends only on the operands' elements at
/// the same index.
bool isElementwise(mlir::Operation *op);

/// Planned functions are not rewritten: annotations name operands.
bool isPlanned(mlir::Operation *op);

/// The number that every element of an unnamed constant is.
std::optional<double> splatOf(mlir::Value value);
bool isSplatOf(mlir::Value value, double number, double tolerance = 1e-6);

/// A weight or constant.
bool isSource(mlir::Value value);

/// The value behind reshapes that only add or drop dimensions of size 1.
mlir::Value behindUnitReshapes(mlir::Value value);

/// Dimensions [from, fromEnd) of one shape hold the same elements as [to,
/// toEnd) of another.
struct ReshapeGroup {
  int64_t from, fromEnd, to, toEnd;
};
/// The finest grouping; none if a dimension has size 0. Dimensions of size 1
/// join the group before them (or after, at the start).
std::optional<llvm::SmallVector<ReshapeGroup>>
reshapeGroups(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

mlir::Value makeReshape(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value x, llvm::ArrayRef<int64_t> shape);
mlir::Value makeTranspose(mlir::OpBuilder &builder, mlir::Location loc,
                          mlir::Value x, llvm::ArrayRef<int64_t> perm);
llvm::SmallVector<int64_t> inversePermutation(llvm::ArrayRef<int64_t> perm);

/// A copy of an op with other operands and a result of `shape`; the element
/// type of the result stays.
mlir::Value cloneWith(mlir::OpBuilder &builder, mlir::Operation *op,
                      mlir::ValueRange operands, llvm::ArrayRef<int64_t> shape);

void populateReshapePatterns(mlir::RewritePatternSet &patterns);
void populateGeluPattern(mlir::RewritePatternSet &patterns);

} // namespace kerf::nn

#endif // KERF_NN_IR_PATTERNUTILS_H
