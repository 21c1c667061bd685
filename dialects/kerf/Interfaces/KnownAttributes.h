//===- KnownAttributes.h - a dialect's discardable attributes ---*- C++ -*-===//
//
// One table per dialect says which attributes with its prefix there are, where
// each may stand and of what kind it is. Anything else with the prefix is an
// error: a misspelled attribute would otherwise be a decision that nobody
// reads.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERFACES_KNOWNATTRIBUTES_H
#define KERF_INTERFACES_KNOWNATTRIBUTES_H

#include "mlir/IR/Operation.h"

namespace kerf {

/// Where an attribute stands; a set of them in a table.
enum AttributePlace : unsigned {
  OnModule = 1,
  OnFunction = 2,
  OnOp = 4,
  OnArgument = 8,
  OnResult = 16
};

struct KnownAttribute {
  llvm::StringLiteral name; ///< with the prefix
  unsigned places;
  bool (*isKind)(mlir::Attribute);
  llvm::StringLiteral kind; ///< for messages: "a tensor type"
};

/// OnModule, OnFunction or OnOp.
AttributePlace placeOf(mlir::Operation *op);

/// Emits an error at `op` unless `attribute` is in the table, may stand at
/// `place` and is of its kind.
mlir::LogicalResult checkKnown(mlir::Operation *op,
                               mlir::NamedAttribute attribute,
                               AttributePlace place,
                               llvm::ArrayRef<KnownAttribute> table);

} // namespace kerf

#endif // KERF_INTERFACES_KNOWNATTRIBUTES_H
