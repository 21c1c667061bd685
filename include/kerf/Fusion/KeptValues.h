//===- KeptValues.h - values that a function leaves for others --*- C++ -*-===//
#ifndef KERF_FUSION_KEPTVALUES_H
#define KERF_FUSION_KEPTVALUES_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace kerf {

/// The input of chooseKeptValues().
struct KeptProblem {
  /// Values that a function uses and another function makes.
  llvm::SmallVector<mlir::Value> needed;
  /// Whether the value is available without keeping it: a source, an input.
  llvm::function_ref<bool(mlir::Value)> isFree;
  /// Whether the value may be computed again from its op's operands.
  llvm::function_ref<bool(mlir::Value)> canRepeat;
  /// Bytes that keeping the value takes; 0 if it is kept anyway.
  llvm::function_ref<int64_t(mlir::Value)> bytes;
};

/// The values of the fewest bytes from which everything needed can be computed
/// by repeating ops; among equals those that repeat the fewest ops. In the
/// order in which a search from `needed` meets them.
llvm::SmallVector<mlir::Value> chooseKeptValues(const KeptProblem &problem);

/// Whether the op does no arithmetic: it moves elements of its operands, or
/// changes the type of one. Such an op is repeated rather than kept.
bool movesOrCasts(mlir::Operation *op);

} // namespace kerf

#endif // KERF_FUSION_KEPTVALUES_H
