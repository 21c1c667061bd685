//===- Traffic.h - what ops move through memory -----------------*- C++ -*-===//
//
// Problem: lowering computes many ops in one kernel. What one of them makes for
// another stays in registers, and the kernel is launched once. Ops that are
// priced one by one, each with its operands and results and a launch, made a
// training step of GPT-2 five times as long as it was on an H100.
//
// Idea: the groups of the function with nothing cut (FunctionOrder.h) say which
// operands are read from memory, by the first op of a group that needs them,
// and which results are written there. An op is charged for these alone, and
// the first op of a group for its launch. So the price of a group is the sum of
// what its ops are charged, whatever each of them cuts.
//
// What this leaves out: a move between two ops of a group, which is charged by
// itself, also makes both sides go through memory.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MODEL_TRAFFIC_H
#define KERF_LIB_PLAN_MODEL_TRAFFIC_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallBitVector.h"

namespace kerf::plan {

/// What of an op goes through memory.
struct OpTraffic {
  /// By their numbers: operands that are not read, and results that are not
  /// written, for the op. Empty: all are.
  llvm::SmallBitVector unread, unwritten;
  bool isLaunched = true; ///< charged for a launch
  bool isFree = false;    ///< computed at load, or not at all

  bool operator==(const OpTraffic &other) const {
    return unread == other.unread && unwritten == other.unwritten &&
           isLaunched == other.isLaunched && isFree == other.isFree;
  }
};

class Traffic {
public:
  explicit Traffic(mlir::func::FuncOp function);

  const OpTraffic &of(mlir::Operation *op) const {
    auto found = known.find(op);
    return found == known.end() ? all : found->second;
  }

private:
  llvm::DenseMap<mlir::Operation *, OpTraffic> known;
  OpTraffic all;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MODEL_TRAFFIC_H
