//===- FunctionOrder.h - the groups of a function, in order -----*- C++ -*-===//
//
// When each op of a function runs, and with which others, as lowering will have
// it: groups are formed (kerf/Fusion/Groups.h), what is cheap is computed twice
// where memory is slow (ComputedTwice.h), and groups run in lowering's order.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MEMORY_FUNCTIONORDER_H
#define KERF_LIB_PLAN_MEMORY_FUNCTIONORDER_H

#include "FusionAnswers.h"

namespace kerf::plan {

/// The groups of a function, and when each runs.
class FunctionOrder {
public:
  void form(mlir::Block &block, const FunctionQuestions &questions);

  /// The time at which an op runs; its place in the block if it is in no group.
  int64_t timeOf(mlir::Operation *op) const;
  /// Whether the group of `a` computes `b`, perhaps again.
  bool isTogether(mlir::Operation *a, mlir::Operation *b) const {
    return map.find(a) >= 0 && map.computes(map.find(a), b);
  }
  /// When an op runs that reads from memory what `maker` (null: another
  /// function) has computed: without the kernels that compute it themselves.
  llvm::SmallVector<int64_t, 2> readTimesOf(mlir::Operation *maker,
                                            mlir::Operation *reader) const;
  /// Whether the op is computed by a library.
  bool isCall(mlir::Operation *op) const {
    return map.find(op) >= 0 && !map.groups[map.find(op)].isKernel;
  }
  /// The concatenation in whose memory a value is written; null: none.
  mlir::Value placeOf(mlir::Value memory) const {
    return places.lookup(memory);
  }
  /// The values that are written in the memory of a concatenation.
  llvm::ArrayRef<mlir::Value> writtenIn(mlir::Value whole) const {
    auto found = parts.find(whole);
    return found == parts.end() ? llvm::ArrayRef<mlir::Value>()
                                : llvm::ArrayRef(found->second);
  }
  llvm::ArrayRef<mlir::Operation *> togetherWith(mlir::Operation *op) const {
    int64_t group = map.find(op);
    return group < 0 ? llvm::ArrayRef<mlir::Operation *>()
                     : map.groups[group].ops;
  }

private:
  void placeShapeOps(mlir::Block &block, const FusionQuestions &questions);

  FusionGroups map;
  llvm::DenseMap<mlir::Value, mlir::Value> places; ///< of parts of joins
  /// Of joins, the other way round.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> parts;
  std::vector<int64_t> times; ///< per group
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MEMORY_FUNCTIONORDER_H
