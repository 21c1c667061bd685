//===- Lives.h - from when to when buffers are needed -----------*- C++ -*-===//
#ifndef KERF_LIB_LOWER_BUFFERIZE_LIVES_H
#define KERF_LIB_LOWER_BUFFERIZE_LIVES_H

#include "kerf/Exec/Exec.h"
#include "kerf/Fusion/Arena.h"

#include "llvm/ADT/MapVector.h"

namespace kerf {

/// The buffer that a view is part of.
mlir::Value baseOf(mlir::Value buffer);

/// Lives of the arena buffers of a function: from the first to the last use,
/// views included, in steps of its list of ops. A collective that was started
/// holds its buffers until the wait. -1: nobody uses it.
struct Lives {
  explicit Lives(exec::FuncOp function);

  llvm::MapVector<mlir::Value, ArenaBuffer> buffers;

private:
  void use(mlir::Value value, int64_t step);
};

} // namespace kerf

#endif // KERF_LIB_LOWER_BUFFERIZE_LIVES_H
