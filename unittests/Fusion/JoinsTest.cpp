//===- JoinsTest.cpp - which concatenations nobody computes ---------------===//
#include "kerf/Fusion/Joins.h"

#include "gtest/gtest.h"

#include <vector>

using namespace kerf;

namespace {

/// Whether equal parts are joined, of which the first ones are as said.
bool joins(int64_t numParts, int64_t sizeBytes, int64_t numComputed,
           int64_t numStored) {
  std::vector<JoinedPart> parts;
  for (int64_t part = 0; part < numParts; ++part)
    parts.push_back({sizeBytes, part < numComputed, part < numStored});
  return paysToJoin(parts, 64);
}

TEST(JoinsTest, HalfOfTheirPartsAreStoredAnyway) {
  EXPECT_TRUE(joins(4, 64, 4, 2));
  EXPECT_FALSE(joins(4, 64, 4, 1));
  // What no step computes has no place to be written to.
  EXPECT_FALSE(joins(4, 64, 1, 4));
}

TEST(JoinsTest, PartsBeginWhereABufferMay) {
  // The second and fourth of four parts begin at odd multiples of 32.
  EXPECT_TRUE(joins(4, 32, 4, 4));
  EXPECT_FALSE(joins(4, 32, 4, 2));
  EXPECT_FALSE(joins(4, 24, 4, 4));
}

TEST(JoinsTest, ManyPartsAreNoKernel) {
  EXPECT_FALSE(joins(kMaxKernelParts, 24, kMaxKernelParts, 0));
  EXPECT_TRUE(joins(kMaxKernelParts + 1, 24, kMaxKernelParts + 1, 0));
  EXPECT_TRUE(joins(kMaxKernelParts + 2, 24, kMaxKernelParts / 2 + 1, 0));
  EXPECT_FALSE(joins(kMaxKernelParts + 2, 24, kMaxKernelParts / 2, 0));
}

TEST(JoinsTest, WhichDimensionsLieInARow) {
  EXPECT_TRUE(isOutermost({5, 3, 2}, 0));
  EXPECT_TRUE(isOutermost({1, 1, 4}, 2));
  EXPECT_FALSE(isOutermost({2, 3, 4}, 1));
}

TEST(JoinsTest, ManySlicesAreStoredInFront) {
  EXPECT_TRUE(isStoredOutermost({2, 17, 4}, 1, 17));
  EXPECT_FALSE(isStoredOutermost({2, 16, 4}, 1, 16)) << "a kernel";
  EXPECT_FALSE(isStoredOutermost({2, 34, 4}, 1, 17)) << "parts of two";
  EXPECT_FALSE(isStoredOutermost({1, 17, 4}, 1, 17)) << "outermost already";
  EXPECT_FALSE(isStoredOutermost({2, 4, 17}, 2, 17)) << "rows stay rows";
}

} // namespace
