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
  auto machine =
      cost::machinePreset("h100-8", options.devices, cost::HostInfo());
  ASSERT_TRUE(bool(machine));
  options.machine = std::move(*machine);
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
  auto machine =
      cost::machinePreset("h100-8", options.devices, cost::HostInfo());
  ASSERT_TRUE(bool(machine));
  options.machine = std::move(*machine);
  options.solver =
      chance(random, 30) ? plan::SolverKind::Random : plan::SolverKind::Auto;
  options.objective = plan::Objective::Volume;
  options.seed = seed;
  carryOut(*module, options, counts, [](const plan::PlanResult &) {});
}

TEST(PlannedPartitionTest, PlansAreKept) {
  LoadedContext loaded;
  Counts counts;
  bool all = forEachSeed(
      5000, 150, [&](unsigned seed) { check(loaded.context, seed, counts); });
  RecordProperty("planned", counts.planned);
  RecordProperty("searched", counts.searched);
  RecordProperty("infeasible", counts.infeasible);
  RecordProperty("stages", counts.stages);
  if (all) {
    EXPECT_GT(counts.planned, 100);
    EXPECT_GT(counts.searched, 10);
    EXPECT_GT(counts.sending, 50);
  }
}

TEST(PlannedPartitionTest, StepsSendWhatIsPlanned) {
  LoadedContext loaded;
  Counts counts;
  bool all = forEachSeed(7000, 100, [&](unsigned seed) {
    checkTraining(loaded.context, seed, counts);
  });
  RecordProperty("planned", counts.planned);
  RecordProperty("infeasible", counts.infeasible);
  RecordProperty("stages", counts.stages);
  RecordProperty("micro_batches", counts.microBatches);
  RecordProperty("proven", counts.proven);
  if (all) {
    EXPECT_GT(counts.searched, 40);
    EXPECT_GT(counts.sending, 40);
    EXPECT_GT(counts.stages, 10);
    EXPECT_GT(counts.microBatches, 5);
  }
}

} // namespace
