//===- ReshardCosts.h - costs of moving values ------------------*- C++ -*-===//
//
// The price of bringing a value from the layout in which it is made to the one
// in which it is used: the collectives of dist::decomposeReshard, the same that
// partition will insert, counted in bytes and in seconds. A gradient that joins
// a bucket (cost::BucketRule) costs its bytes' share of a full one, so that
// costs add up and no bucket takes less than its members cost.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MODEL_RESHARDCOSTS_H
#define KERF_LIB_PLAN_MODEL_RESHARDCOSTS_H

#include "Layouts.h"

#include "kerf/Cost/Buckets.h"
#include "kerf/Dist/Reshard.h"
#include "kerf/Plan/Effort.h"

#include <array>
#include <map>
#include <unordered_map>

namespace kerf::plan {

struct MoveCost {
  bool possible = false;
  double seconds = 0;      ///< of collectives
  double localSeconds = 0; ///< of slices, on the device itself
  /// By the volume model of the objective: `scaledBytes` of the busiest rank,
  /// in 1/byteScale of a byte; `totalBytes` of all ranks of one stage.
  /// Saturated.
  int64_t scaledBytes = 0, totalBytes = 0;
};

/// The least number such that a rank's share of any collective on a value of
/// the function is an integer in 1/byteScale of a byte. Costs then add up
/// exactly, even if several values are sent in one buffer. Example: 2(N-1)S/N
/// is an integer for every N that divides the devices of a stage if these
/// divide 2 S byteScale.
int64_t byteScaleOf(mlir::func::FuncOp function,
                    const MeshCandidate &candidate);

class ReshardCosts {
public:
  ReshardCosts(const MeshCandidate &candidate, const cost::Machine &machine,
               cost::VolumeModel model, const LayoutTable &layouts,
               int64_t byteScale, dist::ReshardWays &ways, Effort *effort)
      : candidate(candidate), machine(machine), model(model), layouts(layouts),
        byteScale(byteScale),
        buckets(cost::bucketRule(machine, candidate.mesh.numRanks(),
                                 candidate.devicesPerStage())),
        ways(ways), effort(effort) {}

  /// Memoized. A value that stays partial must keep its partial axes.
  const MoveCost &get(LayoutId from, LayoutId to, mlir::RankedTensorType type,
                      bool isGradient);

  /// Whether the sum of a gradient of this size over devices joins a bucket, to
  /// which it is copied.
  bool joinsBucket(int64_t sizeBytes) const {
    return buckets.joins(CollectiveKind::AllReduce, sizeBytes);
  }

  /// Once it says so, costs that are not known are not worked out any more, and
  /// say "impossible"; for whoever then throws them away.
  void endWhen(llvm::function_ref<bool()> isOver) { ends = isOver; }

private:
  using Key = std::tuple<LayoutId, LayoutId, const void *, bool>;
  struct KeyHash {
    size_t operator()(const Key &key) const { return llvm::hash_value(key); }
  };

  MoveCost compute(LayoutId from, LayoutId to, mlir::RankedTensorType type,
                   bool isGradient);
  double secondsOf(const dist::ReshardStep &step, bool isGradient);
  cost::GroupPlacement place(llvm::ArrayRef<dist::AxisRef> axes) const;

  const MeshCandidate &candidate;
  const cost::Machine &machine;
  cost::VolumeModel model;
  const LayoutTable &layouts;
  int64_t byteScale;
  cost::BucketRule buckets;
  /// bucketSecondsPerByte() of groups, by size and placement.
  std::map<std::array<int64_t, 4>, double> bucketRates;
  dist::ReshardWays &ways;
  Effort *effort; ///< counts what is worked out; may be null
  std::unordered_map<Key, MoveCost, KeyHash> costs;
  llvm::function_ref<bool()> ends;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MODEL_RESHARDCOSTS_H
