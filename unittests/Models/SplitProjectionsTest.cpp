//===- SplitProjectionsTest.cpp - products taken apart --------------------===//
// Programs compute the same, of the same bytes, before and behind
// kerf-split-projections: fused products, whose arguments become those of the
// shapes that are named, on one device and planned on ranks; random functions
// that give parts of their results.
//
//===----------------------------------------------------------------------===//
#include "../Support/Seeds.h"
#include "LoopEvaluator.h"
#include "OnRanks.h"

#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Models/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

struct Projection {
  const char *name;
  std::vector<std::vector<int64_t>> arguments;
  const char *text;
};

const Projection kProjections[] = {
    {"q, k and v with a bias, in heads", {{6, 4}, {4, 3, 8}, {3, 8}}, R"(
#m = affine_map<(i, j) -> (i, j)>
#b = affine_map<(i, j) -> (j)>
func.func @f(%x: tensor<6x4xf64>, %w: tensor<4x24xf64>, %b: tensor<24xf64>)
    -> (tensor<6x2x4xf64>, tensor<6x2x4xf64>, tensor<6x2x4xf64>) {
  %z = arith.constant dense<0.0> : tensor<6x24xf64>
  %p = linalg.matmul ins(%x, %w : tensor<6x4xf64>, tensor<4x24xf64>)
                     outs(%z : tensor<6x24xf64>) -> tensor<6x24xf64>
  %e = tensor.empty() : tensor<6x24xf64>
  %y = linalg.generic {indexing_maps = [#m, #b, #m],
                       iterator_types = ["parallel", "parallel"]}
      ins(%p, %b : tensor<6x24xf64>, tensor<24xf64>)
      outs(%e : tensor<6x24xf64>) {
  ^bb0(%a: f64, %c: f64, %out: f64):
    %s = arith.addf %a, %c : f64
    linalg.yield %s : f64
  } -> tensor<6x24xf64>
  %h = tensor.expand_shape %y [[0], [1, 2, 3]] output_shape [6, 3, 2, 4]
     : tensor<6x24xf64> into tensor<6x3x2x4xf64>
  %k = tensor.extract_slice %h[0, 1, 0, 0] [6, 1, 2, 4] [1, 1, 1, 1]
     : tensor<6x3x2x4xf64> to tensor<6x2x4xf64>
  %q = tensor.extract_slice %h[0, 0, 0, 0] [6, 1, 2, 4] [1, 1, 1, 1]
     : tensor<6x3x2x4xf64> to tensor<6x2x4xf64>
  %v = tensor.extract_slice %h[0, 2, 0, 0] [6, 1, 2, 4] [1, 1, 1, 1]
     : tensor<6x3x2x4xf64> to tensor<6x2x4xf64>
  return %q, %k, %v : tensor<6x2x4xf64>, tensor<6x2x4xf64>, tensor<6x2x4xf64>
})"},
    {"a gate and what it lets through, of a bias that is added at once",
     {{6, 4}, {2, 6, 4}, {6, 2, 6}},
     R"(
func.func @f(%x: tensor<6x4xf64>, %w: tensor<12x4xf64>, %b: tensor<6x12xf64>)
    -> tensor<6x6xf64> {
  %p = linalg.contract
      indexing_maps = [affine_map<(i, j, k) -> (i, k)>,
                       affine_map<(i, j, k) -> (j, k)>,
                       affine_map<(i, j, k) -> (i, j)>]
      ins(%x, %w : tensor<6x4xf64>, tensor<12x4xf64>)
      outs(%b : tensor<6x12xf64>) -> tensor<6x12xf64>
  %g = tensor.extract_slice %p[0, 0] [6, 6] [1, 1]
     : tensor<6x12xf64> to tensor<6x6xf64>
  %u = tensor.extract_slice %p[0, 6] [6, 6] [1, 1]
     : tensor<6x12xf64> to tensor<6x6xf64>
  %y = arith.mulf %g, %u : tensor<6x6xf64>
  return %y : tensor<6x6xf64>
})"},
    {"transposed, with constants of many values, the second part alone",
     {{6, 4}, {4, 2, 4}},
     R"(
func.func @f(%x: tensor<6x4xf64>, %w: tensor<4x8xf64>) -> tensor<4x6xf64> {
  %0 = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<6x8xf64>
  %z = linalg.fill ins(%0 : f64) outs(%e : tensor<6x8xf64>) -> tensor<6x8xf64>
  %p = linalg.matmul ins(%x, %w : tensor<6x4xf64>, tensor<4x8xf64>)
                     outs(%z : tensor<6x8xf64>) -> tensor<6x8xf64>
  %et = tensor.empty() : tensor<8x6xf64>
  %t = linalg.transpose ins(%p : tensor<6x8xf64>) outs(%et : tensor<8x6xf64>)
                        permutation = [1, 0]
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]>
     : tensor<8xf64>
  %eb = tensor.empty() : tensor<8x6xf64>
  %b = linalg.broadcast ins(%c : tensor<8xf64>) outs(%eb : tensor<8x6xf64>)
                        dimensions = [1]
  %n = arith.negf %t : tensor<8x6xf64>
  %s = arith.negf %n : tensor<8x6xf64>
  %y = tensor.extract_slice %s[4, 0] [4, 6] [1, 1]
     : tensor<8x6xf64> to tensor<4x6xf64>
  %d = tensor.extract_slice %b[4, 0] [4, 6] [1, 1]
     : tensor<8x6xf64> to tensor<4x6xf64>
  %r = arith.addf %y, %d : tensor<4x6xf64>
  return %r : tensor<4x6xf64>
})"},
    {"channels of a convolution", {{1, 6, 2}, {3, 2, 2, 4}}, R"(
func.func @f(%x: tensor<1x6x2xf64>, %w: tensor<3x2x8xf64>)
    -> (tensor<1x4x4xf64>, tensor<1x4x4xf64>) {
  %z = arith.constant dense<0.0> : tensor<1x4x8xf64>
  %p = linalg.conv_1d_nwc_wcf ins(%x, %w : tensor<1x6x2xf64>, tensor<3x2x8xf64>)
                              outs(%z : tensor<1x4x8xf64>) -> tensor<1x4x8xf64>
  %a = tensor.extract_slice %p[0, 0, 0] [1, 4, 4] [1, 1, 1]
     : tensor<1x4x8xf64> to tensor<1x4x4xf64>
  %b = tensor.extract_slice %p[0, 0, 4] [1, 4, 4] [1, 1, 1]
     : tensor<1x4x8xf64> to tensor<1x4x4xf64>
  return %a, %b : tensor<1x4x4xf64>, tensor<1x4x4xf64>
})"},
    {"weights that are sliced by the program", {{6, 4}, {3, 4, 4}}, R"(
func.func @f(%x: tensor<6x4xf64>, %w: tensor<12x4xf64>) -> tensor<6x4xf64> {
  %a = tensor.extract_slice %w[8, 0] [4, 4] [1, 1]
     : tensor<12x4xf64> to tensor<4x4xf64>
  %b = tensor.extract_slice %w[0, 0] [4, 4] [1, 1]
     : tensor<12x4xf64> to tensor<4x4xf64>
  %z = arith.constant dense<0.0> : tensor<6x4xf64>
  %p = linalg.matmul ins(%x, %a : tensor<6x4xf64>, tensor<4x4xf64>)
                     outs(%z : tensor<6x4xf64>) -> tensor<6x4xf64>
  %q = linalg.matmul ins(%p, %b : tensor<6x4xf64>, tensor<4x4xf64>)
                     outs(%z : tensor<6x4xf64>) -> tensor<6x4xf64>
  return %q : tensor<6x4xf64>
})"}};

TEST(SplitProjections, ComputesTheSame) {
  UpstreamContext loaded;
  constexpr unsigned kPlans = 8;
  for (const Projection &each : kProjections) {
    SCOPED_TRACE(each.name);
    unsigned planned = 0;
    for (unsigned seed = 1; seed <= kPlans; ++seed) {
      Random random(seed);
      auto module = parseSourceString<ModuleOp>(each.text, &loaded.context);
      ASSERT_TRUE(module);
      auto function = module->lookupSymbol<func::FuncOp>("f");
      auto inputs = makeInputs(function, random);
      auto expected = runUpstream(function, inputs);
      ASSERT_TRUE(succeeded(expected));

      PassManager passes(&loaded.context);
      passes.addPass(models::createSplitProjections());
      ASSERT_TRUE(succeeded(passes.run(*module)));
      ASSERT_EQ(function.getNumArguments(), each.arguments.size());
      for (auto [input, type, shape] :
           llvm::zip(inputs, function.getArgumentTypes(), each.arguments)) {
        EXPECT_EQ(cast<RankedTensorType>(type).getShape(), ArrayRef(shape))
            << textOf(*module);
        input.shape.assign(shape.begin(), shape.end());
      }
      auto alone = runUpstream(function, inputs);
      ASSERT_TRUE(succeeded(alone)) << textOf(*module);
      std::string plan;
      auto outputs = planAndRun(*module, inputs, random, seed, plan);
      ASSERT_TRUE(!outputs || succeeded(*outputs)) << plan;
      planned += outputs.has_value();
      for (size_t i = 0; i < expected->size(); ++i) {
        ASSERT_EQ(interpret::difference((*alone)[i], (*expected)[i]), 0)
            << textOf(*module);
        if (outputs)
          ASSERT_LE(interpret::difference((**outputs)[i], (*expected)[i]), 1e-9)
              << plan << textOf(*module);
      }
    }
    EXPECT_GE(planned, kPlans / 2);
  }
}

/// The function gives parts of its results, two or three of a dimension that
/// has as many.
void sliceResults(func::FuncOp function, Random &random) {
  Operation *end = function.getBody().front().getTerminator();
  OpBuilder builder(end);
  SmallVector<Value> results;
  for (Value value : end->getOperands()) {
    RankedTensorType type = plannedType(value);
    int64_t parts = 2 + random() % 2, dim = -1;
    for (int64_t each = 0; each < type.getRank(); ++each)
      if (type.getDimSize(each) % parts == 0 && (dim < 0 || random() % 2))
        dim = each;
    if (dim < 0) {
      results.push_back(value);
      continue;
    }
    SmallVector<int64_t> sizes(type.getShape()), offsets(sizes.size(), 0),
        strides(sizes.size(), 1);
    sizes[dim] /= parts;
    auto attrs = [&](ArrayRef<int64_t> numbers) {
      return getAsIndexOpFoldResult(builder.getContext(), numbers);
    };
    for (int64_t part = 0; part < parts; ++part) {
      offsets[dim] = part * sizes[dim];
      results.push_back(tensor::ExtractSliceOp::create(
          builder, end->getLoc(), value, attrs(offsets), attrs(sizes),
          attrs(strides)));
    }
  }
  end->setOperands(results);
  function.setFunctionType(builder.getFunctionType(
      function.getFunctionType().getInputs(), ValueRange(results).getTypes()));
}

TEST(SplitProjections, RandomProgramsStayTheSame) {
  UpstreamContext loaded;
  unsigned seeds = seedsOf(20000, 200), changed = 0;
  bool all = forEachSeed(1, seeds, [&](unsigned seed) {
    Random random(seed);
    std::string program =
        makeProgram(random, 2 + static_cast<int>(random() % 6));
    auto module = parseSourceString<ModuleOp>(program, &loaded.context);
    ASSERT_TRUE(module) << program;
    auto function = *module->getOps<func::FuncOp>().begin();
    sliceResults(function, random);
    program = textOf(*module);
    auto inputs = makeInputs(function, random);
    double largest = 0;
    auto expected = runUpstream(function, inputs, &largest);
    ASSERT_TRUE(succeeded(expected)) << program;
    if (!std::isfinite(largest))
      return; // not a number differs from itself
    FunctionType before = function.getFunctionType();
    PassManager passes(&loaded.context);
    passes.addPass(models::createSplitProjections());
    ASSERT_TRUE(succeeded(passes.run(*module))) << program;
    changed += before != function.getFunctionType();
    for (auto [input, type] : llvm::zip(inputs, function.getArgumentTypes())) {
      ArrayRef<int64_t> shape = plannedType(type).getShape();
      input.shape.assign(shape.begin(), shape.end());
    }
    auto behind = runUpstream(function, inputs);
    ASSERT_TRUE(succeeded(behind)) << textOf(*module);
    for (size_t i = 0; i < expected->size(); ++i)
      ASSERT_EQ(interpret::difference((*behind)[i], (*expected)[i]), 0)
          << program << textOf(*module);
  });
  if (all)
    EXPECT_GE(changed, seeds / 20);
}

} // namespace
