//===- DescribeType.h - types in messages -----------------------*- C++ -*-===//
#ifndef KERF_SUPPORT_DESCRIBETYPE_H
#define KERF_SUPPORT_DESCRIBETYPE_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace kerf {

/// As users write it: f32 16x8, i64 [16], f32.
inline std::string describeType(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
  if (!tensor) {
    stream << type;
    return text;
  }
  stream << tensor.getElementType();
  if (tensor.getRank() == 1)
    stream << " [" << tensor.getDimSize(0) << "]";
  else if (tensor.getRank() > 1)
    llvm::interleave(tensor.getShape(), stream << " ", "x");
  return text;
}

} // namespace kerf

#endif // KERF_SUPPORT_DESCRIBETYPE_H
