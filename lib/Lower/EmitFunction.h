//===- EmitFunction.h - a function of tensor ops as calls -------*- C++ -*-===//
//
// Problem: units of tensor ops become calls on buffers, and what is computed
// from parameters alone becomes a function that runs at load.
//
// Idea: each unit in turn gets buffers for its results: where a result is
// returned, the caller's; where it is constant, a parameter; else a buffer of
// the arena. Reshapes are views.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_EMITFUNCTION_H
#define KERF_LIB_LOWER_EMITFUNCTION_H

#include "Parameters.h"

#include "kerf/Exec/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {

/// What all functions of a program share: numbers of entries.
struct ProgramState {
  explicit ProgramState(mlir::ModuleOp module) : parameters(module) {}
  ParameterTable parameters;
  int64_t numKernels = 0, numLibrary = 0, numCollectives = 0;
  llvm::MapVector<dist::AxesAttr, int64_t> shardIndices;
};

struct EmittedFunction {
  exec::FuncOp forward;
  exec::FuncOp init; ///< null if nothing is computed at load
};

/// Adds kernels and functions for a (simplified) function in front of it.
/// Errors are emitted at the op that cannot be lowered.
mlir::FailureOr<EmittedFunction> emitFunction(mlir::func::FuncOp function,
                                              int64_t stage, exec::Phase phase,
                                              llvm::StringRef name,
                                              ProgramState &state);

} // namespace kerf

#endif // KERF_LIB_LOWER_EMITFUNCTION_H
