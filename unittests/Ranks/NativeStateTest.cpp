//===- NativeStateTest.cpp - steps of training as native code -------------===//
//
// A step in linalg whose weights and momentum stay at the ranks, under several
// cuts, against the same step written as loops here.
//
//===----------------------------------------------------------------------===//
#include "NativeProgram.h"

#include "kerf/Collectives/Passes.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::Tensor;

namespace {

constexpr int64_t kBatch = 6, kIn = 5, kOut = 7;
constexpr int kSteps = 3;

// e = x w - t; m = 0.5 m + x^T e; w -= 0.125 m; gives e.
constexpr const char *kStep = R"(
func.func @step(%x: tensor<6x5xf64> {kerf.name = "x"}, %t: tensor<6x7xf64> {kerf.name = "t"})
    -> (tensor<6x7xf64> {kerf.name = "e"}) {
  %w = nn.weight "w" file 0 at 0 {variable} : tensor<5x7xf64>
  %m = nn.state "momentum" {init = 0.0 : f64} : tensor<5x7xf64>
  %zy = arith.constant dense<0.0> : tensor<6x7xf64>
  %zw = arith.constant dense<0.0> : tensor<5x7xf64>
  %half = arith.constant dense<0.5> : tensor<5x7xf64>
  %rate = arith.constant dense<0.125> : tensor<5x7xf64>
  %y = linalg.matmul ins(%x, %w : tensor<6x5xf64>, tensor<5x7xf64>) outs(%zy : tensor<6x7xf64>) -> tensor<6x7xf64>
  %e = arith.subf %y, %t : tensor<6x7xf64>
  %xt = tensor.empty() : tensor<5x6xf64>
  %transposed = linalg.transpose ins(%x : tensor<6x5xf64>) outs(%xt : tensor<5x6xf64>) permutation = [1, 0]
  %g = linalg.matmul ins(%transposed, %e : tensor<5x6xf64>, tensor<6x7xf64>) outs(%zw : tensor<5x7xf64>) -> tensor<5x7xf64>
  %sum = dist.accumulate %g : (tensor<5x7xf64>) -> tensor<5x7xf64>
  %old = arith.mulf %m, %half {dist.step = #dist.step<update>} : tensor<5x7xf64>
  %new = arith.addf %old, %sum {dist.step = #dist.step<update>} : tensor<5x7xf64>
  %move = arith.mulf %new, %rate {dist.step = #dist.step<update>} : tensor<5x7xf64>
  %next = arith.subf %w, %move {dist.step = #dist.step<update>} : tensor<5x7xf64>
  dist.assign %m, %new {dist.step = #dist.step<update>} : tensor<5x7xf64>
  dist.assign %w, %next {dist.step = #dist.step<update>} : tensor<5x7xf64>
  return %e : tensor<6x7xf64>
}
)";

struct Values {
  std::vector<double> x, t, w, m, e;
};

double wave(int64_t i) { return static_cast<double>(i * 37 % 23 - 11) / 16; }

Values expectedValues() {
  Values v{std::vector<double>(kBatch * kIn),
           std::vector<double>(kBatch * kOut), std::vector<double>(kIn * kOut),
           std::vector<double>(kIn * kOut), std::vector<double>(kBatch * kOut)};
  for (size_t i = 0; i < v.x.size(); ++i)
    v.x[i] = wave(static_cast<int64_t>(i));
  for (size_t i = 0; i < v.t.size(); ++i)
    v.t[i] = wave(static_cast<int64_t>(i) + 5);
  for (size_t i = 0; i < v.w.size(); ++i)
    v.w[i] = wave(static_cast<int64_t>(i) + 9);
  return v;
}

void runStep(Values &v) {
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t o = 0; o < kOut; ++o) {
      double y = 0;
      for (int64_t i = 0; i < kIn; ++i)
        y += v.x[b * kIn + i] * v.w[i * kOut + o];
      v.e[b * kOut + o] = y - v.t[b * kOut + o];
    }
  for (int64_t i = 0; i < kIn; ++i)
    for (int64_t o = 0; o < kOut; ++o) {
      double g = 0;
      for (int64_t b = 0; b < kBatch; ++b)
        g += v.x[b * kIn + i] * v.e[b * kOut + o];
      double &m = v.m[i * kOut + o];
      m = 0.5 * m + g;
      v.w[i * kOut + o] -= 0.125 * m;
    }
}

void expectNear(const Tensor &found, const std::vector<double> &expected) {
  ASSERT_EQ(found.data.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(found.data[i], expected[i], 1e-12 * (1 + std::abs(expected[i])))
        << i;
}

struct Cut {
  const char *name;
  std::vector<std::pair<std::string, int64_t>> mesh;
  const char *hint; ///< of the weights
  int64_t microBatches = 1;
};

class NativeState : public ::testing::TestWithParam<Cut> {};

TEST_P(NativeState, StaysAtTheRanks) {
  NativeContext native;
  auto module = parseSourceString<ModuleOp>(kStep, &native.context);
  ASSERT_TRUE(module);
  plan::PlanOptions options;
  options.mesh = GetParam().mesh;
  for (const auto &[name, size] : options.mesh)
    options.devices *= size;
  options.microBatches = GetParam().microBatches;
  if (*GetParam().hint)
    options.hints.push_back({"w", GetParam().hint});
  options.machine = llvm::cantFail(
      cost::machinePreset("h100-8", options.devices, cost::HostInfo()));
  plan::PlanRun planned;
  PassManager passes(&native.context);
  passes.addPass(plan::createPlanPass(options, "h100-8", planned));
  buildPartitionPipeline(passes);
  buildCollectivesPipeline(passes);
  ASSERT_TRUE(succeeded(passes.run(*module)));
  std::string why;
  auto program = NativeProgram::create(*module, why);
  ASSERT_TRUE(program) << why;

  Values values = expectedValues();
  Builder builder(&native.context);
  auto type = [&](int64_t rows, int64_t columns) {
    return RankedTensorType::get({rows, columns}, builder.getF64Type());
  };
  auto buffer = [&](RankedTensorType type, const std::vector<double> &data) {
    Tensor tensor;
    tensor.shape.assign(type.getShape().begin(), type.getShape().end());
    tensor.data = data;
    return HostBuffer(type, tensor);
  };
  HostBuffer x = buffer(type(kBatch, kIn), values.x);
  HostBuffer t = buffer(type(kBatch, kOut), values.t);
  HostBuffer w = buffer(type(kIn, kOut), values.w);
  HostBuffer m = buffer(type(kIn, kOut), values.m);
  HostBuffer e(type(kBatch, kOut));
  ASSERT_EQ(program->run("step", {&x, &t, &e}, kSteps, nullptr,
                         {{"w", &w}, {"momentum", &m}}),
            "");
  for (int step = 0; step < kSteps; ++step)
    runStep(values);
  expectNear(e.tensor(), values.e);
  expectNear(w.tensor(), values.w);
  expectNear(m.tensor(), values.m);

  // A parameter that nobody has written has no value.
  EXPECT_THAT(program->run("step", {&x, &t, &e}),
              ::testing::HasSubstr("has no value, which kerf_ranks_write"));
}

INSTANTIATE_TEST_SUITE_P(
    Cuts, NativeState,
    ::testing::Values(Cut{"One", {{"tp", 1}}, ""}, Cut{"Data", {{"dp", 2}}, ""},
                      Cut{"Columns", {{"tp", 3}}, "[{},{tp}]"},
                      Cut{"Rows", {{"tp", 2}}, "[{tp},{}]"},
                      Cut{"Accumulated", {{"dp", 2}}, "", 3},
                      Cut{"Both", {{"dp", 2}, {"tp", 2}}, "[{},{tp}]"}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
