//===- Blocks.h - blocks of a step's forward pass ---------------*- C++ -*-===//
//
// Problem: recomputation holds what goes from one block of the forward pass to
// the next, and computes the rest again. The function has ops, no blocks.
//
// Idea: layers repeat. The longest run of ops that repeats itself is cut into
// its repetitions, where the fewest bytes cross; what lies in front of it and
// behind it is searched in the same way; what then lies between two blocks is a
// block, too (the first layer of each part of a ResNet), and so is what lies in
// front of all if the backward pass reads more of it than crosses behind it. A
// function in which nothing repeats is cut where one value alone crosses, at
// about the square root of such places (Chen et al., Training Deep Nets with
// Sublinear Memory Cost, 2016).
//
// Ops are alike if their names and types are. O(ops^2) comparisons of numbers.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_RECOMPUTE_BLOCKS_H
#define KERF_LIB_PLAN_RECOMPUTE_BLOCKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace kerf::plan {

/// Bytes of a value on all devices.
int64_t wholeBytes(mlir::Value value);
/// Whether the op is of the backward pass.
bool isBackward(mlir::Operation *op);

/// The ops of the forward pass in program order that depend on an input: no
/// sources, nothing of the loss, no sums over micro-batches.
llvm::SmallVector<mlir::Operation *> forwardOps(mlir::func::FuncOp function);

/// A part [begin, end) of forwardOps().
struct OpRange {
  size_t begin, end;
};

/// The blocks in order. They do not overlap; ops may be in none.
std::vector<OpRange> findBlocks(llvm::ArrayRef<mlir::Operation *> ops);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_RECOMPUTE_BLOCKS_H
