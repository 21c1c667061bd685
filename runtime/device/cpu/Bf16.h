//===- Bf16.h - bfloat16 in loops of our own --------------------*- C++ -*-===//
#ifndef KERF_RT_DEVICE_CPU_BF16_H
#define KERF_RT_DEVICE_CPU_BF16_H

#include <cmath>
#include <cstdint>
#include <cstring>

namespace kerf::rt {

/// The upper half of a float; to nearest, ties to even, NaN stays NaN.
struct Bf16 {
  uint16_t bits;

  Bf16 &operator=(float value) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof(word));
    bits =
        std::isnan(value)
            ? static_cast<uint16_t>(word >> 16 | 0x40)
            : static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
    return *this;
  }
  operator float() const {
    uint32_t word = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof(value));
    return value;
  }
};

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CPU_BF16_H
