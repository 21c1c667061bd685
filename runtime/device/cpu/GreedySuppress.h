//===- GreedySuppress.h - boxes that no better one overlaps -----*- C++ -*-===//
#ifndef KERF_RT_DEVICE_CPU_GREEDYSUPPRESS_H
#define KERF_RT_DEVICE_CPU_GREEDYSUPPRESS_H

#include "RankedKeys.h"

namespace kerf::rt {

/// Chooses among the boxes of a class; see docs/Package.md. Keeps its memory
/// from one class to the next; each belongs to one thread.
class Suppressor {
public:
  struct Limits {
    int64_t rows, count, most;
    float threshold;
  };

  /// `boxes` [rows, 4], `scores` [rows], `chosen` [count].
  void run(const Limits &limits, const float *boxes, const float *scores,
           int64_t *chosen);

private:
  bool offer(const float *corners, float threshold);

  KeySorter sorter;
  std::vector<RankedKey> keys, front;
  std::vector<uint32_t> counters;
  /// Of those that are kept: the lower corner, the upper one and the area, each
  /// in a row of its own with places up to a whole number of blocks.
  std::vector<float> kept;
  int64_t places = 0, numKept = 0;
};

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CPU_GREEDYSUPPRESS_H
