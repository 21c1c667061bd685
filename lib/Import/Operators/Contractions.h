//===- Contractions.h - products that several operators have ----*- C++ -*-===//
#ifndef KERF_LIB_IMPORT_OPERATORS_CONTRACTIONS_H
#define KERF_LIB_IMPORT_OPERATORS_CONTRACTIONS_H

#include "../Graph/Node.h"

namespace kerf::onnx_import {

/// alpha op(A) op(B) + beta C of a node's inputs, by the attributes of Gemm;
/// null after reporting what does not fit.
mlir::Value multiplyAndAdd(Node &node);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_OPERATORS_CONTRACTIONS_H
