//===- Magnitude.cpp - the largest number in a tensor ---------------------===//
//
// Without its sign a float is ordered like its bits: one maximum of integers
// over all elements gives the result, also for NaN and infinities, since their
// bits are above those of every number.
//
//===----------------------------------------------------------------------===//
#include "Magnitude.h"

#include "../Team.h"

#include <algorithm>
#include <atomic>
#include <cmath>

using namespace kerf::rt;

template <typename Bits>
static inline __attribute__((always_inline)) Bits largest(const Bits *data,
                                                          int64_t count) {
  constexpr Bits withoutSign = static_cast<Bits>(~Bits(0)) >> 1;
  Bits max = 0;
  for (int64_t i = 0; i < count; ++i)
    max = std::max<Bits>(max, data[i] & withoutSign);
  return max;
}

#ifdef KERF_HAVE_X86_LEVELS
__attribute__((target("avx2"))) static uint32_t
largestAvx2(const uint32_t *data, int64_t count) {
  return largest(data, count);
}
__attribute__((target("avx2"))) static uint16_t
largestAvx2(const uint16_t *data, int64_t count) {
  return largest(data, count);
}
#endif

template <typename Bits>
static Bits largestOnThisHost(const Bits *data, int64_t count) {
#ifdef KERF_HAVE_X86_LEVELS
  if (__builtin_cpu_supports("avx2"))
    return largestAvx2(data, count);
#endif
  return largest(data, count);
}

template <typename Bits>
static Bits largestBits(Device &device, const void *data, int64_t elements) {
  constexpr int64_t block = 4096;
  struct Job {
    const Bits *data;
    int64_t elements;
    std::atomic<Bits> max{0};
  } job{static_cast<const Bits *>(data), elements};
  void *pointer = &job;
  device.launch(
      [](void *const *jobs, const int64_t *, int64_t begin, int64_t end) {
        Job &job = *static_cast<Job *>(jobs[0]);
        int64_t from = begin * block, to = std::min(end * block, job.elements);
        Bits mine = largestOnThisHost(job.data + from, to - from);
        Bits seen = job.max.load(std::memory_order_relaxed);
        while (seen < mine && !job.max.compare_exchange_weak(seen, mine))
          ;
      },
      &pointer, nullptr, ceilDiv(elements, block),
      grainOf({0, static_cast<double>(block * sizeof(Bits))}));
  return job.max;
}

double kerf::rt::largestMagnitude(Device &device, const void *data,
                                  int64_t elements, kerf_dtype_t dtype) {
  uint32_t bits = 0;
  if (dtype == KERF_F32)
    bits = largestBits<uint32_t>(device, data, elements);
  else if (dtype == KERF_BF16)
    bits = static_cast<uint32_t>(largestBits<uint16_t>(device, data, elements))
           << 16;
  else
    return __builtin_inf();
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return std::isnan(value) ? __builtin_inf() : value;
}
