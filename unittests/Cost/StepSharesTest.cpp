//===- StepSharesTest.cpp - no simulated step is below its shares ---------===//
#include "Simulate.h"

#include "kerf/Cost/StepShares.h"

#include <algorithm>
#include <array>
#include <random>

using namespace kerf::cost;

namespace {

/// Times of chunks of every kind: alike, some of no time, one that is long,
/// growing.
std::vector<StageTimes> randomTimes(int64_t count, std::mt19937_64 &random) {
  std::vector<StageTimes> times;
  uint64_t kind = random() % 4, longest = random() % uint64_t(count);
  for (uint64_t k = 0; k < uint64_t(count); ++k) {
    uint64_t max = kind == 0   ? 10
                   : kind == 1 ? random() % 2 * 1000
                   : kind == 2 ? (k == longest ? 5000 : 3)
                               : 10 * k;
    times.push_back({int64_t(random() % (max + 1)),
                     int64_t(random() % (max + 1)), 0, 0, 0});
  }
  return times;
}

void expectAtLeast(ScheduleKind kind, int64_t p, int64_t m, int64_t v,
                   std::mt19937_64 &random) {
  StepShares shares = minShares(kind, p, m, v);
  std::vector<StageTimes> times = randomTimes(p * v, random);
  double work = 0, once = 0;
  for (const StageTimes &each : times)
    work += double(each.forward + each.backward);
  ScheduleResult result = simulateOrFail(buildSchedule(kind, p, m, v), times);
  int64_t longest = 0;
  for (int64_t i = 0; i < p; ++i) {
    int64_t update = int64_t(random() % 50);
    once += double(update);
    longest = std::max(longest, update);
  }
  EXPECT_LE(shares.perMicroBatch * work + shares.perStep * once,
            double(result.makespan + longest) * (1 + 1e-9))
      << "p " << p << ", M " << m << ", v " << v;
}

TEST(StepShares, AreNoMoreThanAStepTakes) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 3000; ++trial) {
    int64_t p = 1 + random() % 6, v = 2 + random() % 3;
    int64_t m = p * (1 + random() % 4);
    expectAtLeast(ScheduleKind::Interleaved, p, m, v, random);
    m = 1 + random() % 12;
    for (ScheduleKind kind : {ScheduleKind::GPipe, ScheduleKind::OneFOneB})
      expectAtLeast(kind, p, m, 1, random);
  }
}

ScheduleKind kindOf(int64_t chunks) {
  return chunks > 1 ? ScheduleKind::Interleaved : ScheduleKind::OneFOneB;
}

// Two stages of v chunks: M/2 (1 + 1 / (2 v M - 1)).
TEST(StepShares, ClosedFormOfTwoStages) {
  for (int64_t v : {2, 4, 7})
    for (int64_t m : {2, 4, 8, 64})
      EXPECT_NEAR(minShares(kindOf(v), 2, m, v).perMicroBatch,
                  double(m) / 2 * (1 + 1 / (2 * double(v * m) - 1)), 1e-3);
}

// Of more micro-batches than stages unequal stages are no faster than equal
// ones, which take (M + p - 1) / p of the work on one.
TEST(StepShares, ClosedFormOfManyMicroBatches) {
  for (auto [p, m] :
       {std::pair<int64_t, int64_t>{2, 64}, {4, 5}, {4, 16}, {8, 12}, {8, 32}})
    EXPECT_NEAR(minShares(ScheduleKind::OneFOneB, p, m).perMicroBatch,
                double(m + p - 1) / double(p), 1e-3);
}

// The least that a step takes over all times of chunks, as the linear program
// over all times and all starts of instructions gives it (solved by HiGHS).
TEST(StepShares, AreTheLargest) {
  struct Row {
    int64_t p, m, v;
    double min;
  };
  for (Row row : {Row{4, 4, 1, 1.6},
                  {8, 8, 1, 16.0 / 9},
                  {4, 4, 2, 9.0 / 7},
                  {4, 4, 4, 17.0 / 15},
                  {4, 8, 4, 2.11628},
                  {8, 8, 4, 1.15735}})
    EXPECT_NEAR(minShares(kindOf(row.v), row.p, row.m, row.v).perMicroBatch,
                row.min, 2e-4 * row.min)
        << "p " << row.p << ", M " << row.m << ", v " << row.v;
}

// One micro-batch goes through all stages, one after the other.
TEST(StepShares, OneMicroBatch) {
  for (ScheduleKind kind : {ScheduleKind::GPipe, ScheduleKind::OneFOneB})
    EXPECT_NEAR(minShares(kind, 5, 1).perMicroBatch, 1, 1e-7);
}

// The shares are not much too low: chunks can be made so long that a step takes
// hardly more. They are found by moving time from chunk to chunk.
TEST(StepShares, SomeStepsTakeHardlyMore) {
  std::mt19937_64 random(6);
  for (auto [p, m, v] : {std::array<int64_t, 3>{2, 2, 2},
                         {2, 8, 2},
                         {4, 8, 2},
                         {4, 4, 1},
                         {2, 8, 4}}) {
    Schedule schedule = buildSchedule(kindOf(v), p, m, v);
    constexpr int64_t kWork = 1000000;
    auto size = size_t(p * v);
    std::vector<StageTimes> best(
        size, StageTimes{kWork / p / v, kWork / p / v, 0, 0, 0});
    int64_t step = simulateOrFail(schedule, best).makespan, even = step;
    for (int trial = 0; trial < 20000; ++trial) {
      std::vector<StageTimes> times = best;
      int64_t moved = int64_t(random() % (kWork >> (1 + random() % 12)));
      StageTimes &from = times[random() % size], &to = times[random() % size];
      moved = std::min(moved, from.forward);
      from.forward = from.backward = from.forward - moved;
      to.forward = to.backward = to.forward + moved;
      if (int64_t found = simulateOrFail(schedule, times).makespan;
          found <= step) {
        step = found;
        best = std::move(times);
      }
    }
    double min = minShares(kindOf(v), p, m, v).perMicroBatch * 2 * kWork;
    EXPECT_LE(double(step), 1.02 * min)
        << "p " << p << ", M " << m << ", v " << v << ", even " << even;
  }
}

// As many as there are devices cost no time to work out, and say less.
TEST(StepShares, OfVeryManyChunks) {
  EXPECT_EQ(minShares(kindOf(4), 512, 1024, 4).perMicroBatch, 2);
  EXPECT_GT(minShares(kindOf(4), 64, 128, 4).perMicroBatch, 2);
}

} // namespace
