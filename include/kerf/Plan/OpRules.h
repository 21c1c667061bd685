//===- OpRules.h - the sharding rules of a function's ops -------*- C++ -*-===//
//
// A rule is worked out once: those of other dialects may be slow to make, and
// every part of planning asks for them.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PLAN_OPRULES_H
#define KERF_PLAN_OPRULES_H

#include "kerf/Interfaces/ShardingRule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf::plan {

class OpRules {
public:
  OpRules() = default;
  /// Of all ops of a function of one block.
  explicit OpRules(mlir::func::FuncOp function);

  void add(mlir::Operation *op, ShardingRule rule) {
    rules.try_emplace(op, std::move(rule));
  }
  /// The rule of an op of the function.
  const ShardingRule &of(mlir::Operation *op) const {
    return rules.find(op)->second;
  }
  bool empty() const { return rules.empty(); }

private:
  llvm::DenseMap<mlir::Operation *, ShardingRule> rules;
};

} // namespace kerf::plan

#endif // KERF_PLAN_OPRULES_H
