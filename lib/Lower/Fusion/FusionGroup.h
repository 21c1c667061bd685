//===- FusionGroup.h - which ops become one kernel --------------*- C++ -*-===//
//
// Lowering's answers to the questions of kerf/Fusion/Groups.h, which forms and
// orders the groups of ops that no library call computes. Code generation
// decides what one kernel can compute (canFuse). Shape ops were sunk to their
// users (kerf-sink-shape-ops) and belong to them; one becomes a group of its
// own only if its result must be in memory, and is then a view if possible
// (isAlias). Ops that are computed at load (exec.at_load) form groups of their
// own.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_FUSION_FUSIONGROUP_H
#define KERF_LIB_LOWER_FUSION_FUSIONGROUP_H

#include "kerf/Fusion/Groups.h"

namespace kerf {

/// The groups of a block whose shape ops and inline constants are sunk
/// (kerf-sink-shape-ops). Fails, with an error, only where code generation
/// refuses a single op.
mlir::FailureOr<FusionGroups> formLocalGroups(mlir::Block &block);

/// The order in which they run, before the dependences of BlockOrder.h are
/// known.
llvm::SmallVector<int64_t> localOrderOf(const FusionGroups &map);

/// Lets a kernel recompute values that it would read from an earlier kernel, if
/// that moves fewer bytes; see Recompute.cpp.
void recomputeValues(FusionGroups &map);

} // namespace kerf

#endif // KERF_LIB_LOWER_FUSION_FUSIONGROUP_H
