//===- GreedySuppress.h - boxes that no better one overlaps -----*- C++ -*-===//
#ifndef KERF_RT_DEVICE_CPU_GREEDYSUPPRESS_H
#define KERF_RT_DEVICE_CPU_GREEDYSUPPRESS_H

#include "RankedKeys.h"

namespace kerf::rt {

/// Chooses among the boxes of one row; see docs/Package.md. Objects keep their
/// memory from row to row; each belongs to one thread.
class SuppressRow {
public:
  SuppressRow(int64_t rows, int64_t count, float threshold, int64_t most);

  /// `boxes` [rows, 4], `scores` [rows], `chosen` [count].
  void run(const float *boxes, const float *scores, int64_t *chosen);

private:
  bool offer(const float *corners);

  int64_t rows, count, most;
  float threshold;
  std::vector<RankedKey> keys, front, scratch;
  std::vector<uint32_t> counters;
  /// Of those that are kept: the lower corner, the upper one and the area, each
  /// in a row of its own with places up to a whole number of blocks.
  std::vector<float> kept;
  int64_t places = 0, numKept = 0;
};

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CPU_GREEDYSUPPRESS_H
