//===- BucketsTest.cpp - gradients that travel together -------------------===//
#include "kerf/Cost/Buckets.h"

#include <gtest/gtest.h>

#include <random>

using namespace kerf;
using namespace kerf::cost;

namespace {

Machine preset(llvm::StringRef name) {
  return llvm::cantFail(
      machinePreset(name, name == "cpu" ? 8 : 0, HostInfo{8, 0}));
}

// One latency, no curve: the bytes, and the share of a full bucket's latency.
TEST(Buckets, PriceIsBytesAndShareOfLatency) {
  Machine machine;
  machine.devicesPerNode = 4;
  machine.local = {2, 10, {}, 0}; // 2 s a step, 10 bytes per second
  BucketRule rule{1001, 600};
  EXPECT_EQ(rule.fullBytes(), 1600);
  GroupPlacement group{4, 4, 1, 1};
  // 6 steps of 2 s, and 1.5 bytes sent per byte.
  EXPECT_DOUBLE_EQ(bucketSecondsPerByte(machine, rule, group),
                   1.5 / 10 + 12.0 / 1600);
  EXPECT_EQ(bucketSecondsPerByte(machine, rule, {}), 0);
  EXPECT_EQ(bucketSecondsPerByte(machine, {}, group), 0);
}

// Only all-reduces, only what does not fill a bucket and is worth a copy.
TEST(Buckets, WhatJoins) {
  BucketRule rule{1001, 600};
  EXPECT_TRUE(rule.joins(CollectiveKind::AllReduce, 600));
  EXPECT_FALSE(rule.joins(CollectiveKind::AllReduce, 601));
  EXPECT_FALSE(rule.joins(CollectiveKind::ReduceScatter, 600));
  EXPECT_FALSE(rule.joins(CollectiveKind::AllGather, 600));
  BucketRule all{1001, 0};
  EXPECT_TRUE(all.joins(CollectiveKind::AllReduce, 1000));
  EXPECT_FALSE(all.joins(CollectiveKind::AllReduce, 1001));
  EXPECT_EQ(all.fullBytes(), 2000);
  EXPECT_FALSE(BucketRule().joins(CollectiveKind::AllReduce, 1));
  EXPECT_EQ(BucketRule().fullBytes(), 0);
  // A stage of one rank sums nothing.
  EXPECT_EQ(bucketRule(preset("h100-8"), 8, 1).gradientBytes, 0);
  EXPECT_GT(bucketRule(preset("h100-8"), 8, 2).gradientBytes, 0);
}

// Members never cost more together than the bucket that they make, nor one of
// them more than it would alone: on links with and without a curve, inside a
// node and over two.
TEST(Buckets, NoBucketTakesLessThanItsMembersCost) {
  std::mt19937_64 random(1);
  for (llvm::StringRef name :
       {"cpu", "h100-8", "h200-8", "h100-4x2", "h200-4x2", "pcie-8"}) {
    Machine machine = preset(name);
    for (int64_t ranks : {2, 4, 8}) {
      BucketRule rule = bucketRule(machine, 8, ranks);
      GroupPlacement group = placeStrided(machine, 8, {8 / ranks}, {ranks});
      double rate = bucketSecondsPerByte(machine, rule, group);
      ASSERT_GT(rate, 0) << name.str();
      for (int trial = 0; trial < 200; ++trial) {
        // Sizes of all magnitudes.
        auto largest =
            static_cast<int64_t>(uint64_t(rule.packedBytes) >> (random() % 20));
        int64_t bucket = 0;
        double price = 0;
        while (bucket < rule.gradientBytes && random() % 64 != 0) {
          int64_t bytes =
              1 + static_cast<int64_t>(random() %
                                       uint64_t(std::max<int64_t>(largest, 1)));
          if (!rule.joins(CollectiveKind::AllReduce, bytes))
            continue;
          double member = rate * static_cast<double>(bytes);
          EXPECT_LE(member,
                    collectiveSeconds(machine, CollectiveKind::AllReduce, bytes,
                                      group));
          bucket += bytes;
          price += member;
        }
        EXPECT_LE(bucket, rule.fullBytes());
        EXPECT_LE(price, (1 + 1e-12) * collectiveSeconds(
                                           machine, CollectiveKind::AllReduce,
                                           bucket, group))
            << name.str() << ", " << ranks << " ranks, " << bucket << " bytes";
      }
    }
  }
}

} // namespace
