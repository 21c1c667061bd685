//===- RandomTrainingExecuteTest.cpp - compiled steps equal whole ones ----===//
//
// Random training steps, whole and under random plans (stages, chunks,
// micro-batches, partial gradients, uneven shards, tied weights, blocks that
// are computed again), are lowered, compiled, packaged and run on thread ranks:
// three steps leave the same parameters and momenta and give the same outputs
// as the function under the interpreter. The runtime compares counted with
// planned bytes, and replicas of parameters bit for bit.
//
//===----------------------------------------------------------------------===//
#include "../Support/Seeds.h"
#include "RandomTraining.h"
#include "RunNative.h"

#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Pipelines/Register.h"
#include "kerf/Plan/Recompute.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

constexpr int numSteps = 3;

/// What is made of a step: nothing, any plan, one whose stages hold chunks.
enum class Cut { Whole, Partitioned, Interleaved };

/// Whether the step was one as asked for: one that has gradients, and is cut
/// so.
bool check(MLIRContext &context, unsigned seed, Cut cut) {
  Random random(seed);
  dist::Mesh mesh = makeMesh(random);
  if (!mesh.find(dist::kStageAxis) && chance(random, 40))
    mesh.axes.insert(mesh.axes.begin(), {dist::kStageAxis.str(), 2, false});
  int64_t batch = 1 + draw(random, 6);
  if (chance(random, 50) && mesh.numMicroBatches() == 1)
    mesh.axes.push_back({"mb", 2 + draw(random, 3), true});
  int64_t chunks = 1;
  if (cut == Cut::Interleaved) {
    if (!mesh.find(dist::kStageAxis))
      mesh.axes.insert(mesh.axes.begin(), {dist::kStageAxis.str(), 2, false});
    chunks = makeInterleaved(mesh, random);
  }
  if (mesh.numMicroBatches() > 1)
    batch = 2 * mesh.numMicroBatches();
  auto module = chance(random, 75)
                    ? makeNetwork(&context, random, 3 + draw(random, 8), batch)
                    : makeGraph(&context, random, 3 + draw(random, 6));
  {
    ScopedDiagnosticHandler quiet(&context,
                                  [](Diagnostic &) { return success(); });
    if (!makeTrainingStep(*module, random))
      return false;
  }
  auto main = module->lookupSymbol<func::FuncOp>("main");
  auto inputs = makeInputs(main, random);
  inputs.back().data.assign(1, 0.25); // the learning rate
  TemporaryFolder folder;
  storeWeights(*module, makeWeights(), folder.file("weights.bin"));
  NativeSteps steps;
  steps.inputs.assign(numSteps, inputs);
  steps.threads = 1 + seed % 2;
  interpret::State state;
  std::vector<std::vector<interpret::Tensor>> expected;
  for (int step = 0; step < numSteps; ++step) {
    auto outputs = interpret::run(main, inputs, makeWeights(), &state);
    EXPECT_TRUE(succeeded(outputs));
    expected.push_back(std::move(*outputs));
  }
  bool isAsAsked = true;
  if (cut != Cut::Whole) {
    if (seed % 2 == 1)
      plan::recomputeEvery(main, 1 + seed / 2 % 2);
    if (chunks > 1)
      setInterleaved(*module, chunks);
    makePlan(*module, mesh, random);
    isAsAsked = dist::getNumChunks(*module) == chunks;
    PassManager passes(&context);
    buildPartitionPipeline(passes);
    CollectivesOptions options;
    options.overlap = seed % 2 == 0;
    options.bucketBytes = seed % 3 == 0 ? 64 : 0;
    buildCollectivesPipeline(passes, options);
    EXPECT_TRUE(succeeded(passes.run(*module)));
  }
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  std::string failure =
      runNativeSteps(*module, folder.file("test.kerf"), steps);
  EXPECT_EQ(failure, "") << text;
  if (!failure.empty())
    return isAsAsked;
  // Steps amplify what f32 rounds away.
  auto close = [](const interpret::Tensor &a, const interpret::Tensor &b) {
    return interpret::difference(a, b) <= 3e-3;
  };
  for (int step = 0; step < numSteps; ++step)
    for (size_t i = 0; i < expected[step].size(); ++i)
      EXPECT_TRUE(close(steps.outputs[step][i], expected[step][i]))
          << "output " << i << " of step " << step << ": "
          << interpret::difference(steps.outputs[step][i], expected[step][i])
          << "\n"
          << text;
  EXPECT_EQ(steps.parameters.size(), state.size());
  for (auto &[name, value] : steps.parameters) {
    auto it = llvm::find_if(state, [&](auto &entry) {
      return StringRef(entry.first).starts_with(name);
    });
    if (it == state.end())
      ADD_FAILURE() << "no parameter " << name;
    else
      EXPECT_TRUE(close(value, it->second)) << name << "\n" << text;
  }
  return isAsAsked;
}

void checkAll(unsigned first, unsigned count, int min, Cut cut) {
  kerf::test::LoadedContext loaded;
  int ran = 0;
  if (kerf::test::forEachSeed(first, count, [&](unsigned seed) {
        ran += check(loaded.context, seed, cut);
      }))
    EXPECT_GE(ran, min);
}

TEST(RandomTrainingExecuteTest, Whole) { checkAll(0, 30, 15, Cut::Whole); }
TEST(RandomTrainingExecuteTest, Partitioned) {
  const unsigned count = kerf::test::seedsOf(40, 14);
  checkAll(500, count, count / 2, Cut::Partitioned);
}
TEST(RandomTrainingExecuteTest, Interleaved) {
  const unsigned count = kerf::test::seedsOf(40, 14);
  checkAll(700, count, count / 4, Cut::Interleaved);
}

} // namespace
