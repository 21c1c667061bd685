//===- Recompute.h - blocks that are computed twice -------------*- C++ -*-===//
//
// Recomputation (activation checkpointing): of a block of a training step's
// forward pass only what goes into it and comes out of it is held; what the
// backward pass reads of it besides is computed again in front of the block's
// backward ops. Less memory, more work.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PLAN_RECOMPUTE_H
#define KERF_PLAN_RECOMPUTE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace kerf::plan {

/// How many blocks of the forward pass of a step there are.
size_t countBlocks(mlir::func::FuncOp function);

/// Makes ops that compute the block again, marks them (`recomputed` of
/// dist.step) and gives all ops of the block and of its backward pass one
/// colocation. Blocks are those of a function of which nothing is recomputed
/// yet; `chosen` in ascending order. Whether anything changed: the backward
/// pass may read nothing else than what is held.
bool recomputeBlocks(mlir::func::FuncOp function,
                     llvm::ArrayRef<size_t> chosen);
/// The same for the first block of every `every`, from the first one on;
/// 1: all blocks, 0: none.
bool recomputeEvery(mlir::func::FuncOp function, int64_t every);

/// The numbers of the blocks in which the named values are made; `names` as
/// plan.json has them. On failure the name that is in no block is returned in
/// `unknown`.
mlir::FailureOr<std::vector<size_t>> blocksOf(mlir::func::FuncOp function,
                                              llvm::ArrayRef<std::string> names,
                                              std::string &unknown);

} // namespace kerf::plan

#endif // KERF_PLAN_RECOMPUTE_H
