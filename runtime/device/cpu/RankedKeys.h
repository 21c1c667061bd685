//===- RankedKeys.h - numbers with their places, in order -------*- C++ -*-===//
//
// Problem: to put the numbers of a row in order, by comparisons of what two
// indices name, takes a branch that is guessed wrongly every second time.
//
// Idea: a key of 64 bits has the number above, as an integer of the same order,
// and the place below, turned around: of two keys the larger one comes first,
// and of equal numbers that with the lower place. Keys are sorted digit by
// digit, from the lowest digit of the number on, each time keeping the order of
// those with equal digits: they begin in the order of their places. A digit
// that all of them share is passed over, so a row of zeros and ones takes one
// pass.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_DEVICE_CPU_RANKEDKEYS_H
#define KERF_RT_DEVICE_CPU_RANKEDKEYS_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace kerf::rt {

using RankedKey = uint64_t;

/// An integer that is larger where the number is; NaN is larger than every
/// number, and both zeros are one.
inline uint32_t rankOf(float x) {
  float sum = x + 0.0f; // of -0 as well 0
  int32_t bits;
  std::memcpy(&bits, &sum, sizeof bits);
  uint32_t rank = static_cast<uint32_t>(bits) ^
                  (static_cast<uint32_t>(bits >> 31) | uint32_t(1) << 31);
  return x == x ? rank : UINT32_MAX;
}
inline uint32_t rankOf(int32_t x) {
  return static_cast<uint32_t>(x) ^ uint32_t(1) << 31;
}

inline RankedKey keyOf(uint32_t rank, uint32_t place) {
  return uint64_t(rank) << 32 | uint32_t(~place);
}
inline int64_t placeOf(RankedKey key) { return uint32_t(~key); }

/// Keeps its memory from one row to the next; each belongs to one thread.
class KeySorter {
public:
  /// Puts `count` keys, which are in the order of their places, from the
  /// largest on.
  void sort(RankedKey *keys, size_t count);

private:
  std::vector<RankedKey> scratch;
  std::vector<uint32_t> counters;
};

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CPU_RANKEDKEYS_H
