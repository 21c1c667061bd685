//===- NativePipelineTest.cpp - stages and micro-batches as native code ---===//
//
// Functions of linalg over a batch, cut into stages, micro-batches and parts,
// with collectives started early and small ones packed, are what the evaluator
// of loops computes.
//
//===----------------------------------------------------------------------===//
#include "../Models/LoopEvaluator.h"
#include "../Models/OnRanks.h"
#include "NativeProgram.h"

#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::Tensor;

namespace {

constexpr const char *kLayers = R"(
func.func @layers(%x: tensor<10x6xf64> {kerf.name = "x", kerf.batch_dim = 0 : i64},
                  %w0: tensor<6x9xf64>, %w1: tensor<9x6xf64>, %w2: tensor<6x4xf64>)
    -> (tensor<10x4xf64>, tensor<10x6xf64>) {
  %z0 = arith.constant dense<0.0> : tensor<10x9xf64>
  %z1 = arith.constant dense<0.0> : tensor<10x6xf64>
  %z2 = arith.constant dense<0.0> : tensor<10x4xf64>
  %0 = linalg.matmul ins(%x, %w0 : tensor<10x6xf64>, tensor<6x9xf64>) outs(%z0 : tensor<10x9xf64>) -> tensor<10x9xf64>
  %1 = arith.maximumf %0, %z0 : tensor<10x9xf64>
  %2 = linalg.matmul ins(%1, %w1 : tensor<10x9xf64>, tensor<9x6xf64>) outs(%z1 : tensor<10x6xf64>) -> tensor<10x6xf64>
  %3 = arith.addf %2, %x : tensor<10x6xf64>
  %4 = linalg.matmul ins(%3, %w2 : tensor<10x6xf64>, tensor<6x4xf64>) outs(%z2 : tensor<10x4xf64>) -> tensor<10x4xf64>
  return %4, %3 : tensor<10x4xf64>, tensor<10x6xf64>
}
)";

struct Cut {
  std::vector<std::pair<std::string, int64_t>> mesh;
  int64_t microBatches;
  bool early; ///< collectives in halves, small ones packed
};

void check(NativeContext &native, const Cut &cut) {
  auto module = parseSourceString<ModuleOp>(kLayers, &native.context);
  ASSERT_TRUE(module);
  auto function = *module->getOps<func::FuncOp>().begin();
  FunctionType type = function.getFunctionType();
  Random random(7);
  std::vector<Tensor> inputs = makeInputs(function, random);
  auto expected = runUpstream(function, inputs);
  ASSERT_TRUE(succeeded(expected));

  plan::PlanOptions options;
  options.mesh = cut.mesh;
  for (const auto &[name, size] : cut.mesh)
    options.devices *= size;
  options.microBatches = cut.microBatches;
  options.machine = llvm::cantFail(
      cost::machinePreset("h100-8", options.devices, cost::HostInfo()));
  options.objective = plan::Objective::Volume;
  plan::PlanRun planned;
  PassManager passes(&native.context);
  passes.addPass(plan::createPlanPass(options, "h100-8", planned));
  buildPartitionPipeline(passes);
  CollectivesOptions collectives;
  collectives.overlap = cut.early;
  collectives.bucketBytes = cut.early ? 1 << 20 : 0;
  buildCollectivesPipeline(passes, collectives);
  ASSERT_TRUE(succeeded(passes.run(*module)));
  int64_t channels = 0, runs = 0;
  module->walk([&](Operation *op) {
    channels += isa<dist::ChannelOp>(op);
    runs += isa<dist::RunOp>(op);
  });
  int64_t stages = cut.mesh[0].first == "pp" ? cut.mesh[0].second : 1;
  EXPECT_EQ(runs, stages * cut.microBatches) << textOf(*module);
  EXPECT_GE(channels, stages - 1);

  std::string local = textOf(*module), why;
  auto program = NativeProgram::create(*module, why);
  ASSERT_TRUE(program) << why << local;
  HostBuffers buffers(type, inputs);
  int64_t sentBytes = 0;
  why = program->run("layers", buffers.all(), 1, &sentBytes);
  ASSERT_EQ(why, "") << local;
  // What is planned is what is sent.
  EXPECT_EQ(sentBytes, planned.result->candidates.front().totalBytes) << local;
  for (size_t i = 0; i < expected->size(); ++i)
    EXPECT_EQ(interpret::difference(buffers.result(i), (*expected)[i]), 0)
        << "output " << i << "\n"
        << local;
}

TEST(NativePipeline, StagesAndMicroBatches) {
  NativeContext native;
  const Cut cuts[] = {
      {{{"pp", 2}}, 2, false}, {{{"pp", 2}, {"tp", 2}}, 5, false},
      {{{"pp", 3}}, 5, true},  {{{"pp", 2}, {"dp", 2}}, 1, true},
      {{{"tp", 4}}, 2, true},  {{{"dp", 2}, {"tp", 2}}, 1, true}};
  for (const Cut &cut : cuts) {
    std::string name = "micro-batches " + std::to_string(cut.microBatches);
    for (const auto &[axis, size] : cut.mesh)
      name += ", " + axis + "=" + std::to_string(size);
    SCOPED_TRACE(name);
    check(native, cut);
  }
}

} // namespace
