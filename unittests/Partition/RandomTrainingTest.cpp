//===- RandomTrainingTest.cpp - partitioned steps equal whole ones --------===//
//
// Random networks and random functions, made into training steps, under random
// plans (stages, chunks, micro-batches, sub-axes, partial gradients, uneven
// shards, tied weights, blocks that are computed again): two steps on simulated
// ranks leave the same parameters, momenta and outputs as two steps of the
// function as it stands; and run again, the same bits.
//
//===----------------------------------------------------------------------===//
#include "RandomTraining.h"
#include "../Support/Seeds.h"

#include "kerf/Collectives/Accounting.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Pipelines/Register.h"
#include "kerf/Plan/Plan.h"
#include "kerf/Plan/Recompute.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::Tensor;

namespace {

constexpr int kSteps = 2;

struct Coverage {
  int steps = 0, stages = 0, microBatches = 0, sums = 0, kept = 0, levels = 0;
  int tied = 0, buckets = 0, waits = 0, byAutodiff = 0, recomputed = 0;
  int interleaved = 0, chunksKept = 0;
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
  Random ofChunks(seed + 100000);
  int64_t chunks = 1;
  if (mesh.find(dist::kStageAxis) && chance(ofChunks, 50))
    chunks = makeInterleaved(mesh, ofChunks);
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

