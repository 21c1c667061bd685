//===- GradientPartitionTest.cpp - gradients of every op, cut -------------===//
//
// Every op that has a gradient, with random shapes and attributes, and its
// vector-Jacobian product under random plans on random meshes: what simulated
// ranks make of both equals what one rank makes. A new op has to be drawn, too.
//
//===----------------------------------------------------------------------===//
#include "../NN/RandomOp.h"
#include "../Support/Seeds.h"
#include "RandomGraph.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Partition/Passes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

/// How often an op's gradient was sent something between ranks, and seen.
struct Seen {
  int cut = 0, all = 0;
};

void check(MLIRContext &context, unsigned seed,
           std::map<std::string, Seen> &seen) {
  RandomOp maker(&context, seed);
  std::string name = maker.op->getName().getStringRef().str();
  maker.differentiate(/*all=*/true);
  ASSERT_TRUE(succeeded(verify(*maker.module))) << textOf(*maker.module);
  auto inputs = maker.inputs();
  auto expected = interpret::run(maker.main, inputs, makeWeights());
  ASSERT_TRUE(succeeded(expected)) << textOf(*maker.module);

  Random random(seed);
  makePlan(*maker.module, makeMesh(random), random);
  std::string plan = textOf(*maker.module);
  ASSERT_TRUE(succeeded(verify(*maker.module))) << plan;
  PassManager partition(&context);
  buildPartitionPipeline(partition);
  ASSERT_TRUE(succeeded(partition.run(*maker.module))) << plan;
  auto outputs =
      interpret::runPartitioned(*maker.module, inputs, makeWeights());
  ASSERT_TRUE(succeeded(outputs)) << plan;
  ASSERT_EQ(outputs->size(), expected->size());
  for (size_t i = 0; i < outputs->size(); ++i)
    ASSERT_LE(interpret::difference((*outputs)[i], (*expected)[i]), 1e-9)
        << "output " << i << "\n"
        << plan << textOf(*maker.module);
  bool sends = false;
  maker.module->walk([&](dist::CollectiveOpInterface) { sends = true; });
  ++seen[name].all;
  seen[name].cut += sends;
}

TEST(GradientPartitionTest, EveryOpUnderRandomPlans) {
  LoadedContext loaded;
  std::map<std::string, Seen> seen;
  if (!forEachSeed(20000, 2000,
                   [&](unsigned seed) { check(loaded.context, seed, seen); }))
    return;
  for (const std::string &name : opsWithGradients(loaded.context)) {
    EXPECT_GE(seen[name].all, 5) << name;
    EXPECT_GE(seen[name].cut, 1) << name;
  }
}

} // namespace
