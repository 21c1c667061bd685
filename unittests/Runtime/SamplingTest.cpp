//===- SamplingTest.cpp - ids from logits ---------------------------------===//
#include "kerf/rt/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

using namespace kerf::rt;

namespace {
const float nan = std::nanf("");

/// How often each id is chosen over an even grid of draws.
std::map<int64_t, int> choices(const std::vector<float> &logits,
                               const Sampling &sampling, int draws = 1000) {
  std::map<int64_t, int> counts;
  for (int i = 0; i < draws; ++i)
    ++counts[chooseToken(logits.data(), int64_t(logits.size()), sampling,
                         (i + 0.5) / draws)];
  return counts;
}
using Counts = std::map<int64_t, int>;

TEST(Sampling, TheLargestAndTheFirstOfEqualOnes) {
  EXPECT_EQ(choices({1, 3, 2, 3}, {}), (Counts{{1, 1000}}));
  EXPECT_EQ(choices({nan, -3, nan, -2}, {}), (Counts{{3, 1000}}));
  EXPECT_EQ(choices({nan, nan}, {}), (Counts{{-1, 1000}}));
}

TEST(Sampling, ProbabilitiesAreThoseOfSoftmax) {
  // 1/8, 4/8, 3/8 of the draws.
  std::vector<float> logits = {0, std::log(4.f), std::log(3.f)};
  EXPECT_EQ(choices(logits, {.temperature = 1}),
            (Counts{{0, 125}, {1, 500}, {2, 375}}));
  // At half the temperature weights are squared: 1, 16, 9 of 26.
  EXPECT_EQ(choices(logits, {.temperature = 0.5}, 2600),
            (Counts{{0, 100}, {1, 1600}, {2, 900}}));
}

TEST(Sampling, OfTheMostLikelyOnly) {
  std::vector<float> logits = {0, std::log(4.f), std::log(3.f)};
  EXPECT_EQ(choices(logits, {.temperature = 1, .topK = 2}, 700),
            (Counts{{1, 400}, {2, 300}}));
  EXPECT_EQ(choices(logits, {.temperature = 1, .topP = 0.4}),
            (Counts{{1, 1000}}));
  EXPECT_EQ(choices(logits, {.temperature = 1, .topP = 0.6}, 700),
            (Counts{{1, 400}, {2, 300}}));
  EXPECT_EQ(choices(logits, {.temperature = 1, .topP = 0}),
            (Counts{{1, 1000}}));
}
} // namespace
