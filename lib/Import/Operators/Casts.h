//===- Casts.h - conversions as ONNX has them -------------------*- C++ -*-===//
#ifndef KERF_LIB_IMPORT_OPERATORS_CASTS_H
#define KERF_LIB_IMPORT_OPERATORS_CASTS_H

#include "../Graph/Node.h"

namespace kerf::onnx_import {

/// How numbers become floats of 8 bits.
struct Conversion {
  bool saturates = true;
  /// Of float8e8m0 alone.
  enum class Rounding { Up, Down, Nearest } rounding = Rounding::Up;
};

/// `x` as this type, by the rules of Cast.
mlir::Value convert(Node &node, mlir::Value x, mlir::Type element,
                    Conversion how);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_OPERATORS_CASTS_H
