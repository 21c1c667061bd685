//===- FusionGroup.h - which ops become one kernel --------------*- C++ -*-===//
//
// Problem: cut what no library call took into as few passes over memory as code
// generation can do.
//
// Idea: groups are formed greedily: in program order each op opens a group and
// draws in the groups of its operands as long as code generation takes the
// union (canFuse) and no path leads out of the union and back into it. Ops that
// only move elements were sunk to their users and belong to them; they become a
// group of their own only where somebody needs them in memory, and stay views
// where they are that (isAlias).
//
// What is computed at load (exec.at_load) forms groups among itself.
//
// Invariant: groups are disjoint, cover every op that is neither a source nor a
// terminator, and the graph of groups has no cycle. O(ops x groups) at worst.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_FUSION_FUSIONGROUP_H
#define KERF_LIB_LOWER_FUSION_FUSIONGROUP_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace kerf {

/// Larger groups only cost compile time.
inline constexpr size_t kMaxKernelOps = 96;

struct FusionGroup {
  /// In block order; one op where that is no kernel: a view, a library call, a
  /// collective. Empty: merged into another.
  llvm::SmallVector<mlir::Operation *> ops;
  bool isKernel = false, isAtLoad = false;
};

/// What groups and ops know of each other while groups are formed.
struct FusionGroups {
  std::vector<FusionGroup> groups;
  llvm::DenseMap<mlir::Operation *, int64_t> groupOf;
  /// Of ops in the block; copies have the number of what they copy.
  llvm::DenseMap<mlir::Operation *, int64_t> position;
};

/// The groups of a block whose shape ops and inline constants are sunk
/// (sink-shape-ops). Fails, with an error, only where code generation refuses a
/// single op.
mlir::FailureOr<FusionGroups> formFusionGroups(mlir::Block &block);

/// The groups, but for those that were merged, in an order in which they can
/// run; see GroupOrder.cpp.
llvm::SmallVector<int64_t> orderOf(const FusionGroups &map);

/// Lets kernels compute anew what they would read from a kernel before them,
/// where that moves less memory; see Recompute.cpp.
void recomputeValues(FusionGroups &map);

} // namespace kerf

#endif // KERF_LIB_LOWER_FUSION_FUSIONGROUP_H
