//===- KnownValues.h - what follows from one number -------------*- C++ -*-===//
#ifndef KERF_LIB_IMPORT_STATE_KNOWNVALUES_H
#define KERF_LIB_IMPORT_STATE_KNOWNVALUES_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/DenseMap.h"

namespace kerf {

/// Values of a function when all elements of one of them are one number.
class KnownValues {
public:
  KnownValues(mlir::Value of, int64_t number);

  /// Null where it depends on more than that value and constants.
  mlir::DenseElementsAttr get(mlir::Value value);

private:
  mlir::Value constant(mlir::DenseElementsAttr elements);
  mlir::Value compute(mlir::Value value);

  mlir::Block scratch;
  mlir::OpBuilder builder;
  llvm::DenseMap<mlir::Value, mlir::Value> known;
};

} // namespace kerf

#endif // KERF_LIB_IMPORT_STATE_KNOWNVALUES_H