  // Of every second step blocks are computed again.
  if (seed % 2 == 1)
    coverage.recomputed += plan::recomputeEvery(main, 1 + seed / 2 % 2);
  ASSERT_TRUE(succeeded(verify(*module))) << textOf(*module);
  if (chunks > 1)
    setInterleaved(*module, chunks);
  makePlan(*module, mesh, random);
  chunks = dist::getNumChunks(*module);
  if (chance(random, 50) && chunks == 1)
    (*module)->setAttr(
        dist::kScheduleKind,
        dist::ScheduleKindAttr::get(&context, dist::ScheduleKind::GPipe));
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
  coverage.interleaved +=
      chunks > 1 && !module->getOps<dist::ChannelOp>().empty();
  bool levels = false;
  for (auto function : module->getOps<func::FuncOp>()) {
    levels |= function.getName().ends_with("update2");
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      coverage.sums +=
          dist::numberFrom(function, i, dist::From::Accumulator).has_value();
      coverage.kept +=
          dist::numberFrom(function, i, dist::From::Kept).has_value();
      coverage.chunksKept +=
          dist::numberFrom(function, i, dist::From::Kept).has_value() &&
          dist::getChunk(function) > 0;
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
  LoadedContext loaded;
  Coverage coverage;
  if (!forEachSeed(0, 600, [&](unsigned seed) {
        check(loaded.context, seed, coverage);
      }))
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
  EXPECT_GT(coverage.recomputed, 50);
  EXPECT_GT(coverage.interleaved, 40);
  EXPECT_GT(coverage.chunksKept, 40);
  EXPECT_GT(coverage.buckets, 15);
  EXPECT_GT(coverage.waits, 100);
  for (const char *purpose : {"gradient", "activation", "parameter"})
    EXPECT_GT(coverage.purposes[purpose], 20) << purpose;
}

// The planner's own plans of autodiff's steps, by search and at random, whole
// and in parts over data-parallel devices (ZeRO): the same parameters after two
// steps, and no more bytes than promised.
TEST(RandomTrainingTest, PlannedStepsEqualWholeOnes) {
  LoadedContext loaded;
  MLIRContext &context = loaded.context;
  int planned = 0, stages = 0, exact = 0, whole = 0, inParts = 0;
  int interleaved = 0;
  std::string infeasible;
  bool all = forEachSeed(7000, 100, [&](unsigned seed) {
    Random random(seed);
    auto module = makeNetwork(&context, random, 3 + draw(random, 6), 8);
    ScopedDiagnosticHandler quiet(&context,
                                  [](Diagnostic &) { return success(); });
    if (!makeAutodiffStep(*module, random))
      return;
    auto main = module->lookupSymbol<func::FuncOp>("main");
    auto inputs = makeStepInputs(main, random);
    Trained expected;
    for (int step = 0; step < kSteps; ++step) {
      auto outputs =
          interpret::run(main, inputs, makeWeights(), &expected.state);
      ASSERT_TRUE(succeeded(outputs));
      expected.outputs.push_back(std::move(*outputs));
    }
    plan::PlanOptions options;
    const std::vector<std::pair<std::string, int64_t>> meshes[] = {
        {{"dp", 2}},
        {{"tp", 2}},
        {{"dp", 2}, {"tp", 2}},
        {{"pp", 2}, {"dp", 2}},
        {{"pp", 2}, {"tp", 2}},
        {{"pp", 3}},
        {{"pp", 2}, {"dp", 2}, {"tp", 2}}};
    options.mesh = meshes[draw(random, 7)];
    for (const auto &[name, size] : options.mesh)
      options.devices *= size;
    options.machine = llvm::cantFail(
        cost::machinePreset("h100-8", options.devices, cost::HostInfo()));
    options.solver =
        chance(random, 50) ? plan::SolverKind::Random : plan::SolverKind::Auto;
    options.objective =
        chance(random, 50) ? plan::Objective::Volume : plan::Objective::Time;
    options.seed = seed;
    options.microBatches = int64_t(1) << draw(random, 3);
    Random kinds(seed + 1);
    if (llvm::any_of(options.mesh,
                     [](const auto &axis) { return axis.first == "dp"; }))
      options.zero = plan::kZeros[draw(kinds, 4)];
    if (options.mesh.front() == std::pair<std::string, int64_t>("pp", 2) &&
        chance(kinds, 50)) {
      options.schedule = cost::ScheduleKind::Interleaved;
      options.microBatches = 2 + 2 * draw(kinds, 2);
    }
    plan::PlanError error = plan::PlanError::None;
    std::string message;
    auto result = plan::planModule(*module, options, error, message);
    if (failed(result)) {
      infeasible += message + "\n";
      return;
    }
    std::string text = textOf(*module);
    PassManager passes(&context);
    buildPartitionPipeline(passes);
    ASSERT_TRUE(succeeded(passes.run(*module))) << text;
    auto report = accountCommunication(*module);
    ASSERT_TRUE(succeeded(report));
    ++planned;
    inParts += result->zero != plan::Zero::None;
    interleaved += result->chunks > 1;
    int64_t promised = result->candidates.front().totalBytes;
    if (options.mesh.front().first == "pp") {
      ++stages;
    } else {
      EXPECT_LE(report->totalBytes, promised) << text << textOf(*module);
      ++whole;
      exact += report->totalBytes == promised;
    }
    PassManager collectives(&context);
    CollectivesOptions bucketed;
    bucketed.gradientBytes = 64;
    buildCollectivesPipeline(collectives, bucketed);
    ASSERT_TRUE(succeeded(collectives.run(*module)));
    auto trained = train(*module, inputs);
    ASSERT_TRUE(succeeded(trained)) << text << textOf(*module);
    ASSERT_EQ(trained->state.size(), expected.state.size());
    for (auto &[key, value] : expected.state)
      ASSERT_LE(interpret::difference(trained->state[key], value), 1e-6)
          << key << "\n"
          << text << textOf(*module);
    for (int step = 0; step < kSteps; ++step)
      for (size_t i = 0; i < trained->outputs[step].size(); ++i)
        ASSERT_LE(interpret::difference(trained->outputs[step][i],
                                        expected.outputs[step][i]),
                  1e-6)
            << text << textOf(*module);
  });
  RecordProperty("planned", planned);
  RecordProperty("exact", exact);
  if (all) {
    EXPECT_GT(planned, 60) << infeasible;
    EXPECT_GT(stages, 20) << infeasible;
    EXPECT_GT(inParts, 20) << infeasible;
    EXPECT_GT(interleaved, 8) << infeasible;
    EXPECT_GT(exact * 2, whole);
  }
}

/// Whether some run gives the function a sum that is not zero.
bool addsToSums(dist::AccumulateOp accumulate) {
  auto into = dyn_cast_or_null<BlockArgument>(accumulate.getInto());
  bool adds = !into;
  accumulate->getParentOfType<ModuleOp>().walk([&](dist::RunOp run) {
    adds |= into &&
            run.getCallee() ==
                accumulate->getParentOfType<func::FuncOp>().getName() &&
            !run.getOperand(into.getArgNumber()).getDefiningOp<dist::ZeroOp>();
  });
  return adds;
}

/// Bends what only training steps have; false if the op is none of it.
bool bend(Operation *op) {
  if (auto assign = dyn_cast<dist::AssignOp>(op)) { // forgotten
    assign.erase();
    return true;
  }
  if (auto accumulate = dyn_cast<dist::AccumulateOp>(op)) { // not summed
    if (!addsToSums(accumulate))
      return false;
    accumulate.replaceAllUsesWith(accumulate.getX());
    accumulate.erase();
    return true;
  }
  // A slot of the wrong micro-batch, where the same one is given twice.
  if (auto run = dyn_cast<dist::RunOp>(op)) {
    auto schedule = run->getParentOfType<dist::ScheduleOp>();
    for (auto other : schedule.getOps<dist::RunOp>()) {
      if (other == run)
        return false;
      if (other.getCallee() != run.getCallee())
        continue;
      for (auto [mine, theirs] :
           llvm::zip(run->getOpOperands(), other->getOpOperands()))
        if (mine.get() != theirs.get() &&
            !isa<dist::InputOp>(mine.get().getDefiningOp()) &&
            !isa<dist::RunOp>(mine.get().getDefiningOp())) {
          mine.set(theirs.get());
          return true;
        }
    }
  }
  return false;
}

// The judge is judged: steps whose sums, assignments or slots are bent differ.
TEST(RandomTrainingTest, BentStepsAreNoticed) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::map<std::string, std::pair<int, int>> scores; // noticed, total
  for (unsigned seed = 3000; seed < 3040; ++seed) {
    Random random(seed);
    dist::Mesh mesh{
        {{"pp", 1 + draw(random, 3), false}, {"x", 2, false}, {"mb", 2, true}}};
    auto module = makeNetwork(&context, random, 5, 4);
    if (!makeTrainingStep(*module, random))
      continue;
    auto main = module->lookupSymbol<func::FuncOp>("main");
    auto inputs = makeInputs(main, random);
    inputs.back().data.assign(1, 0.25);
    makePlan(*module, mesh, random);
    PassManager passes(&context);
    buildPartitionPipeline(passes);
    ASSERT_TRUE(succeeded(passes.run(*module)));
    auto expected = train(*module, inputs);
    ASSERT_TRUE(succeeded(expected));
    int numOps = 0;
    module->walk([&](Operation *) { ++numOps; });
    for (int target = 0; target < numOps; ++target) {
      OwningOpRef<ModuleOp> bent = module->clone();
      Operation *op = nullptr;
      int number = 0;
      bent->walk([&](Operation *each) {
        if (number++ == target)
          op = each;
      });
      std::string name = op->getName().getStringRef().str();
      if (!bend(op))
        continue;
      ScopedDiagnosticHandler quiet(&context,
                                    [](Diagnostic &) { return success(); });
      auto trained = train(*bent, inputs);
      bool same =
          succeeded(trained) && trained->state.size() == expected->state.size();
      for (auto &[key, value] : expected->state)
        same =
            same && interpret::difference(trained->state[key], value) <= 1e-9;
      for (int step = 0; same && step < kSteps; ++step)
        for (size_t i = 0; i < trained->outputs[step].size(); ++i)
          same =
              same && interpret::difference(trained->outputs[step][i],
                                            expected->outputs[step][i]) <= 1e-9;
      ++scores[name].second;
      scores[name].first += !same;
    }
  }
  for (const char *name : {"dist.assign", "dist.accumulate", "dist.run"}) {
    auto [noticed, total] = scores[name];
    RecordProperty(name,
                   std::to_string(noticed) + " of " + std::to_string(total));
    EXPECT_GT(total, 20) << name;
    EXPECT_GE(noticed * 100, total * 90)
        << name << ": " << noticed << " of " << total;
  }
}

} // namespace
