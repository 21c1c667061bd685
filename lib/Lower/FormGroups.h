//===- FormGroups.h - a function of tensor ops as groups --------*- C++ -*-===//
//
// Problem: which ops are computed together, in what order, and what is written
// over what should be seen, and tested, before there are buffers.
//
// Idea: the units of a function (Units.h) become ops in the order in which they
// can run: a generated kernel exec.group, a library call the op of exec that
// says what it takes in, a view nn.reshape or nn.slice, anything else the op
// that it was. Where a result is written is an operand: exec.empty, or the old
// value of what a step changes in place.
//
// Invariant: the function computes what it did. Groups and calls carry the
// numbers that they have in the program, in the order of functions, and what is
// computed at load first.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_FORMGROUPS_H
#define KERF_LIB_LOWER_FORMGROUPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {

/// Numbers of the program's kernels and library calls so far.
struct CallNumbers {
  int64_t kernels = 0, library = 0;
};

/// Errors are emitted at an op that cannot be lowered.
mlir::LogicalResult formGroups(mlir::func::FuncOp function,
                               CallNumbers &numbers);

/// For each result of a function the argument in whose place it lies, of which
/// it is the sum over micro-batches; -1: none.
llvm::SmallVector<int64_t> accumulators(mlir::func::FuncOp function);

} // namespace kerf

#endif // KERF_LIB_LOWER_FORMGROUPS_H
