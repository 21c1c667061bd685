//===- Bufferize.h - a function of groups as calls on buffers ---*- C++ -*-===//
//
// Problem: what is computed together (exec.group) becomes calls on buffers,
// and what is computed from parameters alone a function that runs at load.
//
// Idea: each op in turn gets buffers for its results: where a result is
// returned, the caller's; where it is constant, a parameter; where it is
// written over an old value, that one's; else a buffer of the arena. Reshapes
// and slices are views.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_BUFFERIZE_BUFFERIZE_H
#define KERF_LIB_LOWER_BUFFERIZE_BUFFERIZE_H

#include "../Parameters.h"

#include "kerf/Exec/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {

/// What all functions of a program share: numbers of entries.
struct ProgramState {
  explicit ProgramState(mlir::ModuleOp module) : parameters(module) {}
  ParameterTable parameters;
  int64_t numCollectives = 0;
  llvm::MapVector<dist::AxesAttr, int64_t> shardIndices;
};

/// Adds kernels and functions for a function of groups in front of it. Errors
/// are emitted at the op that cannot be lowered.
mlir::LogicalResult bufferizeFunction(mlir::func::FuncOp function,
                                      int64_t stage, exec::Phase phase,
                                      llvm::StringRef name,
                                      ProgramState &state);

} // namespace kerf

#endif // KERF_LIB_LOWER_BUFFERIZE_BUFFERIZE_H
