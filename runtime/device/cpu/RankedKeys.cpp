//===- RankedKeys.cpp - numbers with their places, in order ---------------===//
#include "RankedKeys.h"

#include <algorithm>
#include <functional>
#include <utility>

using namespace kerf::rt;

namespace {
constexpr int kDigits = 3, kBits = 11;
constexpr size_t kValues = size_t(1) << kBits;

// From the largest digit on.
size_t digitOf(RankedKey key, int digit) {
  return ~(key >> (32 + digit * kBits)) & (kValues - 1);
}
} // namespace

void KeySorter::sort(RankedKey *keys, size_t count) {
  // Less than what it takes to clear the counters.
  if (count < 256)
    return std::sort(keys, keys + count, std::greater<>());
  counters.assign(kDigits * kValues, 0);
  for (size_t i = 0; i < count; ++i)
    for (int digit = 0; digit < kDigits; ++digit)
      ++counters[digit * kValues + digitOf(keys[i], digit)];
  scratch.resize(std::max(scratch.size(), count));
  RankedKey *from = keys, *to = scratch.data();
  for (int digit = 0; digit < kDigits; ++digit) {
    uint32_t *next = counters.data() + digit * kValues;
    if (next[digitOf(from[0], digit)] == count)
      continue;
    uint32_t before = 0;
    for (size_t value = 0; value < kValues; ++value)
      before += std::exchange(next[value], before);
    for (size_t i = 0; i < count; ++i)
      to[next[digitOf(from[i], digit)]++] = from[i];
    std::swap(from, to);
  }
  if (from != keys)
    std::copy(from, from + count, keys);
}
