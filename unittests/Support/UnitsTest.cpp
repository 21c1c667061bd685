//===- UnitsTest.cpp - figures for people ---------------------------------===//
#include "kerf/Support/Units.h"

#include "gtest/gtest.h"

using namespace kerf;

TEST(UnitsTest, ThreeDigitsAndAUnit) {
  EXPECT_EQ(formatBytes(512), "512 B");
  EXPECT_EQ(formatBytes(1.5 * 1048576), "1.50 MiB");
  EXPECT_EQ(formatBytes(23.49 * 1073741824), "23.5 GiB");
  EXPECT_EQ(formatBytes(700 * 1024), "700 KiB");
}

TEST(UnitsTest, AsManyDigitsAsDiffer) {
  double limit = 1.5 * 1048576;
  EXPECT_EQ(formatBytesBeside(limit, limit), "1.50 MiB");
  EXPECT_EQ(formatBytesBeside(limit, 2 * limit), "1.50 MiB");
  EXPECT_EQ(formatBytesBeside(limit + 36, limit), "1.50003 MiB");
  EXPECT_EQ(formatBytesBeside(limit, limit + 36), "1.50000 MiB");
  EXPECT_EQ(formatBytesBeside(512000, 512001), "500.000 KiB");
  EXPECT_EQ(formatBytesBeside(512001, 512000), "500.001 KiB");
  EXPECT_EQ(formatBytesBeside(511, 512), "511 B");
}
