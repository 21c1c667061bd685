//===- Integers.h - exact byte arithmetic -----------------------*- C++ -*-===//
//
// Bytes and floating-point operations are integers. Products of a tensor's
// bytes and rank counts can pass 64 bits, so totals are 128-bit, and what must
// be an int64 is checked. Nothing here ever wraps: out of range is a nullopt
// (checked*) or the largest value (saturate).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_COST_INTEGERS_H
#define KERF_COST_INTEGERS_H

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace kerf::cost {

using Int128 = __int128;

std::string toString(Int128 value);

inline std::optional<int64_t> narrow(Int128 value) {
  if (value > std::numeric_limits<int64_t>::max() ||
      value < std::numeric_limits<int64_t>::min())
    return std::nullopt;
  return static_cast<int64_t>(value);
}
inline int64_t saturate(Int128 value) {
  if (value > std::numeric_limits<int64_t>::max())
    return std::numeric_limits<int64_t>::max();
  if (value < std::numeric_limits<int64_t>::min())
    return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}
inline std::optional<Int128> checkedMultiply(Int128 a, Int128 b) {
  Int128 result;
  if (__builtin_mul_overflow(a, b, &result))
    return std::nullopt;
  return result;
}
inline std::optional<Int128> checkedAdd(Int128 a, Int128 b) {
  Int128 result;
  if (__builtin_add_overflow(a, b, &result))
    return std::nullopt;
  return result;
}
/// For non-negative a and positive b.
inline Int128 ceilDivide(Int128 a, Int128 b) { return (a + b - 1) / b; }

/// Seconds as integer picoseconds, the unit of planning costs: rounded to
/// nearest, negative and NaN to 0, above 10^17 (28 hours) to 10^17.
int64_t toPicoseconds(double seconds);
inline double fromPicoseconds(Int128 picoseconds) {
  return static_cast<double>(picoseconds) * 1e-12;
}

} // namespace kerf::cost

#endif // KERF_COST_INTEGERS_H
