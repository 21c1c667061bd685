//===- Evaluate.h - the interpreter's table of ops --------------*- C++ -*-===//
#ifndef KERF_LIB_INTERPRET_EVALUATE_H
#define KERF_LIB_INTERPRET_EVALUATE_H

#include "kerf/Interpret/Interpret.h"

namespace kerf::interpret {

using Operands = llvm::ArrayRef<const Tensor *>;
/// A result of the op's type, which one of the evaluators below fills; none:
/// the op is not one of theirs.
using MaybeTensor = std::optional<Tensor>;

MaybeTensor evaluateContraction(mlir::Operation *op, Operands operands);
MaybeTensor evaluateGradient(mlir::Operation *op, Operands operands);
MaybeTensor evaluateMovement(mlir::Operation *op, Operands operands);
/// Steps of optimizers: all results; empty: another op.
llvm::SmallVector<Tensor, 1> evaluateUpdate(mlir::Operation *op,
                                            Operands operands);
/// Attention and its gradient likewise.
llvm::SmallVector<Tensor, 1> evaluateAttention(mlir::Operation *op,
                                               Operands operands);

/// Computes an op of the body of a loop.
using ComputeOp =
    llvm::function_ref<mlir::FailureOr<llvm::SmallVector<Tensor, 1>>(
        mlir::Operation *, Operands)>;
/// All results of a loop.
mlir::FailureOr<llvm::SmallVector<Tensor, 1>>
evaluateLoop(mlir::Operation *op, Operands operands, ComputeOp compute);

/// The function of an elementwise op on elements; null for all other ops, and
/// for casts and selections.
using ElementFunction = double (*)(mlir::Operation *op,
                                   llvm::ArrayRef<double> x);
ElementFunction findElementFunction(mlir::Operation *op);

/// The element of `result` to which a scatter brings the update at `index`: its
/// `row` of dimension `op.getDim()`, and behind that the dimensions of `index`
/// from `rest` on. None: the row is out of range.
template <typename Op>
std::optional<Index> scatterTarget(Op op, const Tensor &result, double row,
                                   llvm::ArrayRef<int64_t> index, size_t rest) {
  size_t dim = op.getDim();
  auto size = static_cast<double>(result.shape[dim]);
  if (!op.getPartial() && row < 0)
    row += size;
  if (!(row >= 0 && row < size))
    return std::nullopt;
  Index to(index.take_front(dim));
  to.push_back(static_cast<int64_t>(row));
  llvm::append_range(to, index.drop_front(rest));
  return to;
}

inline llvm::ArrayRef<int64_t> resultShape(mlir::Operation *op) {
  return llvm::cast<mlir::RankedTensorType>(op->getResult(0).getType())
      .getShape();
}

} // namespace kerf::interpret

#endif // KERF_LIB_INTERPRET_EVALUATE_H
