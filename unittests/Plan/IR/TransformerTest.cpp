//===- TransformerTest.cpp - what is known about cutting GPT-2 ------------===//
//
// Judged by closed forms (docs/CostModel.md) and by Megatron's layout.
//
//===----------------------------------------------------------------------===//
#include "GptText.h"

#include "kerf/Pipelines/Register.h"
#include "kerf/Plan/Plan.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace kerf;
using kerf::testing::GptSize;
using kerf::testing::GptText;

namespace {

plan::PlanResult planOf(const GptSize &size, plan::PlanOptions options) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  auto module = parseSourceString<ModuleOp>(GptText(size).build(), &context);
  EXPECT_TRUE(bool(module));
  cost::HostInfo host;
  auto machine = cost::machinePreset("h100-8", options.devices, host);
  EXPECT_TRUE(bool(machine));
  options.machine = std::move(*machine);
  plan::PlanError error;
  std::string message;
  auto result = plan::planModule(*module, options, error, message);
  EXPECT_TRUE(succeeded(result)) << message;
  return succeeded(result) ? *result : plan::PlanResult();
}

// The article's example: GPT-2 124M, 524,288 tokens, 8 devices. Under the
// article's direct exchange the pipeline is the cheapest pure cut, with ring
// collectives data parallel is. (The figures of docs/CostModel.md are for 2
// bytes per element, these for 4.)
TEST(Transformer, PureCutsAndTheirFlip) {
  GptSize size;
  size.batch = 512;
  size.sequence = 1024;
  plan::PlanOptions options;
  options.devices = 8;
  options.mesh = {{"dp", 8}};
  plan::PlanResult result = planOf(size, options);
  // 12 scalars stand for the attention scales.
  constexpr cost::Int128 parameters = 124439808 + 12;
  EXPECT_EQ(cost::Int128(result.parameters), parameters);
  cost::Int128 tokens = 524288;
  EXPECT_TRUE(result.pureCuts.article[0] == parameters * 4 * 8 * 7);
  EXPECT_TRUE(result.pureCuts.article[2] == tokens * 768 * 4 * 7)
      << cost::toString(result.pureCuts.article[2]);
  EXPECT_TRUE(result.pureCuts.ring[0] == parameters * 4 * 2 * 7);
  EXPECT_TRUE(result.pureCuts.ring[2] == tokens * 768 * 4 * 7 * 2);
  EXPECT_LT(result.pureCuts.article[2], result.pureCuts.article[0]);
  EXPECT_LT(result.pureCuts.ring[0], result.pureCuts.ring[2]);
}

// A layer whose weights do not fit whole on a device costs at most Megatron's
// two all-reduces, and nobody says where to put them.
TEST(Transformer, LayerCostsAtMostMegatron) {
  GptSize size;
  size.layers = 1;
  size.batch = 1;
  size.sequence = 256;
  size.embedding = false;
  for (int64_t devices : {2, 4}) {
    plan::PlanOptions options;
    options.devices = devices;
    options.mesh = {{"tp", devices}};
    options.objective = plan::Objective::Volume;
    int64_t weights = 12 * 768 * 768 * 4;
    int64_t tokens = size.batch * size.sequence;
    // Room for the shards, vectors and activations, not for a whole matrix
    // more.
    options.memoryLimitBytes = weights / devices + tokens * 768 * 4 * 8;
    plan::PlanResult result = planOf(size, options);
    ASSERT_FALSE(result.candidates.empty());
    int64_t megatron = 2 * 2 * (devices - 1) * tokens * 768 * 4 / devices;
    EXPECT_LE(result.cost, double(megatron)) << devices;
    EXPECT_GT(result.cost, 0) << "the limit does not force anything";
    EXPECT_DOUBLE_EQ(result.gap, 0);
  }
}

// 7 heads on 4 devices: two on each of three and one on the last. Queries, keys
// and values are cut between heads, so it is two all-reduces as ever.
TEST(Transformer, HeadsThatDoNotDivideCostNoMore) {
  GptSize size;
  size.layers = 1;
  size.batch = 1;
  size.sequence = 256;
  size.hidden = 448;
  size.heads = 7;
  size.embedding = false;
  plan::PlanOptions options;
  options.devices = 4;
  options.mesh = {{"tp", 4}};
  options.objective = plan::Objective::Volume;
  int64_t weights = 12 * 448 * 448 * 4, tokens = 256;
  // Too little to have the weights of attention whole.
  options.memoryLimitBytes = weights / 4 + tokens * 448 * 4 * 6;
  plan::PlanResult result = planOf(size, options);
  ASSERT_FALSE(result.candidates.empty());
  EXPECT_LE(result.cost, double(2 * 2 * 3 * tokens * 448 * 4 / 4));
  EXPECT_GT(result.cost, 0) << "the limit does not force anything";
  EXPECT_DOUBLE_EQ(result.gap, 0);
}

// The whole search over meshes, stages and micro-batches ends with a proof.
TEST(Transformer, WholeSearchIsProven) {
  plan::PlanOptions options;
  options.devices = 8;
  plan::PlanResult result = planOf(GptSize(), options);
  EXPECT_DOUBLE_EQ(result.gap, 0);
  EXPECT_GT(result.candidates.size(), 5u);
  // Of meshes that were not searched a bound is known.
  for (const plan::CandidateSummary &candidate : result.candidates)
    EXPECT_GE(candidate.reason.empty() ? candidate.cost : candidate.lowerBound,
              result.cost);
}

} // namespace
