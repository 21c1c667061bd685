//===- ScheduleTest.cpp - simulated schedules equal their formulas --------===//
#include "Simulate.h"

#include <algorithm>
#include <map>
#include <random>

using namespace kerf::cost;

namespace {

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

// Equal chunks, free transfers: bubble (p-1)(F+B)/v of the whole stage's F and
// B, held min(mv, (v+1)p - 2i - 1) micro-batches of a chunk.
TEST(Schedule, ClosedFormsOfInterleaved) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    int64_t p = 1 + random() % 9, v = 1 + random() % 5;
    int64_t m = p * (1 + random() % 6);
    int64_t f = 1 + random() % 1000, b = 1 + random() % 2000; // of a chunk
    std::vector<StageTimes> times(p * v, StageTimes{f, b, 0, 0, 0});
    ScheduleResult result = simulateOrFail(
        buildSchedule(ScheduleKind::Interleaved, p, m, v), times);
    EXPECT_EQ(result.makespan, m * v * (f + b) + (p - 1) * (f + b));
    for (int64_t i = 0; i < p; ++i) {
      EXPECT_EQ(result.idle[i], (p - 1) * (f + b));
      EXPECT_EQ(result.activationsHeld[i],
                std::min(m * v, (v + 1) * p - 2 * i - 1));
    }
    // (p-1)/v/m of the time that a stage works.
    EXPECT_NEAR(result.bubbleFraction / (1 - result.bubbleFraction),
                double(p - 1) / double(v) / double(m), 1e-12);
  }
}

// Each stage goes through a chunk's micro-batches in their order, forward and
// back: so messages of a channel are sent and taken in one order.
TEST(Schedule, InterleavedKeepsMicroBatchesInOrder) {
  for (int64_t p : {2, 3, 4})
    for (int64_t v : {2, 3})
      for (const auto &list :
           buildSchedule(ScheduleKind::Interleaved, p, 3 * p, v)) {
        std::map<std::pair<Phase, int64_t>, int64_t> next;
        for (const Instruction &each : list)
          EXPECT_EQ(each.microBatch, next[std::pair(each.phase, each.chunk)]++);
      }
}

// By hand: p = 2, v = 2, m = 2, each chunk's forward and backward takes 1.
TEST(Schedule, InterleavedByHand) {
  Schedule schedule = buildSchedule(ScheduleKind::Interleaved, 2, 2, 2);
  constexpr Phase F = Phase::Forward, B = Phase::Backward;
  EXPECT_EQ(schedule, (Schedule{{{F, 0, 0},
                                 {F, 1, 0},
                                 {F, 0, 1},
                                 {F, 1, 1},
                                 {B, 0, 1},
                                 {B, 1, 1},
                                 {B, 0, 0},
                                 {B, 1, 0}},
                                {{F, 0, 0},
                                 {F, 1, 0},
                                 {F, 0, 1},
                                 {B, 0, 1},
                                 {F, 1, 1},
                                 {B, 1, 1},
                                 {B, 0, 0},
                                 {B, 1, 0}}}));
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

// The same of chunks, whose messages share the links.
TEST(Schedule, BoundsOfInterleavedForRandomTimes) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 300; ++trial) {
    int64_t p = 1 + random() % 6, v = 2 + random() % 3;
    int64_t m = p * (1 + random() % 4);
    std::vector<StageTimes> times;
    std::vector<int64_t> work(p);
    int64_t way = 0;
    for (int64_t k = 0; k < p * v; ++k) {
      int64_t link = p > 1 ? 50 : 1; // one stage sends nothing
      times.push_back({int64_t(random() % 100), int64_t(random() % 100), 0,
                       int64_t(random() % link), int64_t(random() % link)});
      work[k % p] += m * (times[k].forward + times[k].backward);
      way += times[k].forward + times[k].backward;
      if (k + 1 < p * v)
        way += times[k].sendForward + times[k].sendBackward;
    }
    ScheduleResult result = simulateOrFail(
        buildSchedule(ScheduleKind::Interleaved, p, m, v), times);
    EXPECT_GE(result.makespan, *std::max_element(work.begin(), work.end()));
    EXPECT_GE(result.makespan, way);
  }
}

// Both chunks of stage 0 send to stage 1 over one link. Micro-batch 0 of chunk
// 1 is made at 63, when the link still carries micro-batch 2 of chunk 0
// until 91.
TEST(Schedule, ChunksShareLinks) {
  std::vector<StageTimes> times(4, StageTimes{1, 0, 0, 30, 0});
  std::vector<Instruction> list;
  for (int64_t chunk : {0, 1})
    for (int64_t microBatch : {0, 1, 2})
      list.push_back({Phase::Forward, microBatch, chunk});
  ScheduleResult result = simulateOrFail({list, list}, times);
  EXPECT_EQ(result.spans[0][3].begin, 62);
  EXPECT_EQ(result.spans[1][3].begin, 121);
  EXPECT_EQ(result.makespan, 182);
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
  for (auto kind : {ScheduleKind::Forward, ScheduleKind::GPipe,
                    ScheduleKind::OneFOneB, ScheduleKind::Interleaved})
    EXPECT_EQ(parseScheduleKind(toString(kind)), kind);
  EXPECT_FALSE(parseScheduleKind("gpip"));
}

} // namespace
