//===- TensorTypes.h - the type of a tensor value ---------------*- C++ -*-===//
//
// Short functions on the type of a tensor value. All need a value of ranked
// tensor type.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_SUPPORT_TENSORTYPES_H
#define KERF_SUPPORT_TENSORTYPES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace kerf {

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return typeOf(value).getShape();
}
inline int64_t rankOf(mlir::Value value) { return typeOf(value).getRank(); }
inline mlir::Type elementOf(mlir::Value value) {
  return typeOf(value).getElementType();
}

} // namespace kerf

#endif // KERF_SUPPORT_TENSORTYPES_H
