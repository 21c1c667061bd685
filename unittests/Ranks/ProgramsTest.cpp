//===- ProgramsTest.cpp - programs of other dialects as native code -------===//
//
// Calls, loops, convolutions, TOSA: each program is planned at random on many
// meshes and runs as native code. And two functions of a module, which share a
// third, are planned each by itself and become native code of one module.
//
//===----------------------------------------------------------------------===//
#include "../Models/Programs.h"
#include "../Models/LoopEvaluator.h"
#include "../Models/OnRanks.h"
#include "NativeProgram.h"

#include "kerf/Dist/Passes.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/Passes.h"
#include "kerf/Ranks/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::Tensor;

namespace {

void check(NativeContext &native, const Program &each, unsigned seed,
           unsigned &ran) {
  Random random(seed);
  auto module = parseSourceString<ModuleOp>(each.text, &native.context);
  ASSERT_TRUE(module);
  auto function = module->lookupSymbol<func::FuncOp>("f");
  FunctionType type = function.getFunctionType();
  auto inputs = makeInputs(function, random);
  auto expected = runUpstream(function, inputs);
  ASSERT_TRUE(succeeded(expected));
  std::string plan;
  auto partitioned = planAndPartition(*module, random, seed, plan);
  if (!partitioned)
    return;
  ASSERT_TRUE(succeeded(*partitioned)) << plan;
  std::string local = textOf(*module), why;
  auto program = NativeProgram::create(
      *module, why,
      "func.func(tosa-to-scf,tosa-to-linalg-named,tosa-to-linalg,tosa-to-arith,"
      "tosa-to-tensor),canonicalize,cse");
  ASSERT_TRUE(program) << why << local;
  HostBuffers buffers(type, inputs);
  why = program->run("f", buffers.all());
  ASSERT_EQ(why, "") << local;
  ++ran;
  for (size_t i = 0; i < expected->size(); ++i)
    ASSERT_LE(interpret::difference(buffers.result(i), (*expected)[i]),
              1e-5) // some are in f32
        << "output " << i << "\n"
        << local;
}

TEST(Programs, RanksComputeWhatOneDoes) {
  NativeContext native;
  constexpr unsigned kPlans = 2;
  for (const Program &each : kPrograms) {
    SCOPED_TRACE(each.name);
    unsigned ran = 0;
    for (unsigned seed = 1; seed <= kPlans; ++seed)
      ASSERT_NO_FATAL_FAILURE(check(native, each, seed, ran));
    EXPECT_GE(ran, 1u);
  }
}

constexpr const char *kTwo = R"(
func.func private @sum(%x: tensor<7x4xf64>) -> tensor<4xf64> {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<4xf64>
  %z = linalg.fill ins(%zero : f64) outs(%e : tensor<4xf64>) -> tensor<4xf64>
  %0 = linalg.reduce {arith.addf} ins(%x : tensor<7x4xf64>)
    outs(%z : tensor<4xf64>) dimensions = [0]
  return %0 : tensor<4xf64>
}
func.func @sums(%x: tensor<7x4xf64> {kerf.name = "x"}) -> tensor<4xf64> {
  %0 = call @sum(%x) : (tensor<7x4xf64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
func.func @twice(%x: tensor<7x4xf64> {kerf.name = "x"}) -> tensor<4xf64> {
  %0 = arith.addf %x, %x : tensor<7x4xf64>
  %1 = call @sum(%0) : (tensor<7x4xf64>) -> tensor<4xf64>
  return %1 : tensor<4xf64>
}
)";

TEST(Programs, EachIsPlannedByItself) {
  NativeContext native;
  auto module = parseSourceString<ModuleOp>(kTwo, &native.context);
  ASSERT_TRUE(module);
  plan::PlanOptions options;
  options.mesh = {{"a", 4}};
  options.devices = 4;
  options.machine = llvm::cantFail(
      cost::machinePreset("h100-8", options.devices, cost::HostInfo()));
  options.hints = {{"x", "[{a},{}]"}}; // parts of 2, 2, 2 and 1 row
  plan::PlanRun first;
  PassManager passes(&native.context);
  passes.addPass(dist::createSeparatePrograms());
  OpPassManager &each = passes.nest<ModuleOp>();
  each.addPass(plan::createFlatten());
  each.addPass(plan::createPlanPass(options, "h100-8", first));
  buildPartitionPipeline(each);
  each.addPass(ranks::createCallRuntime());
  passes.addPass(dist::createJoinPrograms());
  ASSERT_TRUE(succeeded(passes.run(*module))) << textOf(*module);
  std::string local = textOf(*module), why;
  auto program = NativeProgram::create(*module, why);
  ASSERT_TRUE(program) << why << local;

  auto matrix =
      RankedTensorType::get({7, 4}, Float64Type::get(&native.context));
  auto row = RankedTensorType::get({4}, matrix.getElementType());
  Tensor in(matrix.getShape());
  for (size_t i = 0; i < in.data.size(); ++i)
    in.data[i] = static_cast<double>(i);
  HostBuffer x(matrix, in), y(row);
  for (double factor : {1.0, 2.0}) {
    int64_t sentBytes = 0;
    why = program->run(factor == 1 ? "sums" : "twice", {&x, &y}, 1, &sentBytes);
    ASSERT_EQ(why, "") << local;
    EXPECT_GT(sentBytes, 0);
    for (int64_t column = 0; column < 4; ++column)
      EXPECT_EQ(y.tensor().at({column}), factor * (84 + 7 * column));
  }
}

TEST(Programs, APlanIsThatOfTheLastRun) {
  NativeContext native;
  auto module = parseSourceString<ModuleOp>(R"(
func.func @f(%x: tensor<8x4xf64>) -> tensor<8x4xf64> {
  %y = arith.negf %x : tensor<8x4xf64>
  return %y : tensor<8x4xf64>
})",
                                            &native.context);
  ASSERT_TRUE(module);
  plan::PlanOptions options;
  options.devices = 2;
  options.machine = llvm::cantFail(
      cost::machinePreset("h100-8", options.devices, cost::HostInfo()));
  plan::PlanRun run;
  PassManager passes(&native.context);
  passes.addPass(plan::createPlanPass(options, "h100-8", run));
  ASSERT_TRUE(succeeded(passes.run(*module)));
  EXPECT_TRUE(run.result);
  // The module has a mesh now.
  ScopedDiagnosticHandler quiet(&native.context,
                                [](Diagnostic &) { return success(); });
  EXPECT_TRUE(failed(passes.run(*module)));
  EXPECT_FALSE(run.result);
}

} // namespace
