//===- Types.h - data types, shapes, checked sizes --------------*- C++ -*-===//
//
// Sizes are int64_t and every product is checked: a manifest may claim any
// shape, and an overflow must become an error before anything is allocated.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_BASE_TYPES_H
#define KERF_RUNTIME_BASE_TYPES_H

#include "Error.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace kerf::rt {

using Shape = std::vector<int64_t>;

inline int64_t dtypeSize(kerf_dtype_t dtype) {
  return static_cast<int64_t>(kerf_dtype_size(dtype));
}
/// Of arrays in NumPy's files whose bytes have no type there: codes of whatever
/// type the taker has.
constexpr auto kAnyCode = static_cast<kerf_dtype_t>(KERF_U2 + 1);

/// Bits of the codes of a type of 2 to 8 bits that is only converted, each in a
/// byte; 0 for other types.
int codeBits(kerf_dtype_t dtype);
/// False for an unknown name.
bool parseDType(std::string_view name, kerf_dtype_t &dtype);

/// a * b for a, b >= 0; throws KERF_BAD_PACKAGE on overflow.
inline int64_t mulChecked(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result))
    throw Error(KERF_BAD_PACKAGE, cat("size overflows 64 bits: ", a, " * ", b));
  return result;
}
inline int64_t addChecked(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result))
    throw Error(KERF_BAD_PACKAGE, cat("size overflows 64 bits: ", a, " + ", b));
  return result;
}
/// Elements of a shape of non-negative sizes; 1 for a scalar.
inline int64_t numElements(const Shape &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count = mulChecked(count, size);
  return count;
}
inline int64_t numBytes(const Shape &shape, kerf_dtype_t dtype) {
  return mulChecked(numElements(shape), dtypeSize(dtype));
}
inline int64_t ceilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/// Dense row-major strides, in elements.
Shape denseStrides(const Shape &shape);

} // namespace kerf::rt

#endif // KERF_RUNTIME_BASE_TYPES_H
