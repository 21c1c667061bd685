//===- PlannedPartitionTest.cpp - the planner's plans, executed -----------===//
//
// Random functions and steps of training, planned by the search and by the
// random solver: what is partitioned from the plan equals the function, and
// sends the bytes that the planner said. Where they are what is minimised, the
// collectives phase finds nothing to save, and the proven bound is no more than
// what is sent.
//
//===----------------------------------------------------------------------===//
#include "../Support/Seeds.h"
#include "RandomTraining.h"

#include "kerf/Collectives/Accounting.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Pipelines/Register.h"
#include "kerf/Plan/Plan.h"

#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

struct Counts {
  int planned = 0, infeasible = 0, stages = 0, microBatches = 0, searched = 0;
  int sending = 0, proven = 0;
};

void carryOut(ModuleOp module, const plan::PlanOptions &options, Counts &counts,
              llvm::function_ref<void(const plan::PlanResult &)> partitioned) {
  plan::PlanError error = plan::PlanError::None;
  std::string message;
  auto planned = plan::planModule(module, options, error, message);
  if (failed(planned)) {
    // More stages than ops, say.
    ++counts.infeasible;
    return;
  }
  std::string text = textOf(module);
  auto run = [&](auto build) {
    PassManager passes(module.getContext());
    build(passes);
    ASSERT_TRUE(succeeded(passes.run(module))) << text;
  };
  run([](PassManager &passes) { buildPartitionPipeline(passes); });
  auto report = accountCommunication(module);
  ASSERT_TRUE(succeeded(report));
  const plan::CandidateSummary &best = planned->candidates.front();
  EXPECT_EQ(report->totalBytes, best.totalBytes) << text << textOf(module);
  EXPECT_EQ(report->bytesPerRank, best.bytesPerRank) << text << textOf(module);
  partitioned(*planned);
  run([](PassManager &passes) {
    CollectivesOptions collectives;
    collectives.gradientBytes = 1 << 12;
    collectives.bucketBytes = 1 << 10;
    buildCollectivesPipeline(passes, collectives);
  });
  report = accountCommunication(module);
  ASSERT_TRUE(succeeded(report));
  EXPECT_LE(report->bytesPerRank, best.bytesPerRank) << text << textOf(module);
  if (options.solver == plan::SolverKind::Auto &&
      options.objective == plan::Objective::Volume) {
    EXPECT_EQ(double(report->bytesPerRank), planned->cost)
        << text << textOf(module);
    EXPECT_LE(planned->lowerBound, double(report->bytesPerRank));
    ++counts.searched;
    counts.proven += planned->gap == 0;
  }
  ++counts.planned;
  counts.sending += report->bytesPerRank > 0;
  counts.stages +=
      planned->mesh.front().second > 1 && planned->mesh.front().first == "pp";
  counts.microBatches += planned->microBatches > 1;
}

void setMachine(plan::PlanOptions &options) {
  auto machine =
      cost::machinePreset("h100-8", options.devices, cost::HostInfo());
  ASSERT_TRUE(bool(machine));
  options.machine = std::move(*machine);
}

void check(MLIRContext &context, unsigned seed, Counts &counts) {
  Random random(seed);
  auto module = makeGraph(&context, random, 4 + int(draw(random, 6)));
  auto main = module->lookupSymbol<func::FuncOp>("main");
  auto inputs = makeInputs(main, random);
  auto weights = makeWeights();
  auto expected = interpret::run(main, inputs, weights);
  ASSERT_TRUE(succeeded(expected));

  plan::PlanOptions options;
  const std::vector<std::pair<std::string, int64_t>> meshes[] = {
      {{"a", 2}},           {{"a", 4}},
      {{"a", 2}, {"b", 2}}, {{"pp", 2}, {"a", 2}},
      {{"a", 4}, {"b", 2}}, {{"pp", 2}, {"a", 2}, {"b", 2}},
      {{"a", 3}, {"b", 2}}};
  options.mesh = meshes[draw(random, 7)];
  for (const auto &[name, size] : options.mesh)
    options.devices *= size;
  ASSERT_NO_FATAL_FAILURE(setMachine(options));
  options.solver =
      chance(random, 70) ? plan::SolverKind::Random : plan::SolverKind::Auto;
  options.objective =
      chance(random, 50) ? plan::Objective::Volume : plan::Objective::Time;
  options.seed = seed;
  bool isPlanned = false;
  std::string text;
  carryOut(*module, options, counts, [&](const plan::PlanResult &) {
    isPlanned = true;
    text = textOf(*module);
  });
  if (!isPlanned)
    return;
  auto outputs = interpret::runPartitioned(*module, inputs, weights);
  ASSERT_TRUE(succeeded(outputs)) << text << textOf(*module);
  for (size_t i = 0; i < outputs->size(); ++i)
    ASSERT_LE(interpret::difference((*outputs)[i], (*expected)[i]), 1e-6)
        << "output " << i << "\n"
        << text << textOf(*module);
}

