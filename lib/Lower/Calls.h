//===- Calls.h - library calls and collectives as exec ops ------*- C++ -*-===//
//
// Turns a selected call (LibraryCall.h) or an op of dist into the op of exec
// that does the same on buffers.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_CALLS_H
#define KERF_LIB_LOWER_CALLS_H

#include "Library/LibraryCall.h"

#include "kerf/Exec/Exec.h"
#include "kerf/Support/ModelNode.h"

namespace kerf {

/// A phase as packages name it.
exec::Phase toPhase(dist::Phase phase);

/// The phase of an op of tensors; null: forward.
exec::PhaseAttr phaseOf(mlir::Operation *op);

/// How operands of the new op are found.
struct CallPlaces {
  /// The operand for the base of a view.
  llvm::function_ref<mlir::Value(mlir::Value base)> read;
  /// The operand into which a result is written.
  llvm::function_ref<mlir::Value(mlir::Value result)> write;
};

/// Adds library call number `index`, on tensors. Asks for operands in the order
/// of the op's, destinations last.
exec::LibraryCallInterface emitLibraryCall(mlir::OpBuilder &builder,
                                           const LibraryCall &call,
                                           int64_t index, CallPlaces places);

/// Adds collective number `index` for an op of dist; returns its event if it is
/// only started.
mlir::Value emitCollective(mlir::OpBuilder &builder, mlir::Operation *op,
                           int64_t index, mlir::Value source,
                           mlir::Value result, bool starts);

} // namespace kerf

#endif // KERF_LIB_LOWER_CALLS_H
