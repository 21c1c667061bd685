//===- GreedySuppress.cpp - boxes that no better one overlaps -------------===//
//
// Each box is held against those that are kept so far, as ONNX Runtime does,
// until as many are kept as are wanted. Few of many boxes are looked at then,
// so few are put in order: those above a score that the number of boxes above
// each of some scores gives.
//
// Products are rounded before they are added, as in ONNX Runtime: whether a box
// is just over the threshold depends on it. So this file is compiled without
// contraction of floating-point operations.
//
//===----------------------------------------------------------------------===//
#include "GreedySuppress.h"

#include <algorithm>

using namespace kerf::rt;

namespace {

constexpr int64_t kBlock = 16; ///< boxes that are compared at once
constexpr int kStepShift = 21; ///< of a rank, below the bits that are counted
constexpr uint32_t kSteps = uint32_t(1) << (32 - kStepShift);

struct Box {
  float y0, x0, y1, x1, area;
};

// The smaller number; where one is NaN the first, as std::min has it.
float lower(float x, float y) { return y < x ? y : x; }
float larger(float x, float y) { return x < y ? y : x; }

/// Whether one of `count` boxes, a whole number of blocks, has more than
/// `threshold` of its union with `box` in common with it. Five rows of `places`
/// numbers.
__attribute__((always_inline)) inline bool
overlapsBody(const float *kept, int64_t places, int64_t count, const Box &box,
             float threshold) {
  for (int64_t first = 0; first < count; first += kBlock) {
    const float *y0 = kept + first, *x0 = y0 + places, *y1 = x0 + places,
                *x1 = y1 + places, *area = x1 + places;
    int32_t near = 0, any = 0;
    for (int64_t k = 0; k < kBlock; ++k)
      near |= int32_t(lower(y1[k], box.y1) > larger(y0[k], box.y0)) &
              int32_t(lower(x1[k], box.x1) > larger(x0[k], box.x0));
    if (!near) // as most are, of many boxes or several classes
      continue;
    for (int64_t k = 0; k < kBlock; ++k) {
      float height = lower(y1[k], box.y1) - larger(y0[k], box.y0);
      float width = lower(x1[k], box.x1) - larger(x0[k], box.x0);
      float common = width * height, both = area[k] + box.area - common;
      any |= int32_t(height > 0) & int32_t(width > 0) & int32_t(area[k] > 0) &
             int32_t(common > 0) & int32_t(both > 0) &
             int32_t(common / both > threshold);
    }
    if (any)
      return true;
  }
  return false;
}

using Overlaps = bool (*)(const float *, int64_t, int64_t, const Box &, float);
bool overlaps(const float *kept, int64_t places, int64_t count, const Box &box,
              float threshold) {
  return overlapsBody(kept, places, count, box, threshold);
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) bool overlapsAvx2(const float *kept,
                                                  int64_t places, int64_t count,
                                                  const Box &box,
                                                  float threshold) {
  return overlapsBody(kept, places, count, box, threshold);
}
const Overlaps anyOverlaps =
    __builtin_cpu_supports("avx2") ? overlapsAvx2 : overlaps;
#else
const Overlaps anyOverlaps = overlaps;
#endif

} // namespace

bool Suppressor::offer(const float *corners, float threshold) {
  Box box{lower(corners[0], corners[2]), lower(corners[1], corners[3]),
          larger(corners[0], corners[2]), larger(corners[1], corners[3]), 0};
  box.area = (box.x1 - box.x0) * (box.y1 - box.y0);
  int64_t blocks = (numKept + kBlock - 1) / kBlock;
  if (box.area > 0 &&
      anyOverlaps(kept.data(), places, blocks * kBlock, box, threshold))
    return false;
  if (numKept == places) {
    // Boxes without area, which overlap none, fill the last block.
    int64_t more = std::max(4 * kBlock, 2 * places);
    std::vector<float> grown(static_cast<size_t>(5 * more));
    for (int64_t row = 0; row < 5; ++row)
      std::copy_n(kept.begin() + row * places, places,
                  grown.begin() + row * more);
    kept = std::move(grown);
    places = more;
  }
  float *to = kept.data() + numKept++;
  for (float number : {box.y0, box.x0, box.y1, box.x1, box.area}) {
    *to = number;
    to += places;
  }
  return true;
}

void Suppressor::run(const Limits &limits, const float *boxes,
                     const float *scores, int64_t *chosen) {
  int64_t rows = limits.rows, count = limits.count;
  int64_t most = std::clamp<int64_t>(limits.most, 0, std::min(rows, count));
  // How many candidates have each value of the upper bits of their rank. NaN
  // has the largest, which no number has.
  constexpr uint32_t kNaN = kSteps - 1;
  keys.resize(static_cast<size_t>(rows));
  front.resize(static_cast<size_t>(rows));
  counters.assign(kSteps, 0);
  int64_t candidates = 0;
  for (int64_t i = 0; i < rows; ++i) {
    uint32_t rank = rankOf(scores[i]);
    keys[candidates] = keyOf(rank, static_cast<uint32_t>(i));
    candidates += scores[i] == scores[i];
    ++counters[rank >> kStepShift];
  }
  numKept = 0;
  std::fill(kept.begin(), kept.end(), 0.0f);
  // Some overlap, so some more than are wanted are put in order, and four times
  // as many each time that these do not do.
  uint32_t low = kNaN;
  for (int64_t wanted = 4 * most + 64; low > 0 && numKept < most; wanted *= 4) {
    uint32_t high = low;
    for (int64_t found = 0; low > 0 && found < wanted;)
      found += counters[--low];
    size_t size = 0;
    for (int64_t i = 0; i < candidates; ++i) {
      uint64_t step = keys[i] >> (32 + kStepShift);
      front[size] = keys[i];
      size += step >= low && step < high;
    }
    sorter.sort(front.data(), size);
    for (size_t i = 0; i < size && numKept < most; ++i)
      if (offer(boxes + 4 * placeOf(front[i]), limits.threshold))
        chosen[numKept - 1] = placeOf(front[i]);
  }
  std::fill(chosen + numKept, chosen + count, -1);
}
