//===- Activations.h - activations that an attribute names ------*- C++ -*-===//
#ifndef KERF_LIB_IMPORT_OPERATORS_ACTIVATIONS_H
#define KERF_LIB_IMPORT_OPERATORS_ACTIVATIONS_H

#include "../Graph/Node.h"

namespace kerf::onnx_import {

/// Whether the activation of this name has a first and a second number.
std::pair<bool, bool> numbersOfActivation(llvm::StringRef name);

/// The activation of recurrent cells and fused operators, with ONNX's numbers
/// where none are given. Null for null, and after reporting another name.
mlir::Value applyActivation(Node &node, llvm::StringRef name, mlir::Value x,
                            std::optional<double> alpha,
                            std::optional<double> beta);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_OPERATORS_ACTIVATIONS_H
