//===- Strategies.h - the legal ways to cut one op --------------*- C++ -*-===//
//
// A strategy puts mesh axes on the factors of an op's sharding rule; layouts of
// operands and results follow. Per axis there is: nothing (the op is repeated),
// the whole axis on one factor, its major part on a factor that the whole does
// not divide (12 heads on 8 devices) with the rest elsewhere, or passing a
// partial sum through a group of operands in which the op is linear. Axes
// combine freely, so an op has about (factors + 2)^axes strategies. A factor
// with block sizes (DimBlocks.h) may also lie in larger blocks than of ceiling
// size.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MODEL_STRATEGIES_H
#define KERF_LIB_PLAN_MODEL_STRATEGIES_H

#include "DimBlocks.h"
#include "Layouts.h"

#include "kerf/Dist/Dist.h"

namespace kerf::plan {

struct Strategy {
  llvm::SmallVector<LayoutId, 4> operands;
  llvm::SmallVector<LayoutId, 1> results;
  /// Every factor divided by the shards on it; what OpCost is asked about
  /// follows from the layouts.
};

struct StrategyOptions {
  /// Shards that do not divide a factor are offered up to this much padding
  /// (1.25: a quarter more than the factor).
  double maxPadding = 1.25;
  /// The factor that runs over the batch; takes the time axis, and is the only
  /// one for Batch axes.
  std::optional<unsigned> batchFactor;
  /// Samples in the batch: the batch factor is cut between samples.
  int64_t batchSize = 1;
  /// Whether the op belongs to the whole step: it then has no time axis.
  bool isOfStep = false;
  /// The linear group through which sums over micro-batches pass.
  std::optional<unsigned> sumGroup;
  /// Linear groups through which no sum of parts on several devices may pass.
  llvm::ArrayRef<unsigned> closedGroups{};
  /// Over which samples the op's sums over the batch are meant.
  dist::ReductionReach reach = dist::ReductionReach::Batch;
  /// An op with a batch must cut it over every Batch axis that fits: a user who
  /// asks for `dp` means data parallelism.
  bool mustCutBatch = false;
  /// Batch axes may cut any factor (ZeRO), and must where one of them fits.
  bool mayCutMore = false, mustCutMore = false;
  /// For enumerateLayouts: each micro-batch makes its part of the value, a sum.
  bool isSum = false;
  /// Per factor (enumerateLayouts: per dimension); empty: no block sizes.
  std::vector<BlockSizes> blockSizes{};
};

/// All strategies of an op with this rule, "nothing cut" first, without
/// duplicates, in a fixed order. With micro-batches the time axis stands first
/// on the batch factor.
std::vector<Strategy> enumerateStrategies(const ShardingRule &rule,
                                          const MeshCandidate &mesh,
                                          const StrategyOptions &options,
                                          LayoutTable &layouts);

/// All layouts without partial axes in space of a value of this type: what
/// inputs, weights and outputs may have.
std::vector<LayoutId> enumerateLayouts(mlir::RankedTensorType type,
                                       std::optional<int64_t> batchDim,
                                       const MeshCandidate &mesh,
                                       const StrategyOptions &options,
                                       LayoutTable &layouts);

/// The strategies of an op whose operand keeps the layout that its producer
/// gives, one strategy for each layout in `made`. Such are dist.accumulate
/// (`sums`: over micro-batches), so that parts are added over devices once per
/// step and not once per micro-batch, and casts to the type in which a value is
/// sent.
std::vector<Strategy> asMadeStrategies(llvm::ArrayRef<LayoutId> made, bool sums,
                                       const MeshCandidate &mesh,
                                       LayoutTable &layouts);

/// The same for a dist.accumulate whose sum lies in parts over the batch's axes
/// (ZeRO 2): for each layout in `made`, the layouts in `cut` that differ from
/// it only by those axes; the layout itself if there is none.
std::vector<Strategy> sumInPartsStrategies(llvm::ArrayRef<LayoutId> made,
                                           llvm::ArrayRef<LayoutId> cut,
                                           const MeshCandidate &mesh,
                                           LayoutTable &layouts);

/// Layout `id` as that of a sum over micro-batches.
LayoutId sumOverTime(LayoutId id, const MeshCandidate &mesh,
                     LayoutTable &layouts);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MODEL_STRATEGIES_H
