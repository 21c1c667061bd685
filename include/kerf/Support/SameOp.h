//===- SameOp.h - sets of ops that compute the same -------------*- C++ -*-===//
//
// DenseSet<Operation *, SameOp> holds one op of each kind: two ops are the same
// if name, attributes, types and operands are equal; locations do not matter.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_SUPPORT_SAMEOP_H
#define KERF_SUPPORT_SAMEOP_H

#include "mlir/IR/OperationSupport.h"

namespace kerf {

struct SameOp : llvm::DenseMapInfo<mlir::Operation *> {
  static unsigned getHashValue(const mlir::Operation *op) {
    return mlir::OperationEquivalence::computeHash(
        const_cast<mlir::Operation *>(op),
        mlir::OperationEquivalence::directHashValue,
        mlir::OperationEquivalence::ignoreHashValue,
        mlir::OperationEquivalence::IgnoreLocations);
  }
  static bool isEqual(const mlir::Operation *a, const mlir::Operation *b) {
    if (a == b)
      return true;
    if (a == getTombstoneKey() || a == getEmptyKey() ||
        b == getTombstoneKey() || b == getEmptyKey())
      return false;
    return mlir::OperationEquivalence::isEquivalentTo(
        const_cast<mlir::Operation *>(a), const_cast<mlir::Operation *>(b),
        mlir::OperationEquivalence::IgnoreLocations);
  }
};

} // namespace kerf

#endif // KERF_SUPPORT_SAMEOP_H
