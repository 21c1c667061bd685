//===- SameComputation.h - sets of ops that compute the same ----*- C++ -*-===//
//
// DenseSet<Operation *, SameComputation> holds one op of each kind: two ops are
// the same if name, types, operands and attributes are, except dist.plan and
// dist.step, which say where and when an op runs, not what it computes. An op
// that is recomputed is not the same as its original, though: it computes again
// what is not to be held.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_SAMECOMPUTATION_H
#define KERF_DIST_SAMECOMPUTATION_H

#include "kerf/Dist/Dist.h"

namespace kerf::dist {

struct SameComputation : llvm::DenseMapInfo<mlir::Operation *> {
  using Equivalence = mlir::OperationEquivalence;
  static constexpr auto kIgnored = static_cast<Equivalence::Flags>(
      Equivalence::IgnoreLocations | Equivalence::IgnoreDiscardableAttrs);

  static unsigned getHashValue(const mlir::Operation *op) {
    return Equivalence::computeHash(const_cast<mlir::Operation *>(op),
                                    Equivalence::directHashValue,
                                    Equivalence::ignoreHashValue, kIgnored);
  }
  static bool isEqual(const mlir::Operation *a, const mlir::Operation *b) {
    if (a == b)
      return true;
    for (const mlir::Operation *op : {a, b})
      if (op == getTombstoneKey() || op == getEmptyKey())
        return false;
    auto *left = const_cast<mlir::Operation *>(a);
    auto *right = const_cast<mlir::Operation *>(b);
    return isRecomputed(left) == isRecomputed(right) &&
           Equivalence::isEquivalentTo(left, right, kIgnored) &&
           llvm::equal(computed(left), computed(right));
  }

private:
  /// Discardable attributes that change what is computed; sorted by name.
  static llvm::SmallVector<mlir::NamedAttribute> computed(mlir::Operation *op) {
    llvm::SmallVector<mlir::NamedAttribute> attributes;
    for (mlir::NamedAttribute attribute : op->getDiscardableAttrs())
      if (attribute.getName() != kPlan && attribute.getName() != kStep)
        attributes.push_back(attribute);
    return attributes;
  }
};

} // namespace kerf::dist

#endif // KERF_DIST_SAMECOMPUTATION_H
