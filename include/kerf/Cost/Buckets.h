//===- Buckets.h - gradients that travel together ---------------*- C++ -*-===//
//
// Which sums of gradients are sent in one buffer with others, and what one of
// them then costs. The pass that fills the buckets and the planner both ask
// here, so what is planned is what is sent.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_COST_BUCKETS_H
#define KERF_COST_BUCKETS_H

#include "kerf/Cost/Time.h"

namespace kerf::cost {

/// Sizes in bytes of the buffer that is reduced.
struct BucketRule {
  /// A bucket that holds this much is sent. 0: nothing is joined.
  int64_t gradientBytes = 0;
  /// The largest gradient that is copied into a bucket; 0: any that does not
  /// fill one alone.
  int64_t packedBytes = 0;

  /// Whether a collective that moves a gradient joins a bucket. Only
  /// all-reduces do: parts of a reduce-scatter would have to be interleaved.
  bool joins(CollectiveKind kind, int64_t bufferBytes) const;
  /// No bucket is larger: all but the last member are less than gradientBytes
  /// together. 0 if nothing is joined.
  int64_t fullBytes() const;
};

/// The rule for a mesh of `numRanks` whose stages are runs of `ranksPerStage`
/// ranks, by an all-reduce over a whole stage: a bucket is sent when latency is
/// at most a tenth of its time (worthwhileBytes), and what takes no longer to
/// copy than the latency that it saves is copied (worthPackingBytes).
BucketRule bucketRule(const Machine &machine, int64_t numRanks,
                      int64_t ranksPerStage);

/// Seconds per byte of an all-reduce that joins a bucket: the least of
/// t(Z) / Z over buckets of Z bytes up to fullBytes(), t being
/// collectiveSeconds. With one latency L and no measured curve this is
/// bytes / bandwidth and the share of L that the bytes are of a full bucket.
/// Whatever bucket the members make, it takes at least their sum.
double bucketSecondsPerByte(const Machine &machine, const BucketRule &rule,
                            const GroupPlacement &group);

} // namespace kerf::cost

#endif // KERF_COST_BUCKETS_H
