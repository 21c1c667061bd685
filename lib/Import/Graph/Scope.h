//===- Scope.h - names and the values that they have ------------*- C++ -*-===//
//
// ONNX names are visible in their graph and in the subgraphs within it; a local
// function sees only its arguments. A name whose node failed or is unsupported
// has a null value, and nodes that use it are skipped without a message, so
// that the report has every cause once and no consequences.
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_GRAPH_SCOPE_H
#define KERF_LIB_IMPORT_GRAPH_SCOPE_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include "onnx.pb.h"

namespace kerf::onnx_import {

struct Scope {
  const Scope *parent = nullptr;
  /// Null values are names whose node failed.
  llvm::StringMap<mlir::Value> values;
  /// Inputs of a function that the call omits.
  llvm::StringSet<> absent;
  /// Attributes of the call, for functions.
  llvm::StringMap<const onnx::AttributeProto *> attributes;
  /// Operator set versions by domain.
  llvm::StringMap<int64_t> opsets;
  /// Prefix of node names, "caller/".
  std::string prefix;

  bool isAbsent(llvm::StringRef name) const {
    for (const Scope *scope = this; scope; scope = scope->parent)
      if (scope->absent.contains(name))
        return true;
    return false;
  }
  /// The value, or none if the name is not defined.
  std::optional<mlir::Value> lookup(llvm::StringRef name) const {
    for (const Scope *scope = this; scope; scope = scope->parent)
      if (auto found = scope->values.find(name); found != scope->values.end())
        return found->second;
    return std::nullopt;
  }
};

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_GRAPH_SCOPE_H
