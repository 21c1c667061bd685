//===- Parameters.h - the parameters of a package ---------------*- C++ -*-===//
//
// Problem: the same weight is used by several functions, by library calls
// (which keep packed copies) and by kernels, whole or in parts.
//
// Idea: one table. Sources with equal content, view, sharding and local type
// are one parameter; each use says which stage it is of and whether a kernel
// needs the plain data.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_PARAMETERS_H
#define KERF_LIB_LOWER_PARAMETERS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

#include <set>

namespace kerf {

class ParameterTable {
public:
  explicit ParameterTable(mlir::ModuleOp module) : module(module) {}

  /// The parameter of an nn.weight or nn.constant used by a stage.
  /// `libraryOnly`: by a library call that packs it.
  int64_t get(mlir::Operation *source, int64_t stage, bool libraryOnly);
  /// A new parameter that the init function of a stage computes.
  int64_t addDerived(llvm::StringRef name, mlir::RankedTensorType type,
                     int64_t stage);
  /// Another use of a derived parameter.
  void use(int64_t index, bool libraryOnly);

  /// Adds an exec.parameter for each to the end of the module.
  void emit(mlir::OpBuilder &builder, int64_t numStages);

private:
  struct Parameter {
    std::string name;
    mlir::Location loc;
    mlir::DictionaryAttr entry, source; ///< without stages and library_only
    mlir::MemRefType type;
    std::set<int64_t> stages;
    bool libraryOnly = true;
  };

  mlir::ModuleOp module;
  llvm::MapVector<mlir::Attribute, int64_t> byContent;
  std::vector<Parameter> parameters;
  int64_t numConstants = 0;
};

/// A sharding as the manifest writes it: one list of axes per dimension.
mlir::ArrayAttr shardingEntry(mlir::Operation *op, mlir::Attribute sharding,
                              int64_t rank);
/// A list of axes as the manifest writes it.
mlir::ArrayAttr axesEntry(mlir::MLIRContext *context, mlir::Attribute axes);

} // namespace kerf

#endif // KERF_LIB_LOWER_PARAMETERS_H
