//===- PipelineTest.cpp - pipelines of sleeping kernels -------------------===//
//
// Four stages of one rank each train on micro-batches with kernels that only
// sleep, so that the machine's cores do not matter: a step takes what the
// formula of GPipe and 1F1B says, (m + p - 1)(F + B), within 5%. Slots are used
// again while they may still be sent, as packages do.
//
//===----------------------------------------------------------------------===//
#include "TestPackage.h"

#include <gtest/gtest.h>

#include <chrono>

using namespace kerf::rt;
using namespace kerf::rt::test;
using nlohmann::json;

namespace {

constexpr int64_t kStages = 4, kMicroBatches = 6;
constexpr double kForwardSeconds = 0.006, kBackwardSeconds = 0.012;

// A program imports nothing: nanosleep is asked of the kernel itself.
constexpr const char *source = R"(
static void sleep_ns(long ns) {
  struct { long s, ns; } time = {0, ns};
  long result;
  __asm__ volatile("syscall" : "=a"(result)
                   : "a"(35L), "D"(&time), "S"(0L) : "rcx", "r11", "memory");
}
FUNCTION(forward) {
  const float *x = ios[0]; float *h = ios[1];
  sleep_ns(6000000);
  for (int i = 0; i < 4; ++i) h[i] = x[i] + 1;
  return 0;
}
FUNCTION(backward) {
  const float *h = ios[0], *d = ios[1]; float *out = ios[2];
  sleep_ns(12000000);
  for (int i = 0; i < 4; ++i) out[i] = h[i] + d[i];
  return 0;
}
)";

struct Step {
  bool forward;
  int64_t microBatch;
};

/// The textbook orders (lib/Cost/Schedule.cpp has the same).
std::vector<Step> orderOf(bool gpipe, int64_t stage) {
  std::vector<Step> list;
  int64_t warmUp =
      gpipe ? kMicroBatches : std::min(kMicroBatches, kStages - stage);
  for (int64_t j = 0; j < warmUp; ++j)
    list.push_back({true, j});
  for (int64_t j = 0; j < kMicroBatches; ++j) {
    list.push_back({false, j});
    if (warmUp + j < kMicroBatches)
      list.push_back({true, warmUp + j});
  }
  return list;
}

json io() { return {{"dtype", "f32"}, {"shape", {4}}}; }

TestPackage pipeline(bool gpipe) {
  TestPackage p(source);
  p.manifest["mesh"] = {
      {"axes", {{{"name", "pp"}, {"size", kStages}}}},
      {"stage_axis", "pp"},
      {"time_axis", {{"name", "mb"}, {"size", kMicroBatches}}}};
  std::vector<json> sharding = {axes({"mb"})};
  p.manifest["inputs"] = {tensor("x", {4 * kMicroBatches}, sharding)};
  p.manifest["outputs"] = {tensor("y", {4 * kMicroBatches}, sharding)};
  json channels = json::array();
  auto channel = [&](int64_t from, int64_t to) {
    channels.push_back({{"from_stage", from},
                        {"to_stage", to},
                        {"dtype", "f32"},
                        {"shape", {4}},
                        {"bytes", 16},
                        {"node", "/cut"}});
  };
  for (int64_t s = 0; s + 1 < kStages; ++s) {
    channel(s, s + 1); // 2 s: activations
    channel(s + 1, s); // 2 s + 1: gradients
  }
  p.manifest["channels"] = channels;
  p.manifest["functions"] = {{{"symbol", "forward"},
                              {"scratch_bytes", 0},
                              {"num_arguments", 1},
                              {"ios", {io(), io()}}},
                             {{"symbol", "backward"},
                              {"scratch_bytes", 0},
                              {"num_arguments", 2},
                              {"ios", {io(), io(), io()}}}};
  json stages = json::array();
  for (int64_t s = 0; s < kStages; ++s) {
    // Kept activations by micro-batch; behind them input, gradient in and out,
    // each twice: what is sent is overwritten two micro-batches later.
    json slots = json::array(), list = json::array();
    int64_t in = kMicroBatches, gradient = in + 2, out = gradient + 2;
    for (int64_t slot = 0; slot < out + 2; ++slot)
      slots.push_back({{"offset", 64 * slot}, {"bytes", 64}});
    for (Step step : orderOf(gpipe, s)) {
      int64_t j = step.microBatch, odd = j % 2;
      auto add = [&](const char *what, int64_t number, int64_t slot) {
        list.push_back({{what, number}, {"slot", slot}, {"micro_batch", j}});
      };
      auto run = [&](int64_t function, const std::vector<int64_t> &slots) {
        list.push_back(
            {{"run", function}, {"slots", slots}, {"micro_batch", j}});
      };
      if (step.forward) {
        add(s == 0 ? "input" : "recv", s == 0 ? 0 : 2 * (s - 1), in + odd);
        run(0, {in + odd, j});
        if (s + 1 < kStages)
          add("send", 2 * s, j);
        continue;
      }
      bool isLast = s + 1 == kStages;
      if (!isLast)
        add("recv", 2 * s + 1, gradient + odd);
      run(1, {j, isLast ? j : gradient + odd, out + odd});
      if (s > 0)
        add("send", 2 * (s - 1) + 1, out + odd);
      else
        add("output", 0, out + odd);
    }
    stages.push_back({{"arena_bytes", 64 * (out + 2)},
                      {"slots", slots},
                      {"instructions", list}});
  }
  p.manifest["stages"] = stages;
  return p;
}

void check(bool gpipe) {
#ifndef KERF_TEST_X86
  GTEST_SKIP() << "the sleeping kernel is written for x86-64";
#endif
  TestPackage package = pipeline(gpipe);
  std::string path = package.write();
  std::vector<float> x(4 * kMicroBatches);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float(i);
  double formula = double(kMicroBatches + kStages - 1) *
                   (kForwardSeconds + kBackwardSeconds);
  // The machine may be busy: the best of a few steps counts.
  double best = 1e9;
  for (int attempt = 0; attempt < 5 && best > 1.05 * formula; ++attempt) {
    RunResult result = runTestPackage(path, {x}, {}, 2);
    ASSERT_EQ(result.message, "");
    // Stage s gives x + s + 1; the last adds its own to itself, the others
    // theirs to what comes back.
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(result.outputs[0][i], 5 * x[i] + 1 + 2 + 3 + 4 + 4);
    best = std::min(
        best,
        json::parse(result.statistics)["time"]["step_seconds"].get<double>());
  }
  EXPECT_GE(best, formula);
  EXPECT_LE(best, 1.05 * formula);
  ::testing::Test::RecordProperty("over_formula",
                                  std::to_string(best / formula));
}

TEST(Pipeline, SleepingGPipeTakesWhatTheFormulaSays) { check(true); }
TEST(Pipeline, SleepingOneFOneBTakesWhatTheFormulaSays) { check(false); }

} // namespace
