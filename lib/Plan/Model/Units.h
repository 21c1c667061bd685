//===- Units.h - in which blocks dimensions may lie -------------*- C++ -*-===//
//
// 12 heads of 64 columns on 8 devices: the heads' dimension lies in blocks of
// two, so the 768 columns of which a reshape makes them must lie in blocks of
// 128, not of 96, or every attention is entered and left by an exchange. A
// reshape gives such a dimension its *unit*, 64, and the unit holds for all
// dimensions that are cut with it: of the projections, their weights, gradients
// and the optimizer's state. A hint gives blocks themselves.
//
// Marks (a unit, or a block for a number of shards) start at reshapes and hints
// and spread along the factors of sharding rules, from dimension to dimension,
// until nothing changes: linear in the ops for each round, of which there are
// few. A mark grows by the minor factors where it enters a dimension that has
// some, and shrinks by them where it leaves.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MODEL_UNITS_H
#define KERF_LIB_PLAN_MODEL_UNITS_H

#include "kerf/Interfaces/ShardingRule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <memory>

namespace kerf::plan {

struct Mark {
  /// 0: `size` is a unit; else: cut so many ways, a dimension may lie in blocks
  /// of `size`, however much padding that is.
  int64_t shards = 0;
  int64_t size = 1;

  bool operator==(const Mark &other) const {
    return shards == other.shards && size == other.size;
  }
  bool operator<(const Mark &other) const {
    return std::tie(shards, size) < std::tie(other.shards, other.size);
  }
};
/// Sorted. Of a dimension, or of a factor.
using Marks = llvm::SmallVector<Mark, 1>;

class Units {
public:
  /// Those of the function's reshapes.
  explicit Units(mlir::func::FuncOp function);

  /// Adds a mark to a dimension of a value; spread() takes it further.
  void add(mlir::Value value, size_t dim, Mark mark);
  void spread();

  /// Per dimension; empty where no dimension has any.
  llvm::ArrayRef<Marks> of(mlir::Value value) const;
  /// Per factor of the op's rule; empty where no factor has any.
  std::vector<Marks> ofFactors(mlir::Operation *op,
                               const ShardingRule &rule) const;
  /// Whether two ops of the same types have equal marks.
  bool areAlike(mlir::Operation *a, mlir::Operation *b) const;

private:
  struct Node {
    mlir::Operation *op;
    ShardingRule rule;
  };
  /// Marks of the op's tensors, then what its factors make of them.
  bool visit(const Node &node);

  std::shared_ptr<const std::vector<Node>> nodes;
  llvm::DenseMap<mlir::Value, std::vector<Marks>> marks;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MODEL_UNITS_H
