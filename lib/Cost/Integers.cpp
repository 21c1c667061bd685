//===- Integers.cpp - printing and unit conversion ------------------------===//
//
// 128-bit integers have no stream operator; picoseconds are where real-valued
// time becomes an exact cost.
//
//===----------------------------------------------------------------------===//
#include "kerf/Cost/Integers.h"

#include <algorithm>
#include <cmath>

std::string kerf::cost::toString(Int128 value) {
  // Digits are computed from negative numbers, so that the lowest value works.
  bool negative = value < 0;
  Int128 rest = negative ? value : -value;
  std::string digits;
  do {
    digits += static_cast<char>('0' - static_cast<int>(rest % 10));
    rest /= 10;
  } while (rest != 0);
  if (negative)
    digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

int64_t kerf::cost::toPicoseconds(double seconds) {
  constexpr double kMax = 1e17;
  double picoseconds = std::nearbyint(seconds * 1e12);
  if (!(picoseconds > 0))
    return 0;
  return static_cast<int64_t>(std::min(picoseconds, kMax));
}
