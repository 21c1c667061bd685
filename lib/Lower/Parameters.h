//===- Parameters.h - the parameters of a package ---------------*- C++ -*-===//
//
// Problem: the same weight is used by several functions, by library calls
// (which keep packed copies) and by kernels, whole or in parts.
//
// Idea: one table. Sources with equal content, view, sharding and local type
// are one parameter; each use says in which stage it is and whether a kernel
// needs the plain data. A mutable source is identified by its name and the
// start of its view: all functions that read or assign it use the same memory.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_PARAMETERS_H
#define KERF_LIB_LOWER_PARAMETERS_H

#include "kerf/Dist/Dist.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <set>

namespace kerf {

class ParameterTable {
public:
  explicit ParameterTable(mlir::ModuleOp module) : module(module) {}

  /// The parameter of an nn.weight, nn.state or nn.constant used by a stage.
  /// `libraryOnly`: by a library call that packs it; `inInit`: at load.
  /// Emits an error where uses of a mutable source differ.
  int64_t get(mlir::Operation *source, int64_t stage, bool libraryOnly,
              bool inInit);
  bool hadErrors() const { return failed; }
  /// A new parameter that the init function of a stage computes.
  int64_t addDerived(llvm::StringRef name, mlir::RankedTensorType type,
                     int64_t stage);
  /// Another use of a derived parameter.
  void use(int64_t index, bool libraryOnly);

  /// Makes a parameter that steps of some stages read, and other stages at load
  /// alone, two: the other stages keep nothing of theirs.
  void separateInits();
  /// Adds an exec.parameter for each to the end of the module.
  void emit(mlir::OpBuilder &builder, int64_t numStages);

private:
  struct Parameter {
    Parameter(mlir::Location loc, mlir::MemRefType type)
        : loc(loc), type(type) {}
    std::string name;
    mlir::Location loc;
    mlir::MemRefType type;
    mlir::Attribute source;
    mlir::StringAttr tensor; ///< the stored tensor, if its name differs
    mlir::TypeAttr global;   ///< type of the whole tensor, if it differs
    mlir::DenseI64ArrayAttr starts;
    dist::ShardingAttr sharding;
    bool isMutable = false;
    std::set<int64_t> stages;     ///< stages that use it, at load or in steps
    std::set<int64_t> stepsOf;    ///< stages whose steps use it
    std::set<int64_t> readAtLoad; ///< stages that read it, unpacked, at load
    bool libraryOnly = true, initOnly = true;
    bool isPackedBySteps = true; ///< all steps that use it read it packed
  };

  mlir::ModuleOp module;
  llvm::MapVector<mlir::Attribute, int64_t> byContent;
  llvm::StringMap<mlir::Attribute> mutableContent; ///< by identity
  std::vector<Parameter> parameters;
  int64_t numConstants = 0;
  bool failed = false;
};

/// Whether the op is a source to which steps give new values.
bool isMutableSource(mlir::Operation *op);
/// The identity of a mutable source: its name and the start of its view.
std::string mutableIdentity(mlir::Operation *op);

} // namespace kerf

#endif // KERF_LIB_LOWER_PARAMETERS_H
