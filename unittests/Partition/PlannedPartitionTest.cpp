//===- PlannedPartitionTest.cpp - the planner's plans, executed -----------===//
//
// Random functions, planned by the search and by the random solver: what is
// partitioned from the plan equals the function, and sends no more bytes than
// the planner said (equal uses of a value share a reshard).
//
//===----------------------------------------------------------------------===//
#include "../Support/Seeds.h"
#include "RandomGraph.h"

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
  int planned = 0, exact = 0, infeasible = 0, stages = 0;
};

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
  plan::PlanError error = plan::PlanError::None;
  std::string message;
  auto planned = plan::planModule(*module, options, error, message);
  if (failed(planned)) {
    // More stages than ops, say.
    ++counts.infeasible;
    return;
  }
  std::string text = textOf(*module);
  PassManager passes(&context);
  buildPartitionPipeline(passes);
  ASSERT_TRUE(succeeded(passes.run(*module))) << text;
  auto report = accountCommunication(*module);
  ASSERT_TRUE(succeeded(report));
  int64_t promised = planned->candidates.front().totalBytes;
  // An argument's shared layout may cross to a second stage, which the planner
  // does not foresee.
  if (options.mesh.front().first != "pp")
    EXPECT_LE(report->totalBytes, promised) << text << textOf(*module);
  ++counts.planned;
  counts.exact += report->totalBytes == promised;
  counts.stages += options.mesh.front().first == "pp";
  if (std::getenv("KERF_SEED") && report->totalBytes != promised)
    llvm::errs() << report->totalBytes << " of " << promised << "\n"
                 << text << textOf(*module);

  PassManager collectives(&context);
  buildCollectivesPipeline(collectives);
  ASSERT_TRUE(succeeded(collectives.run(*module)));
  auto outputs = interpret::runPartitioned(*module, inputs, weights);
  ASSERT_TRUE(succeeded(outputs)) << text << textOf(*module);
  for (size_t i = 0; i < outputs->size(); ++i)
    ASSERT_LE(interpret::difference((*outputs)[i], (*expected)[i]), 1e-6)
        << "output " << i << "\n"
        << text << textOf(*module);
}

TEST(PlannedPartitionTest, PlansAreKept) {
  LoadedContext loaded;
  Counts counts;
  bool all = forEachSeed(
      5000, 150, [&](unsigned seed) { check(loaded.context, seed, counts); });
  RecordProperty("planned", counts.planned);
  RecordProperty("exact", counts.exact);
  RecordProperty("infeasible", counts.infeasible);
  RecordProperty("stages", counts.stages);
  if (all) {
    EXPECT_GT(counts.planned, 100);
    EXPECT_GT(counts.exact * 2, counts.planned);
  }
}

} // namespace
