//===- StepShares.cpp - what a pipelined step takes at least --------------===//
//
// How a model is cut is not known here. 1F1B and interleaved schedules take at
// least the best mean of their paths (SchedulePaths.h). For p stages of one
// chunk and more than p micro-batches that is (M + p - 1) / p, what equal
// stages take, so unequal ones are no faster; for two stages of v > 1 chunks
// it is M/2 (1 + 1 / (2 v M - 1)).
//
// GPipe's forward pass ends on every stage before its backward pass begins.
// Each takes the time of all stages, and then M-1 times the longest, which is
// at least a p-th of all: 1 + (M-1)/p.
//
// The busiest stage has at least a p-th of what runs once.
//
//===----------------------------------------------------------------------===//
#include "kerf/Cost/StepShares.h"

#include "SchedulePaths.h"

#include <algorithm>
#include <cassert>

using namespace kerf;
using namespace kerf::cost;

StepShares kerf::cost::minShares(ScheduleKind kind, int64_t stages,
                                 int64_t microBatches, int64_t chunks) {
  assert(stages >= 1 && microBatches >= 1 && chunks >= 1);
  auto micro = static_cast<double>(microBatches);
  if (stages == 1)
    return {micro, 1};
  auto all = static_cast<double>(stages);
  double share = 1 + (micro - 1) / all;
  if (kind == ScheduleKind::OneFOneB || kind == ScheduleKind::Interleaved) {
    double paths = shareOfPaths(kind, stages, microBatches, chunks);
    share = chunks == 1 ? std::min(share, paths) : paths;
  }
  return {share, 1 / all};
}
