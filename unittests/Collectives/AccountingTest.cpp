//===- AccountingTest.cpp - bytes of partitioned programs -----------------===//
#include "kerf/Collectives/Accounting.h"

#include "kerf/Cost/Volume.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Pipelines/Register.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;

namespace {

struct AccountingTest : ::testing::Test {
  AccountingTest() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
  }
  MLIRContext context;
};

// Two stages of two ranks, two micro-batches: an all-reduce of 2x5 floats in
// the second stage, a send of 2x3 from each rank of the first.
TEST_F(AccountingTest, StagesAndMicroBatches) {
  auto module = parseSourceString<ModuleOp>(R"(
    dist.mesh @mesh ["pp"=2, "tp"=2] time ["mb"=2]
    func.func @main(%x: tensor<4x6xf32> {dist.sharding = #dist.sharding<{"mb"}, {}>})
        -> (tensor<4x5xf32> {dist.sharding = #dist.sharding<{"mb"}, {}>}) {
      %w = nn.constant {name = "w", dist.plan = #dist.plan<results = [#dist.sharding<{}, {"tp"}>]>} dense<1.0> : tensor<6x5xf32>
      %v = nn.constant {name = "v", dist.plan = #dist.plan<results = [#dist.sharding<{"tp"}, {}>]>} dense<1.0> : tensor<5x5xf32>
      %h = nn.matmul %x, %w {dist.plan = #dist.plan<operands = [#dist.sharding<{"mb"}, {}>, #dist.sharding<{}, {"tp"}>], results = [#dist.sharding<{"mb"}, {"tp"}>], stage = 0>}
        : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32> loc("fc1")
      %r = nn.matmul %h, %v {dist.plan = #dist.plan<operands = [#dist.sharding<{"mb"}, {"tp"}>, #dist.sharding<{"tp"}, {}>], results = [#dist.sharding<{"mb"}, {}, partial sum {"tp"}>], stage = 1>}
        : (tensor<4x5xf32>, tensor<5x5xf32>) -> tensor<4x5xf32> loc("fc2")
      return %r : tensor<4x5xf32>
    })",
                                            &context);
  ASSERT_TRUE(module);
  PassManager passes(&context);
  buildPartitionPipeline(passes);
  ASSERT_TRUE(succeeded(passes.run(*module)));
  auto report = accountCommunication(*module);
  ASSERT_TRUE(succeeded(report));
  ASSERT_EQ(report->collectives.size(), 2u);

  const CollectiveRecord &reduce = report->collectives[0];
  EXPECT_EQ(reduce.op(), "all_reduce");
  EXPECT_EQ(reduce.node, "fc2");
  EXPECT_EQ(reduce.axes, std::vector<std::string>{"tp"});
  EXPECT_EQ(reduce.stage, 1);
  EXPECT_EQ(reduce.groupSize, 2);
  EXPECT_EQ(reduce.bufferBytes, 2 * 5 * 4);
  EXPECT_EQ(reduce.groupBytes, 2 * 1 * 40);
  EXPECT_EQ(reduce.bytesPerRank, 40);
  EXPECT_EQ(reduce.count, 2);

  const CollectiveRecord &send = report->collectives[1];
  EXPECT_EQ(send.op(), "send");
  EXPECT_EQ(send.node, "fc1");
  EXPECT_EQ(send.stage, 0);
  EXPECT_EQ(send.numGroups, 2);
  EXPECT_EQ(send.groupBytes, 2 * 3 * 4);
  EXPECT_EQ(send.count, 2);

  // Ranks of stage 1 send 2 x 40, those of stage 0 2 x 24.
  EXPECT_EQ(report->bytesPerRank, 80);
  EXPECT_EQ(report->totalBytes, 2 * 80 + 2 * 2 * 24);
  EXPECT_EQ(report->byAxis.at("tp"), 80);
  EXPECT_EQ(report->byAxis.count("pp"), 0u);
  EXPECT_EQ(report->byPurpose.at("activation"), 80);
  llvm::json::Object json = toJson(*report);
  EXPECT_EQ(json.getInteger("bytes_per_rank"), 80);
  EXPECT_EQ(json.getArray("collectives")->size(), 2u);
}

// The dialect's bytes are those of the cost model.
TEST_F(AccountingTest, BytesAreThoseOfTheCostModel) {
  auto module = parseSourceString<ModuleOp>(R"(
    dist.mesh @mesh ["x"=3]
    func.func @f(%x: tensor<3x5xf32>) {
      %0 = dist.all_reduce %x sum ["x"] : tensor<3x5xf32> -> tensor<3x5xf32>
      %1 = dist.reduce_scatter %x sum ["x"] dim 1 : tensor<3x5xf32> -> tensor<3x2xf32>
      %2 = dist.all_gather %x ["x"] dim 0 : tensor<3x5xf32> -> tensor<8x5xf32>
      %3 = dist.all_to_all %x ["x"] split 1 concat 0 : tensor<3x5xf32> -> tensor<7x2xf32>
      %4 = dist.broadcast %x ["x"] root 1 : tensor<3x5xf32> -> tensor<3x5xf32>
      %5 = dist.permute %x ["x"] pairs [0, 1, 1, 0, 2, 2] : tensor<3x5xf32> -> tensor<3x5xf32>
      return
    })",
                                            &context);
  ASSERT_TRUE(module);
  std::map<std::string, int64_t> total;
  module->walk([&](dist::CollectiveOpInterface op) {
    std::string name = op.getKindName().str();
    total[name] = op.getGroupBytes(3);
    EXPECT_EQ(cost::collectiveVolume(cost::VolumeModel::Ring, op.getKind(),
                                     op.getBufferBytes(3), 3)
                  .totalBytes,
              op.getGroupBytes(3))
        << name;
  });
  EXPECT_EQ(total["all_reduce"], 2 * 2 * 60);
  EXPECT_EQ(total["reduce_scatter"], 2 * 3 * 24);
  EXPECT_EQ(total["all_gather"], 2 * 3 * 60);
  EXPECT_EQ(total["all_to_all"], 2 * 3 * 24);
  EXPECT_EQ(total["broadcast"], 2 * 60);
  EXPECT_EQ(total["permute"], 2 * 60);
}

} // namespace
