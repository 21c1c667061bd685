//===- NarrowTypes.h - element types that are only converted ----*- C++ -*-===//
//
// Floats of 8 and 4 bits and integers of 4 and 2 bits are what weights and
// messages are stored in: ops move them and convert them to other types and
// back, and none computes with them. A tensor holds a code of such a type per
// byte; bits of the byte above the code are 0.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_SUPPORT_NARROWTYPES_H
#define KERF_SUPPORT_NARROWTYPES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace kerf {

/// Whether elements of this type are codes, which are moved and converted.
inline bool isNarrow(mlir::Type element) {
  if (auto type = llvm::dyn_cast<mlir::FloatType>(element))
    return type.getWidth() <= 8;
  auto type = llvm::dyn_cast<mlir::IntegerType>(element);
  return type && type.getWidth() > 1 && type.getWidth() < 8;
}

/// Whether elements are floats that ops compute with.
inline bool isComputedFloat(mlir::Type element) {
  return llvm::isa<mlir::FloatType>(element) && !isNarrow(element);
}

/// The code of a number of a narrow type.
inline uint64_t codeOf(mlir::Attribute number) {
  if (auto real = llvm::dyn_cast<mlir::FloatAttr>(number))
    return real.getValue().bitcastToAPInt().getZExtValue();
  return llvm::cast<mlir::IntegerAttr>(number).getValue().getZExtValue();
}

} // namespace kerf

#endif // KERF_SUPPORT_NARROWTYPES_H
