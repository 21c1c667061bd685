//===- Calls.h - library calls and collectives as exec ops ------*- C++ -*-===//
//
// What was selected (LibraryCall.h), or an op of dist, becomes the op of exec
// that says the same about buffers.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_CALLS_H
#define KERF_LIB_LOWER_CALLS_H

#include "Library/LibraryCall.h"

#include "kerf/Exec/Exec.h"

namespace kerf {

/// The node's name in the model: the innermost name of the location.
std::string modelNode(mlir::Location loc);

/// A phase as packages name it.
exec::Phase toPhase(dist::Phase phase);

/// The phase of an op of tensors; null: forward.
exec::PhaseAttr phaseOf(mlir::Operation *op);

/// Where a call finds what it reads and writes.
struct CallPlaces {
  /// The operand for the base of a view.
  llvm::function_ref<mlir::Value(mlir::Value base)> read;
  /// The operand into which a result is written.
  llvm::function_ref<mlir::Value(mlir::Value result)> write;
};

/// Adds library call number `index`, on tensors. Operands are asked for in the
/// order of the op's, what is written last.
exec::LibraryCallInterface emitLibraryCall(mlir::OpBuilder &builder,
                                           const LibraryCall &call,
                                           int64_t index, CallPlaces places);

/// Adds collective number `index` for an op of dist; its event if it is only
/// started.
mlir::Value emitCollective(mlir::OpBuilder &builder, mlir::Operation *op,
                           int64_t index, mlir::Value source,
                           mlir::Value result, bool starts);

} // namespace kerf

#endif // KERF_LIB_LOWER_CALLS_H
