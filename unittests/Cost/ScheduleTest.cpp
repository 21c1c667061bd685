//===- ScheduleTest.cpp - simulated schedules equal their formulas --------===//
#include "kerf/Cost/Schedule.h"

#include <gtest/gtest.h>

#include <random>

using namespace kerf::cost;

namespace {

ScheduleResult simulateOrFail(const Schedule &schedule,
                              llvm::ArrayRef<StageTimes> times) {
  llvm::Expected<ScheduleResult> result = simulate(schedule, times);
  if (!result) {
    ADD_FAILURE() << llvm::toString(result.takeError());
    return {};
  }
  return *result;
}

std::string errorOf(const Schedule &schedule,
                    llvm::ArrayRef<StageTimes> times) {
  llvm::Expected<ScheduleResult> result = simulate(schedule, times);
  if (result)
    return "";
  return llvm::toString(result.takeError());
}

// Equal stages, free transfers: bubble (p-1)(F+B), held m or min(m, p-i).
TEST(Schedule, ClosedFormsForRandomSizes) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    int64_t p = 1 + random() % 12, m = 1 + random() % 40;
    int64_t f = 1 + random() % 1000, b = 1 + random() % 2000;
    std::vector<StageTimes> times(p, StageTimes{f, b, 0, 0, 0});
    for (ScheduleKind kind : {ScheduleKind::GPipe, ScheduleKind::OneFOneB}) {
      ScheduleResult result = simulateOrFail(buildSchedule(kind, p, m), times);
      EXPECT_EQ(result.makespan, (m + p - 1) * (f + b));
      for (int64_t i = 0; i < p; ++i) {
        EXPECT_EQ(result.idle[i], (p - 1) * (f + b));
        EXPECT_EQ(result.activationsHeld[i],
                  kind == ScheduleKind::GPipe ? m : std::min(m, p - i));
      }
      EXPECT_DOUBLE_EQ(result.bubbleFraction,
                       double(p - 1) / double(m + p - 1));
    }
    ScheduleResult forward =
        simulateOrFail(buildSchedule(ScheduleKind::Forward, p, m), times);
    EXPECT_EQ(forward.makespan, (m + p - 1) * f);
    EXPECT_EQ(forward.activationsHeld[0], 1);
  }
}

// Unequal stages and slow links never deadlock and never beat the busiest
// stage or a single micro-batch's way through.
TEST(Schedule, BoundsForRandomTimes) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 300; ++trial) {
    int64_t p = 1 + random() % 8, m = 1 + random() % 20;
    std::vector<StageTimes> times;
    int64_t busiest = 0, way = 0;
    for (int64_t i = 0; i < p; ++i) {
      times.push_back({int64_t(random() % 100), int64_t(random() % 100), 0,
                       int64_t(random() % 50), int64_t(random() % 50)});
      busiest = std::max(busiest, m * (times[i].forward + times[i].backward));
      way += times[i].forward + times[i].backward;
      if (i + 1 < p)
        way += times[i].sendForward + times[i].sendBackward;
    }
    for (ScheduleKind kind : {ScheduleKind::GPipe, ScheduleKind::OneFOneB}) {
      ScheduleResult result = simulateOrFail(buildSchedule(kind, p, m), times);
      EXPECT_GE(result.makespan, std::max(busiest, way));
    }
  }
}

// A slow link is the pipeline's beat: transfers overlap compute, one at a time.
TEST(Schedule, TransfersOverlap) {
  std::vector<StageTimes> times(2, StageTimes{10, 0, 0, 30, 0});
  ScheduleResult result =
      simulateOrFail(buildSchedule(ScheduleKind::Forward, 2, 4), times);
  EXPECT_EQ(result.makespan, 10 + 4 * 30 + 10);
}

// The weight part of backward may stand apart; it alone ends what is held.
TEST(Schedule, SplitBackward) {
  Schedule schedule = {{{Phase::Forward, 0, 0},
                        {Phase::Forward, 1, 0},
                        {Phase::Backward, 0, 0},
                        {Phase::Backward, 1, 0},
                        {Phase::BackwardWeight, 0, 0},
                        {Phase::BackwardWeight, 1, 0}}};
  ScheduleResult result = simulateOrFail(schedule, {StageTimes{1, 2, 3, 0, 0}});
  EXPECT_EQ(result.makespan, 12);
  EXPECT_EQ(result.activationsHeld[0], 2);
}

// When each instruction runs, by hand: forward 2, backward 3, a send 1.
TEST(Schedule, Spans) {
  std::vector<StageTimes> times(2, StageTimes{2, 3, 0, 1, 1});
  ScheduleResult result =
      simulateOrFail(buildSchedule(ScheduleKind::OneFOneB, 2, 2), times);
  std::vector<std::vector<std::pair<int64_t, int64_t>>> spans;
  for (const auto &list : result.spans) {
    spans.emplace_back();
    for (const ScheduleResult::Span &span : list)
      spans.back().push_back({span.begin, span.end});
  }
  EXPECT_EQ(spans, (decltype(spans){{{0, 2}, {2, 4}, {9, 12}, {14, 17}},
                                    {{3, 5}, {5, 8}, {8, 10}, {10, 13}}}));
  EXPECT_EQ(result.makespan, 17);
}

// Two chunks on two stages: virtual stages 0..3 in a ring.
TEST(Schedule, Chunks) {
  Schedule schedule = {{{Phase::Forward, 0, 0}, {Phase::Forward, 0, 1}},
                       {{Phase::Forward, 0, 0}, {Phase::Forward, 0, 1}}};
  std::vector<StageTimes> times(4, StageTimes{5, 0, 0, 1, 0});
  EXPECT_EQ(simulateOrFail(schedule, times).makespan, 4 * 5 + 3);
}

TEST(Schedule, Errors) {
  std::vector<StageTimes> two(2, StageTimes{1, 1, 0, 0, 0});
  EXPECT_EQ(errorOf({{{Phase::Forward, 0, 0}}, {}}, two),
            "schedule: stage 1: forward of micro-batch 0, chunk 0 is missing");
  EXPECT_EQ(
      errorOf({{{Phase::Forward, 0, 0}, {Phase::Forward, 0, 0}},
               {{Phase::Forward, 0, 0}}},
              two),
      "schedule: stage 0: forward of micro-batch 0, chunk 0 occurs twice");
  EXPECT_EQ(errorOf({{{Phase::Forward, 0, 3}}, {{Phase::Forward, 0, 0}}}, two),
            "schedule: stage 0: forward of micro-batch 0, chunk 3 does not "
            "exist");
  EXPECT_EQ(
      errorOf({{{Phase::Backward, 0, 0}, {Phase::Forward, 0, 0}}}, {two[0]}),
      "schedule: deadlock: stage 0: backward of micro-batch 0, chunk 0 "
      "can never run");
  EXPECT_EQ(errorOf({{}, {}}, {two[0]}),
            "schedule: has 1 stage times, expected a multiple of 2 stages");
}

TEST(Schedule, NamesRoundTrip) {
  for (auto kind :
       {ScheduleKind::Forward, ScheduleKind::GPipe, ScheduleKind::OneFOneB})
    EXPECT_EQ(parseScheduleKind(toString(kind)), kind);
  EXPECT_FALSE(parseScheduleKind("gpip"));
}

} // namespace
