//===- DimBlocks.h - block sizes of dimensions ------------------*- C++ -*-===//
//
// Example: 12 heads of 64 columns on 8 devices. The dimension of the heads lies
// in blocks of two, so the 768 columns that are reshaped to heads must lie in
// blocks of 128, not of 96; otherwise each attention starts and ends with an
// exchange. A reshape gives such a dimension its *unit*, 64, and the unit holds
// for all dimensions that are cut together with it: of the projections, their
// weights, gradients and the optimizer's state. A hint gives blocks directly.
//
// Block sizes (a unit, or a block for a number of shards) start at reshapes and
// hints and are propagated along the factors of sharding rules, from dimension
// to dimension, until nothing changes. Each round is linear in the ops; there
// are few rounds. A block size is multiplied by the minor factors of a
// dimension where it enters it, and divided by them where it leaves.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MODEL_DIMBLOCKS_H
#define KERF_LIB_PLAN_MODEL_DIMBLOCKS_H

#include "kerf/Plan/OpRules.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <memory>

namespace kerf::plan {

struct BlockSize {
  /// 0: `size` is a unit. Else: cut into `shards` parts, a dimension may lie in
  /// blocks of `size`, whatever the padding.
  int64_t shards = 0;
  int64_t size = 1;

  bool operator==(const BlockSize &other) const {
    return shards == other.shards && size == other.size;
  }
  bool operator<(const BlockSize &other) const {
    return std::tie(shards, size) < std::tie(other.shards, other.size);
  }
};
/// Of a dimension or of a factor; sorted.
using BlockSizes = llvm::SmallVector<BlockSize, 1>;

class DimBlocks {
public:
  /// The block sizes that follow from the function's reshapes.
  DimBlocks(mlir::func::FuncOp function, const OpRules &rules);

  /// Adds a block size to a dimension of a value; spread() propagates it.
  void add(mlir::Value value, size_t dim, BlockSize blockSize);
  void spread();

  /// Per dimension; empty where no dimension has any.
  llvm::ArrayRef<BlockSizes> of(mlir::Value value) const;
  /// Per factor of the op's rule; empty where no factor has any.
  std::vector<BlockSizes> ofFactors(mlir::Operation *op,
                                    const ShardingRule &rule) const;
  /// Whether two ops of the same types have equal block sizes.
  bool areAlike(mlir::Operation *a, mlir::Operation *b) const;

private:
  struct Node {
    mlir::Operation *op;
    ShardingRule rule;
  };
  /// Updates block sizes of the op's factors from its tensors, then of its
  /// tensors from its factors.
  bool visit(const Node &node);

  std::shared_ptr<const std::vector<Node>> nodes;
  llvm::DenseMap<mlir::Value, std::vector<BlockSizes>> blockSizes;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MODEL_DIMBLOCKS_H
