//===- Philox.h - counter-based random numbers ------------------*- C++ -*-===//
//
// Philox4x32-10 (Salmon et al. 2011): ten rounds of a bijection of 128-bit
// counters under a 64-bit key. A random number is a function of where it is
// used, so every sharding and every device draws the same ones.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_IR_PHILOX_H
#define KERF_NN_IR_PHILOX_H

#include <array>
#include <cstdint>

namespace kerf::nn {

inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                          std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t(0xD2511F53) * counter[0];
    uint64_t second = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(second >> 32) ^ counter[1] ^ key[0], uint32_t(second),
               uint32_t(first >> 32) ^ counter[3] ^ key[1], uint32_t(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// What nn.philox gives for one element: uniform in [0, 1), exact in 24 bits.
inline float philoxUniform(uint64_t index, uint64_t seed, uint64_t step,
                           uint32_t stream) {
  uint32_t word = philox4x32(
      {uint32_t(index), uint32_t(index >> 32), uint32_t(step), stream},
      {uint32_t(seed), uint32_t(seed >> 32)})[0];
  return float(word >> 8) * 0x1p-24f;
}

} // namespace kerf::nn

#endif // KERF_NN_IR_PHILOX_H
