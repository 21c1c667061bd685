//===- ReduceTest.cpp - reduction loops of all instruction sets -----------===//
#include "comm/threads/Reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

using namespace kerf::rt;

namespace {

constexpr ReduceLevel levels[] = {ReduceLevel::Base, ReduceLevel::Avx2,
                                  ReduceLevel::Avx512};

// All instruction sets give the same bits for random bit patterns of every type
// (no NaN among them: which payload wins is not promised), for lengths around
// blocks and vectors.
TEST(Reduce, InstructionSetsAgree) {
  std::mt19937_64 random(3);
  for (int t = KERF_F32; t < KERF_BOOL; ++t)
    for (Reduction r :
         {Reduction::Sum, Reduction::Max, Reduction::Min, Reduction::Prod})
      for (int64_t count : {1, 15, 64, 2048, 2051}) {
        auto dtype = static_cast<kerf_dtype_t>(t);
        int64_t bytes = count * dtypeSize(dtype);
        std::vector<std::vector<unsigned char>> srcs(
            3, std::vector<unsigned char>(bytes));
        for (auto &src : srcs)
          for (int64_t i = 0; i < bytes; ++i)
            src[i] = static_cast<unsigned char>(random());
        if (dtype <= KERF_BF16) // bound the exponent: no infinity, no NaN
          for (auto &src : srcs)
            for (int64_t i = dtypeSize(dtype) - 1; i < bytes;
                 i += dtypeSize(dtype))
              src[i] = static_cast<unsigned char>((src[i] & 0x80) | 0x3b);
        const void *pointers[] = {srcs[0].data(), srcs[1].data(),
                                  srcs[2].data()};
        std::vector<unsigned char> base(bytes);
        for (ReduceLevel level : levels) {
          ReduceFn reduce = reduceFunction(dtype, r, level);
          if (!reduce)
            continue;
          std::vector<unsigned char> result(bytes);
          void *dst = result.data();
          reduce(pointers, 3, &dst, 1, count);
          if (level == ReduceLevel::Base)
            base = result;
          EXPECT_EQ(std::memcmp(base.data(), result.data(), bytes), 0)
              << kerf_dtype_name(dtype) << " " << reductionName(r) << " "
              << count;
        }
      }
}

// bf16 contributions are added in f32 and rounded once: 256 + 1 + 1 is 258, not
// 256 as with rounding in between.
TEST(Reduce, SixteenBitSumsAreTakenInF32) {
  auto bf16 = [](float f) {
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    return static_cast<uint16_t>(bits >> 16);
  };
  uint16_t a = bf16(256), b = bf16(1), result = 0;
  const void *srcs[] = {&a, &b, &b};
  void *dst = &result;
  reduceFunction(KERF_BF16, Reduction::Sum)(srcs, 3, &dst, 1, 1);
  EXPECT_EQ(result, bf16(258));
}

// A NaN of any rank reaches the result.
TEST(Reduce, NanWinsMaxAndMin) {
  float nan = std::nanf(""), one = 1, result = 0;
  void *dst = &result;
  for (Reduction r : {Reduction::Max, Reduction::Min})
    for (int place = 0; place < 3; ++place) {
      const void *srcs[] = {&one, &one, &one};
      srcs[place] = &nan;
      reduceFunction(KERF_F32, r)(srcs, 3, &dst, 1, 1);
      EXPECT_TRUE(std::isnan(result));
    }
}

// A destination may be one of the sources.
TEST(Reduce, InPlace) {
  std::vector<float> a(5000, 1), b(5000, 2);
  const void *srcs[] = {a.data(), b.data()};
  void *dsts[] = {a.data(), b.data()};
  reduceFunction(KERF_F32, Reduction::Sum)(srcs, 2, dsts, 2, 5000);
  EXPECT_EQ(a, std::vector<float>(5000, 3));
  EXPECT_EQ(b, a);
}
} // namespace
