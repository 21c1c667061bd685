//===- IntegersTest.cpp - byte arithmetic never wraps ---------------------===//
#include "kerf/Cost/Integers.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace kerf::cost;

namespace {

constexpr Int128 kMax128 = ~(Int128(1) << 127);

// 128-bit values print in full, both ends included.
TEST(Integers, Prints) {
  EXPECT_EQ(toString(0), "0");
  EXPECT_EQ(toString(-42), "-42");
  EXPECT_EQ(toString(kMax128), "170141183460469231731687303715884105727");
  EXPECT_EQ(toString(-kMax128 - 1), "-170141183460469231731687303715884105728");
}

// What does not fit an int64 is refused or clamped, never wrapped.
TEST(Integers, NarrowsAndSaturates) {
  Int128 big = Int128(1) << 63;
  EXPECT_FALSE(narrow(big));
  EXPECT_FALSE(narrow(-big - 1));
  EXPECT_EQ(*narrow(big - 1), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(saturate(big), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(saturate(-big - 1), std::numeric_limits<int64_t>::min());
  EXPECT_FALSE(checkedMultiply(kMax128, 2));
  EXPECT_FALSE(checkedAdd(kMax128, 1));
  EXPECT_EQ(*checkedMultiply(big, big - 1), big * (big - 1));
}

// Picoseconds are the planner's unit; nonsense becomes an end of the range.
TEST(Integers, Picoseconds) {
  EXPECT_EQ(toPicoseconds(1.5e-6), 1'500'000);
  EXPECT_EQ(toPicoseconds(-1), 0);
  EXPECT_EQ(toPicoseconds(std::nan("")), 0);
  EXPECT_EQ(toPicoseconds(1e300), 100'000'000'000'000'000);
  EXPECT_DOUBLE_EQ(fromPicoseconds(2'500'000), 2.5e-6);
}

} // namespace
