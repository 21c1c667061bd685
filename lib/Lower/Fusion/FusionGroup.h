//===- FusionGroup.h - which ops become one kernel --------------*- C++ -*-===//
//
// What no library call took is cut into as few passes over memory as code
// generation can do. How groups are formed and ordered stands in
// kerf/Fusion/Groups.h; here are lowering's answers: code generation says what
// one kernel takes (canFuse). Ops that only move elements were sunk to their
// users and belong to them; they become a group of their own only where
// somebody needs them in memory, and stay views where they are that (isAlias).
// What is computed at load (exec.at_load) forms groups among itself.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_FUSION_FUSIONGROUP_H
#define KERF_LIB_LOWER_FUSION_FUSIONGROUP_H

#include "kerf/Fusion/Groups.h"

namespace kerf {

/// The groups of a block whose shape ops and inline constants are sunk
/// (sink-shape-ops). Fails, with an error, only where code generation refuses a
/// single op.
mlir::FailureOr<FusionGroups> formLocalGroups(mlir::Block &block);

/// The order in which they run, but for what is known later (BlockOrder.h).
llvm::SmallVector<int64_t> localOrderOf(const FusionGroups &map);

/// Lets kernels compute anew what they would read from a kernel before them,
/// where that moves less memory; see Recompute.cpp.
void recomputeValues(FusionGroups &map);

} // namespace kerf

#endif // KERF_LIB_LOWER_FUSION_FUSIONGROUP_H
