//===- RaceTest.cpp - the race checker itself -----------------------------===//
#include "recording/Races.cpp"

#include <gtest/gtest.h>

using namespace recording;

namespace {
Range read(uintptr_t begin, uintptr_t end) { return {begin, end, true, false}; }
Range write(uintptr_t begin, uintptr_t end) {
  return {begin, end, false, true};
}

TEST(Races, WriteThenRead) {
  RaceChecker races;
  EXPECT_EQ(races.access(write(0, 16), 0, {1, 0}, "w"), "");
  EXPECT_NE(races.access(read(8, 12), 1, {0, 1}, "r"), "") << "not ordered";
  EXPECT_EQ(races.access(read(8, 12), 1, {1, 2}, "r"), "") << "ordered";
  EXPECT_EQ(races.access(read(16, 20), 1, {0, 3}, "r"), "") << "elsewhere";
}

TEST(Races, ReadThenWrite) {
  RaceChecker races;
  races.access(read(0, 8), 0, {1, 0, 0}, "r0");
  races.access(read(4, 16), 1, {0, 1, 0}, "r1");
  EXPECT_EQ(races.access(write(0, 4), 2, {1, 0, 1}, "w"), "");
  EXPECT_NE(races.access(write(4, 8), 2, {1, 0, 2}, "w"), "");
  RaceChecker again;
  again.access(read(0, 8), 0, {1, 0, 0}, "r0");
  again.access(read(4, 16), 1, {0, 1, 0}, "r1");
  EXPECT_EQ(again.access(write(0, 16), 2, {1, 1, 1}, "w"), "");
}

TEST(Races, WriteThenWrite) {
  RaceChecker races;
  races.access(write(10, 20), 0, {1, 0}, "a");
  EXPECT_NE(races.access(write(0, 11), 1, {0, 1}, "b"), "");
  races.forget(0, 100);
  EXPECT_EQ(races.access(write(0, 100), 1, {0, 2}, "c"), "");
}

// Reads on one lane replace each other; two lanes are kept.
TEST(Races, ManyReads) {
  RaceChecker races;
  for (uint32_t t = 1; t < 5; ++t)
    EXPECT_EQ(races.access(read(0, 4), 0, {t, 0}, "r"), "");
  EXPECT_NE(races.access(write(0, 4), 1, {3, 1}, "w"), "");
  EXPECT_EQ(races.access(write(0, 4), 1, {4, 2}, "w"), "");
}
} // namespace
