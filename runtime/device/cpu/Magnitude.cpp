//===- Magnitude.cpp - whether numbers are finite and not huge ------------===//
//
// Without its sign a float is ordered as its bits are: one maximum of integers
// over all elements says it, NaN and infinities included, since they are above
// every number.
//
//===----------------------------------------------------------------------===//
#include "Magnitude.h"

#include <algorithm>
#include <atomic>

using namespace kerf::rt;

template <typename Bits>
static inline __attribute__((always_inline)) Bits largest(const Bits *data,
                                                          int64_t count) {
  constexpr Bits withoutSign = static_cast<Bits>(~Bits(0)) >> 1;
  Bits most = 0;
  for (int64_t i = 0; i < count; ++i)
    most = std::max<Bits>(most, data[i] & withoutSign);
  return most;
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
static bool allBelowBits(Device &device, const void *data, int64_t elements,
                         Bits limit) {
  constexpr int64_t block = 4096;
  struct Job {
    const Bits *data;
    int64_t elements;
    Bits limit;
    std::atomic<bool> fine{true};
  } job{static_cast<const Bits *>(data), elements, limit};
  void *pointer = &job;
  device.launch(
      [](void *const *jobs, const int64_t *, int64_t begin, int64_t end) {
        Job &job = *static_cast<Job *>(jobs[0]);
        int64_t from = begin * block, to = std::min(end * block, job.elements);
        if (largestOnThisHost(job.data + from, to - from) >= job.limit)
          job.fine.store(false, std::memory_order_relaxed);
      },
      &pointer, nullptr, ceilDiv(elements, block), 16);
  return job.fine;
}

bool kerf::rt::allBelow(Device &device, const void *data, int64_t elements,
                        kerf_dtype_t dtype, int exponent) {
  // Both types have eight bits of exponent behind the sign.
  uint32_t limit = static_cast<uint32_t>(127 + exponent) << 23;
  if (dtype == KERF_F32)
    return allBelowBits<uint32_t>(device, data, elements, limit);
  if (dtype == KERF_BF16)
    return allBelowBits<uint16_t>(device, data, elements,
                                  static_cast<uint16_t>(limit >> 16));
  return false;
}
