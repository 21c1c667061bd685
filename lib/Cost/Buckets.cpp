//===- Buckets.cpp - gradients that travel together -----------------------===//
#include "kerf/Cost/Buckets.h"

#include <algorithm>
#include <limits>

using namespace kerf;
using namespace kerf::cost;

bool BucketRule::joins(CollectiveKind kind, int64_t bufferBytes) const {
  return kind == CollectiveKind::AllReduce && bufferBytes < gradientBytes &&
         (packedBytes == 0 || bufferBytes <= packedBytes);
}

int64_t BucketRule::fullBytes() const {
  if (gradientBytes == 0)
    return 0;
  int64_t largest = gradientBytes - 1;
  if (packedBytes > 0)
    largest = std::min(largest, packedBytes);
  return saturate(Int128(gradientBytes - 1) + largest);
}

BucketRule kerf::cost::bucketRule(const Machine &machine, int64_t numRanks,
                                  int64_t ranksPerStage) {
  GroupPlacement stage = placeStrided(machine, numRanks, {1}, {ranksPerStage});
  return {worthwhileBytes(machine, CollectiveKind::AllReduce, stage),
          worthPackingBytes(machine, CollectiveKind::AllReduce, stage)};
}

double kerf::cost::bucketSecondsPerByte(const Machine &machine,
                                        const BucketRule &rule,
                                        const GroupPlacement &group) {
  if (group.size <= 1 || rule.fullBytes() == 0)
    return 0;
  auto seconds = [&](int64_t bytes) {
    return collectiveSeconds(machine, CollectiveKind::AllReduce, bytes, group);
  };
  // A multiple of the group: a rank's share is then not rounded up.
  auto full = static_cast<int64_t>(
      ceilDivide(Int128(rule.fullBytes()), group.size) * group.size);
  if (machine.local.allReduceCurve.empty() &&
      machine.network.allReduceCurve.empty())
    return seconds(full) / static_cast<double>(full);
  // A curve may bend either way. Between two sizes it takes at least the time
  // of the smaller and has at most the bytes of the larger.
  double least = std::numeric_limits<double>::infinity();
  for (int64_t bytes = 1; bytes < full;) {
    int64_t next = std::min(full, bytes + std::max<int64_t>(1, bytes / 64));
    least = std::min(least, seconds(bytes) / static_cast<double>(next));
    bytes = next;
  }
  return least;
}