/// Steps of training; that they compute the same is tested by RandomTraining.
void checkTraining(MLIRContext &context, unsigned seed, Counts &counts) {
  Random random(seed);
  int64_t batch = 12;
  auto module = makeNetwork(&context, random, 3 + draw(random, 5), batch);
  {
    ScopedDiagnosticHandler quiet(&context,
                                  [](Diagnostic &) { return success(); });
    if (!makeAutodiffStep(*module, random))
      return;
  }
  plan::PlanOptions options;
  const std::vector<std::pair<std::string, int64_t>> meshes[] = {
      {{"dp", 2}},
      {{"dp", 3}},
      {{"dp", 2}, {"tp", 2}},
      {{"pp", 2}},
      {{"pp", 2}, {"dp", 3}},
      {{"pp", 2}, {"a", 2}},
      {{"a", 3}},
      {}};
  options.mesh = meshes[draw(random, 8)];
  options.devices = options.mesh.empty() ? 2 + draw(random, 3) : 1;
  for (const auto &[name, size] : options.mesh)
    options.devices *= size;
  if (chance(random, 50))
    options.microBatches = 1 + draw(random, 3);
  ASSERT_NO_FATAL_FAILURE(setMachine(options));
  options.solver =
      chance(random, 30) ? plan::SolverKind::Random : plan::SolverKind::Auto;
  options.objective = plan::Objective::Volume;
  options.seed = seed;
  carryOut(*module, options, counts, [](const plan::PlanResult &) {});
}

/// What is proven of cuts that divide the work holds for plans that were not
/// looked for.
void checkBound(MLIRContext &context, unsigned seed, Counts &counts) {
  Random random(seed);
  auto module = makeNetwork(&context, random, 3 + draw(random, 5), 12);
  {
    ScopedDiagnosticHandler quiet(&context,
                                  [](Diagnostic &) { return success(); });
    if (!makeAutodiffStep(*module, random))
      return;
  }
  plan::PlanOptions options;
  options.mesh = {{"pp", 2}};
  options.devices = 4;
  options.microBatches = 1 + draw(random, 3);
  options.objective = plan::Objective::Volume;
  ASSERT_NO_FATAL_FAILURE(setMachine(options));
  auto planBy = [&](plan::SolverKind solver, uint64_t number) {
    OwningOpRef<ModuleOp> copy = module->clone();
    options.solver = solver;
    options.seed = number;
    plan::PlanError error = plan::PlanError::None;
    std::string message;
    return plan::planModule(*copy, options, error, message);
  };
  auto searched = planBy(plan::SolverKind::Auto, 0);
  if (failed(searched)) {
    ++counts.infeasible;
    return;
  }
  ++counts.searched;
  counts.proven += searched->gap == 0;
  for (uint64_t number = 1; number <= 8; ++number) {
    auto other = planBy(plan::SolverKind::Random, number);
    if (failed(other))
      continue;
    ++counts.planned;
    EXPECT_GE(other->cost, searched->lowerBound) << textOf(*module);
  }
}

/// Whether all seeds ran; what was counted is recorded.
using Check = void (*)(MLIRContext &, unsigned, Counts &);
bool checkAll(unsigned first, unsigned count, Check check, Counts &counts) {
  LoadedContext loaded;
  bool all = forEachSeed(first, count, [&](unsigned seed) {
    check(loaded.context, seed, counts);
  });
  ::testing::Test::RecordProperty("planned", counts.planned);
  ::testing::Test::RecordProperty("searched", counts.searched);
  ::testing::Test::RecordProperty("proven", counts.proven);
  ::testing::Test::RecordProperty("infeasible", counts.infeasible);
  ::testing::Test::RecordProperty("stages", counts.stages);
  ::testing::Test::RecordProperty("micro_batches", counts.microBatches);
  return all;
}

TEST(PlannedPartitionTest, PlansAreKept) {
  Counts counts;
  if (!checkAll(5000, 150, check, counts))
    return;
  EXPECT_GT(counts.planned, 100);
  EXPECT_GT(counts.searched, 10);
  EXPECT_GT(counts.sending, 50);
}

TEST(PlannedPartitionTest, StepsSendWhatIsPlanned) {
  Counts counts;
  if (!checkAll(7000, 100, checkTraining, counts))
    return;
  EXPECT_GT(counts.searched, 40);
  EXPECT_GT(counts.sending, 40);
  EXPECT_GT(counts.stages, 10);
  EXPECT_GT(counts.microBatches, 5);
}

TEST(PlannedPartitionTest, BoundsHoldForOtherPlans) {
  Counts counts;
  if (!checkAll(9000, 60, checkBound, counts))
    return;
  EXPECT_GT(counts.searched, 10);
  EXPECT_GT(counts.planned, 20);
}

} // namespace
