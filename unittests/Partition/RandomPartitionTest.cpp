//===- RandomPartitionTest.cpp - partitioned equals whole -----------------===//
//
// 500 random functions under random plans on random meshes (2 to 24 simulated
// ranks, stages, micro-batches, sub-axes, partial values, uneven shards) equal
// the function as it stands, before and after the collectives phase.
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

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

struct Coverage {
  int stages = 0, microBatches = 0, masks = 0;
  std::map<std::string, int> collectives;
};

void check(MLIRContext &context, unsigned seed, Coverage &coverage) {
  Random random(seed);
  auto module = makeGraph(&context, random, 4 + int(draw(random, 9)));
  ASSERT_TRUE(succeeded(verify(*module)));
  auto main = module->lookupSymbol<func::FuncOp>("main");
  auto inputs = makeInputs(main, random);
  auto weights = makeWeights();
  auto expected = interpret::run(main, inputs, weights);
  ASSERT_TRUE(succeeded(expected));

  makePlan(*module, makeMesh(random), random);
  std::string plan = textOf(*module);
  ASSERT_TRUE(succeeded(verify(*module))) << plan;
  auto compare = [&](const char *when) {
    auto outputs = interpret::runPartitioned(*module, inputs, weights);
    ASSERT_TRUE(succeeded(outputs)) << when << "\n" << plan << textOf(*module);
    for (size_t i = 0; i < outputs->size(); ++i)
      ASSERT_LE(interpret::difference((*outputs)[i], (*expected)[i]), 1e-6)
          << "output " << i << " after " << when << "\n"
          << plan << textOf(*module);
  };
  PassManager partition(&context);
  buildPartitionPipeline(partition);
  ASSERT_TRUE(succeeded(partition.run(*module))) << plan;
  compare("partition");
  module->walk([&](Operation *op) {
    if (auto collective = dyn_cast<dist::CollectiveOpInterface>(op))
      ++coverage.collectives[collective.getKindName().str()];
    coverage.masks += isa<dist::MaskOp>(op);
    coverage.microBatches +=
        isa<dist::RunOp>(op) && cast<dist::RunOp>(op).getMicroBatch() == 1;
    coverage.stages += isa<dist::ChannelOp>(op);
  });

  auto before = accountCommunication(*module);
  ASSERT_TRUE(succeeded(before));
  PassManager collectives(&context);
  CollectivesOptions options;
  options.overlap = seed % 2 == 0;
  options.bucketBytes = seed % 3 == 0 ? 64 : 0;
  buildCollectivesPipeline(collectives, options);
  ASSERT_TRUE(succeeded(collectives.run(*module)));
  compare("collectives");
  auto after = accountCommunication(*module);
  ASSERT_TRUE(succeeded(after));
  EXPECT_LE(after->totalBytes, before->totalBytes);
}

TEST(RandomPartitionTest, PartitionedEqualsWhole) {
  LoadedContext loaded;
  Coverage coverage;
  if (!forEachSeed(0, 500, [&](unsigned seed) {
        check(loaded.context, seed, coverage);
      }))
    return;
  // The tests see what they are for.
  EXPECT_GT(coverage.stages, 100);
  EXPECT_GT(coverage.microBatches, 20);
  EXPECT_GT(coverage.masks, 50);
  for (const char *kind :
       {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "permute"})
    EXPECT_GT(coverage.collectives[kind], 30) << kind;
}

} // namespace
