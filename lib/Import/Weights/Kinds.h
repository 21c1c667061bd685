//===- Kinds.h - what a weight was in the module ----------------*- C++ -*-===//
#ifndef KERF_LIB_IMPORT_WEIGHTS_KINDS_H
#define KERF_LIB_IMPORT_WEIGHTS_KINDS_H

#include "onnx.pb.h"

#include "mlir/IR/Value.h"

#include "llvm/ADT/StringRef.h"

namespace kerf::onnx_import {

/// As PyTorch's exporter writes it beside a weight; else empty.
llvm::StringRef kindOf(const onnx::ValueInfoProto &info);
inline bool isParameterKind(llvm::StringRef kind) {
  return kind == "PARAMETER";
}
/// What the framework does not train.
inline bool isBufferKind(llvm::StringRef kind) {
  return kind == "BUFFER" || kind == "CONSTANT_TENSOR";
}

/// Whether a constant without dimensions is of the size of numbers that layers
/// learn: no infinity or bound of a mask, and nothing that keeps a divisor from
/// 0.
bool isOfLearnedSize(mlir::Value number);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_WEIGHTS_KINDS_H
