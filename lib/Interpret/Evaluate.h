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

/// The function of an elementwise op on elements; null for all other ops, and
/// for casts and selections.
using ElementFunction = double (*)(mlir::Operation *op,
                                   llvm::ArrayRef<double> x);
ElementFunction findElementFunction(mlir::Operation *op);

inline llvm::ArrayRef<int64_t> resultShape(mlir::Operation *op) {
  return llvm::cast<mlir::RankedTensorType>(op->getResult(0).getType())
      .getShape();
}

} // namespace kerf::interpret

#endif // KERF_LIB_INTERPRET_EVALUATE_H
