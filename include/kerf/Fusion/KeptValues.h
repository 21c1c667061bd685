//===- KeptValues.h - what one part of a step leaves for another -*- C++
//-*-===//
#ifndef KERF_FUSION_KEPTVALUES_H
#define KERF_FUSION_KEPTVALUES_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace kerf {

/// What the choice of kept values is made from.
struct KeptProblem {
  /// Values that a function uses and others have made.
  llvm::SmallVector<mlir::Value> needed;
  /// Costs nothing where it is used: a source, an input.
  llvm::function_ref<bool(mlir::Value)> isFree;
  /// May be computed again from its op's operands.
  llvm::function_ref<bool(mlir::Value)> canRepeat;
  /// Bytes that keeping it takes; 0 if it is kept already.
  llvm::function_ref<int64_t(mlir::Value)> bytes;
};

/// The values of fewest bytes from which all that is needed can be had by
/// repeating ops; among equals the ones that repeat least. In the order in
/// which a search from `needed` meets them.
llvm::SmallVector<mlir::Value> chooseKeptValues(const KeptProblem &problem);

/// Whether the op does no arithmetic: it moves elements of its operands, or
/// changes the type of one. Such an op is repeated rather than kept.
bool movesOrCasts(mlir::Operation *op);

} // namespace kerf

#endif // KERF_FUSION_KEPTVALUES_H
