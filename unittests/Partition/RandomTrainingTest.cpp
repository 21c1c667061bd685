//===- RandomTrainingTest.cpp - partitioned steps equal whole ones --------===//
//
// Random networks and random functions, made into training steps, under random
// plans (stages, micro-batches, sub-axes, partial gradients, uneven shards,
// tied weights): two steps on simulated ranks leave the same parameters,
// momenta and outputs as two steps of the function as it stands; and run again,
// the same bits.
//
//===----------------------------------------------------------------------===//
#include "RandomTraining.h"

#include "kerf/Collectives/Accounting.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Pipelines/Register.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::Tensor;

namespace {

std::string textOf(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  op->print(os);
  return text;
}

constexpr int kSteps = 2;

struct Coverage {
  int steps = 0, stages = 0, microBatches = 0, sums = 0, kept = 0, levels = 0;
  int tied = 0, buckets = 0, waits = 0, byAutodiff = 0;
  std::map<std::string, int> purposes;
};

struct Trained {
  std::vector<std::vector<Tensor>> outputs;
  interpret::State state;
};

FailureOr<Trained> train(ModuleOp module, ArrayRef<Tensor> inputs) {
  interpret::RankStates states;
  Trained result;
  for (int step = 0; step < kSteps; ++step) {
    auto outputs =
        interpret::runPartitioned(module, inputs, makeWeights(), &states);
    if (failed(outputs))
      return failure();
    result.outputs.push_back(std::move(*outputs));
  }
  auto state = states.join(module);
  if (failed(state))
    return failure();
  result.state = std::move(*state);
  return result;
}

void check(MLIRContext &context, unsigned seed, Coverage &coverage) {
  Random random(seed);
  dist::Mesh mesh = makeMesh(random);
  if (!mesh.find(dist::kStageAxis) && chance(random, 40))
    mesh.axes.insert(mesh.axes.begin(),
                     {dist::kStageAxis.str(), 2 + draw(random, 3), false});
  int64_t batch = 1 + draw(random, 6);
  if (chance(random, 50) && mesh.numMicroBatches() == 1)
    mesh.axes.push_back({"mb", 2 + draw(random, 3), true});
  if (mesh.numMicroBatches() > 1)
    batch = 2 * mesh.numMicroBatches();
  bool byAutodiff = seed % 3 == 0;
  auto module = byAutodiff || chance(random, 75)
                    ? makeNetwork(&context, random, 3 + draw(random, 8), batch)
                    : makeGraph(&context, random, 3 + draw(random, 6));
  {
    ScopedDiagnosticHandler quiet(&context,
                                  [](Diagnostic &) { return success(); });
    if (!(byAutodiff ? makeAutodiffStep(*module, random)
                     : makeTrainingStep(*module, random)))
      return;
    coverage.byAutodiff += byAutodiff;
  }
  ASSERT_TRUE(succeeded(verify(*module))) << textOf(*module);
  auto main = module->lookupSymbol<func::FuncOp>("main");
  auto inputs = makeStepInputs(main, random);
  if (!byAutodiff)
    inputs.back().data.assign(1, 0.25); // the learning rate
  auto weights = makeWeights();
  Trained expected;
  for (int step = 0; step < kSteps; ++step) {
    auto outputs = interpret::run(main, inputs, weights, &expected.state);
    ASSERT_TRUE(succeeded(outputs));
    expected.outputs.push_back(std::move(*outputs));
  }

  makePlan(*module, mesh, random);
  if (chance(random, 50))
    (*module)->setAttr("dist.schedule_kind",
                       StringAttr::get(&context, "gpipe"));
  std::string plan = textOf(*module);
  PassManager partition(&context);
  buildPartitionPipeline(partition);
  ASSERT_TRUE(succeeded(partition.run(*module))) << plan;
  auto compare = [&](const char *when) {
    auto trained = train(*module, inputs);
    ASSERT_TRUE(succeeded(trained)) << when << "\n" << plan << textOf(*module);
    for (int step = 0; step < kSteps; ++step)
      for (size_t i = 0; i < trained->outputs[step].size(); ++i)
        ASSERT_LE(interpret::difference(trained->outputs[step][i],
                                        expected.outputs[step][i]),
                  1e-6)
            << "output " << i << " of step " << step << " after " << when
            << "\n"
            << plan << textOf(*module);
    ASSERT_EQ(trained->state.size(), expected.state.size());
    for (auto &[key, value] : expected.state)
      ASSERT_LE(interpret::difference(trained->state[key], value), 1e-6)
          << key << " after " << when << "\n"
          << plan << textOf(*module);
    auto again = train(*module, inputs);
    ASSERT_TRUE(succeeded(again));
    for (auto &[key, value] : trained->state)
      ASSERT_EQ(again->state[key].data, value.data) << key;
  };
  compare("partition");
  ++coverage.steps;
  coverage.stages += !module->getOps<dist::ChannelOp>().empty();
  bool levels = false;
  for (auto function : module->getOps<func::FuncOp>()) {
    levels |= function.getName().ends_with("update2");
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      coverage.sums += bool(function.getArgAttr(i, "dist.accumulator"));
      coverage.kept += bool(function.getArgAttr(i, "dist.kept"));
    }
  }
  coverage.levels += levels;
  for (auto channel : module->getOps<dist::ChannelOp>())
    coverage.tied += channel.getPurpose() == dist::Purpose::Parameter;
  coverage.microBatches +=
      dist::getMesh(*module).toMesh().numMicroBatches() > 1;

  auto before = accountCommunication(*module);
  ASSERT_TRUE(succeeded(before));
  for (auto &[purpose, bytes] : before->byPurpose)
    coverage.purposes[purpose] += bytes > 0;
  PassManager collectives(&context);
  CollectivesOptions options;
  options.overlap = seed % 2 == 0;
  options.bucketBytes = seed % 3 == 0 ? 64 : 0;
  options.gradientBytes = seed % 5 ? 8 << draw(random, 5) : 0;
  buildCollectivesPipeline(collectives, options);
  ASSERT_TRUE(succeeded(collectives.run(*module)));
  compare("collectives");
  auto after = accountCommunication(*module);
  ASSERT_TRUE(succeeded(after));
  EXPECT_LE(after->totalBytes, before->totalBytes);
  module->walk([&](dist::PackOp) { ++coverage.buckets; });
  module->walk([&](dist::WaitOp) { ++coverage.waits; });
}

TEST(RandomTrainingTest, PartitionedStepsEqualWholeOnes) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  unsigned first = 0, count = 400;
  if (const char *given = std::getenv("KERF_SEED")) {
    first = std::atoi(given);
    count = 1;
  }
  Coverage coverage;
  for (unsigned seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("KERF_SEED=" + std::to_string(seed));
    check(context, seed, coverage);
    if (::testing::Test::HasFatalFailure())
      return;
  }
  if (count == 1)
    return;
  // The tests see what they are for.
  EXPECT_GT(coverage.steps, 200);
  EXPECT_GT(coverage.stages, 80);
  EXPECT_GT(coverage.microBatches, 80);
  EXPECT_GT(coverage.sums, 200);
  EXPECT_GT(coverage.kept, 300);
  EXPECT_GT(coverage.levels, 10);
  EXPECT_GT(coverage.tied, 5);
  EXPECT_GT(coverage.byAutodiff, 80);
  EXPECT_GT(coverage.buckets, 15);
  EXPECT_GT(coverage.waits, 100);
  for (const char *purpose : {"gradient", "activation", "parameter"})
    EXPECT_GT(coverage.purposes[purpose], 20) << purpose;
}

} // namespace
