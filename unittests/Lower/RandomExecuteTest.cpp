//===- RandomExecuteTest.cpp - compiled programs equal their meaning ------===//
//
// Random functions, whole and under random plans on random meshes, are lowered,
// compiled, packaged and run on thread ranks; every output equals that of the
// interpreter. The runtime itself compares counted with planned bytes.
//
//===----------------------------------------------------------------------===//
#include "../Support/Seeds.h"
#include "RandomGraph.h"
#include "RunNative.h"

#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Pipelines/Register.h"

#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

void check(MLIRContext &context, unsigned seed, bool partitioned) {
  Random random(seed);
  auto module = makeGraph(&context, random, 4 + int(draw(random, 9)));
  auto main = module->lookupSymbol<func::FuncOp>("main");
  auto inputs = makeInputs(main, random);
  TemporaryFolder folder;
  storeWeights(*module, makeWeights(), folder.file("weights.bin"));
  auto expected = interpret::run(main, inputs, makeWeights());
  ASSERT_TRUE(succeeded(expected));
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (partitioned) {
    makePlan(*module, makeMesh(random), random);
    PassManager passes(&context);
    buildPartitionPipeline(passes);
    buildCollectivesPipeline(passes, {/*overlap=*/seed % 2 == 0});
    ASSERT_TRUE(succeeded(passes.run(*module)));
  }
  module->print(stream);
  std::vector<interpret::Tensor> outputs;
  std::string failure = runNative(*module, inputs, folder.file("test.kerf"),
                                  /*weightsInPlace=*/seed % 2, outputs);
  ASSERT_EQ(failure, "") << text;
  ASSERT_EQ(outputs.size(), expected->size());
  for (size_t i = 0; i < outputs.size(); ++i)
    ASSERT_LE(interpret::difference(outputs[i], (*expected)[i]), 2e-4)
        << "output " << i << "\n"
        << text;
}

void checkAll(unsigned first, unsigned count, bool partitioned) {
  kerf::test::LoadedContext loaded;
  kerf::test::forEachSeed(first, count, [&](unsigned seed) {
    check(loaded.context, seed, partitioned);
  });
}

TEST(RandomExecuteTest, Whole) {
  checkAll(0, kerf::test::seedsOf(60, 30), false);
}
TEST(RandomExecuteTest, Partitioned) {
  checkAll(1000, kerf::test::seedsOf(60, 20), true);
}

} // namespace
