//===- Bufferize.h - a function of groups as calls on buffers ---*- C++ -*-===//
//
// Problem: groups (exec.group) become calls on buffers, and computations on
// parameters alone become a function that runs at load.
//
// Idea: each op in turn gets buffers for its results: for a returned result the
// caller's buffer; for a constant one a parameter; for one that is written over
// an old value the buffer of that value; else a buffer of the arena. Reshapes
// and slices are views.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_BUFFERIZE_BUFFERIZE_H
#define KERF_LIB_LOWER_BUFFERIZE_BUFFERIZE_H

#include "../Parameters.h"

#include "kerf/Exec/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {

/// Shared by all functions of a program: the numbers of entries.
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
