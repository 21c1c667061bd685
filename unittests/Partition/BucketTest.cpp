//===- BucketTest.cpp - bucketed reductions mean the same -----------------===//
#include "RandomGraph.h"

#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Pipelines/Register.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

// Three sums of different shapes over rows that two ranks share, unevenly.
constexpr const char *kModule = R"(
  dist.mesh @mesh ["x"=2]
  func.func @main(%x: tensor<5x3xf32> {dist.sharding = #dist.sharding<{"x"}, {}>},
                  %y: tensor<5xf32> {dist.sharding = #dist.sharding<{"x"}>},
                  %z: tensor<5x2x2xf32> {dist.sharding = #dist.sharding<{"x"}, {}, {}>})
      -> (tensor<3xf32> {dist.sharding = #dist.sharding<{}>},
          tensor<f32> {dist.sharding = #dist.sharding<>},
          tensor<2x2xf32> {dist.sharding = #dist.sharding<{}, {}>}) {
    %0 = nn.reduce sum %x dims [0] {dist.plan = #dist.plan<operands = [#dist.sharding<{"x"}, {}>], results = [#dist.sharding<{}, partial sum {"x"}>]>}
       : (tensor<5x3xf32>) -> tensor<3xf32>
    %1 = nn.reduce sum %y dims [0] {dist.plan = #dist.plan<operands = [#dist.sharding<{"x"}>], results = [#dist.sharding<partial sum {"x"}>]>}
       : (tensor<5xf32>) -> tensor<f32>
    %2 = nn.reduce sum %z dims [0] {dist.plan = #dist.plan<operands = [#dist.sharding<{"x"}, {}, {}>], results = [#dist.sharding<{}, {}, partial sum {"x"}>]>}
       : (tensor<5x2x2xf32>) -> tensor<2x2xf32>
    return %0, %1, %2 : tensor<3xf32>, tensor<f32>, tensor<2x2xf32>
  })";

TEST(BucketTest, OneReductionForThree) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  auto module = parseSourceString<ModuleOp>(kModule, &context);
  ASSERT_TRUE(module);
  Random random(3);
  auto main = module->lookupSymbol<func::FuncOp>("main");
  auto inputs = makeInputs(main, random);
  auto weights = makeWeights();
  auto expected = interpret::run(main, inputs, weights);
  ASSERT_TRUE(succeeded(expected));
  PassManager passes(&context);
  buildPartitionPipeline(passes);
  CollectivesOptions options;
  options.bucketBytes = 16384;
  buildCollectivesPipeline(passes, options);
  ASSERT_TRUE(succeeded(passes.run(*module)));
  int reductions = 0;
  module->walk([&](dist::AllReduceOp op) {
    ++reductions;
    EXPECT_EQ(op.getSourceType().getNumElements(), 3 + 1 + 4);
  });
  EXPECT_EQ(reductions, 1);
  auto outputs = interpret::runPartitioned(*module, inputs, weights);
  ASSERT_TRUE(succeeded(outputs));
  for (size_t i = 0; i < outputs->size(); ++i)
    EXPECT_LE(interpret::difference((*outputs)[i], (*expected)[i]), 1e-9);
}

} // namespace
