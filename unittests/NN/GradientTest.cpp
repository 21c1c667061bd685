//===- GradientTest.cpp - vector-Jacobian products against PyTorch --------===//
//
// The files of test/Inputs/gradients/ hold functions of one op with inputs, an
// upstream gradient, and PyTorch's result and gradients in float64. Each op
// builds its vector-Jacobian product; the interpreter evaluates it.
//
//===----------------------------------------------------------------------===//
#include "RandomOp.h"

#include "kerf/Interpret/Interpret.h"
#include "kerf/NN/NN.h"
#include "kerf/NN/Transforms/Simplify.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include "gtest/gtest.h"

#include <set>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::Tensor;

namespace {

class GradientTest : public ::testing::Test {
protected:
  GradientTest() { context.loadDialect<func::FuncDialect, nn::NNDialect>(); }

  void forEachCase(llvm::function_ref<void(func::FuncOp)> visit) {
    for (const char *name : {"unary", "slopes", "binary", "movement",
                             "contractions", "rows", "formulas", "indexed"}) {
      auto module = parseSourceFile<ModuleOp>(KERF_TEST_INPUTS "/gradients/" +
                                                  std::string(name) + ".mlir",
                                              &context);
      ASSERT_TRUE(module) << name;
      for (auto function : module->getOps<func::FuncOp>())
        visit(function);
    }
  }

  static std::optional<Tensor> tensorOf(Attribute attribute) {
    if (auto elements = dyn_cast<DenseElementsAttr>(attribute))
      return interpret::fromElements(elements);
    return std::nullopt;
  }
  static Attribute get(func::FuncOp function, StringRef name) {
    return function->getAttr(("test." + name).str());
  }

  /// Adds an argument for the gradient of the result and returns the gradients
  /// of the arguments; which ones are there, in `present`.
  void differentiate(func::FuncOp function, std::vector<bool> &present) {
    Block &block = function.getBody().front();
    Operation *op = &block.front();
    Operation *terminator = block.getTerminator();
    auto vjp = dyn_cast<DifferentiableInterface>(op);
    ASSERT_TRUE(vjp);
    Value dy = block.addArgument(op->getResult(0).getType(), op->getLoc());
    OpBuilder builder(terminator);
    auto gradients = vjp.buildVectorJacobianProduct(builder, dy);
    ASSERT_TRUE(succeeded(gradients));
    ASSERT_EQ(gradients->size(), op->getNumOperands());
    SmallVector<Value> results{op->getResult(0)};
    for (auto [gradient, operand] : llvm::zip(*gradients, op->getOperands())) {
      present.push_back(gradient != nullptr);
      if (!gradient)
        continue;
      EXPECT_EQ(gradient.getType(), operand.getType());
      results.push_back(gradient);
    }
    terminator->setOperands(results);
    SmallVector<Type> types;
    for (Value value : results)
      types.push_back(value.getType());
    function.setType(
        FunctionType::get(&context, block.getArgumentTypes(), types));
    ASSERT_TRUE(succeeded(verify(function)));
  }

  void check(func::FuncOp function, bool simplify) {
    SCOPED_TRACE(function.getName().str());
    std::vector<Tensor> inputs;
    for (Attribute input : cast<ArrayAttr>(get(function, "inputs")))
      inputs.push_back(*tensorOf(input));
    inputs.push_back(*tensorOf(get(function, "upstream")));
    std::vector<bool> present;
    ASSERT_NO_FATAL_FAILURE(differentiate(function, present));
    if (simplify) {
      RewritePatternSet patterns(&context);
      nn::populateSimplifyPatterns(patterns);
      ASSERT_TRUE(
          succeeded(applyPatternsGreedily(function, std::move(patterns))));
      ASSERT_TRUE(succeeded(verify(function)));
    }
    auto outputs = interpret::run(function, inputs, nullptr);
    ASSERT_TRUE(succeeded(outputs));
    EXPECT_LE(interpret::difference(outputs->front(),
                                    *tensorOf(get(function, "result"))),
              tolerance(function));
    size_t next = 1;
    for (auto [number, attribute] :
         llvm::enumerate(cast<ArrayAttr>(get(function, "gradients")))) {
      auto expected = tensorOf(attribute);
      if (!present[number]) {
        // No gradient is a gradient of zero.
        if (expected)
          for (double value : expected->data)
            EXPECT_EQ(value, 0) << "no gradient of operand " << number;
        continue;
      }
      const Tensor &actual = (*outputs)[next++];
      if (!expected)
        continue; // not of interest to the case
      EXPECT_LE(interpret::difference(actual, *expected), tolerance(function))
          << "gradient of operand " << number;
    }
  }

  /// The interpreter computes in doubles whatever the type says; what a case of
  /// narrow floats has is constants that are rounded to f32.
  static double tolerance(func::FuncOp function) {
    Type type = getElementTypeOrSelf(function.getResultTypes().front());
    return type.isF64() ? 1e-12 : 1e-6;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
};

TEST_F(GradientTest, EqualsPyTorch) {
  std::set<std::string> seen;
  int count = 0;
  forEachCase([&](func::FuncOp function) {
    seen.insert(
        function.getBody().front().front().getName().getStringRef().str());
    ++count;
    check(function, /*simplify=*/false);
  });
  EXPECT_GE(count, 170);
  // Every op that says it is differentiable is among the cases, but those that
  // do not work on floats at all or only choose by them, dropout, which is
  // expanded before, and attention: FiniteDifferenceTest and
  // unittests/Cuda/AttentionTest.cpp (PyTorch's numbers).
  std::set<std::string> others = opsOnIntegersAlone();
  others.insert({"nn.philox", "nn.less_equal", "nn.sign", "nn.dropout",
                 "nn.attention", "nn.bitcast", "nn.greedy_suppress"});
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.hasInterface<DifferentiableInterface>() &&
        !others.count(name.getStringRef().str()))
      EXPECT_TRUE(seen.count(name.getStringRef().str()))
          << name.getStringRef().str();
}

/// What gives floats and has no gradient is what only steps are made of, a
/// source, an iota, or a loop that is not unrolled. A new op with floats has to
/// have one.
TEST_F(GradientTest, OpsWithoutOne) {
  const std::set<std::string> none = {"nn.conv_weight_gradient",
                                      "nn.max_pool_gradient",
                                      "nn.avg_pool_gradient",
                                      "nn.attention_gradient",
                                      "nn.scatter_add",
                                      "nn.sgd_update",
                                      "nn.adam_update",
                                      "nn.adagrad_update",
                                      "nn.rmsprop_update",
                                      "nn.weight",
                                      "nn.state",
                                      "nn.constant",
                                      "nn.iota",
                                      "nn.loop",
                                      "nn.yield"};
  std::set<std::string> found;
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.getDialectNamespace() == "nn" &&
        !name.hasInterface<DifferentiableInterface>())
      found.insert(name.getStringRef().str());
  EXPECT_EQ(found, none);
}

/// What an exporter's graph is simplified by keeps gradients, too.
TEST_F(GradientTest, SimplifiedEqualsPyTorch) {
  forEachCase(
      [&](func::FuncOp function) { check(function, /*simplify=*/true); });
}

/// What nothing depends on costs nothing.
TEST_F(GradientTest, NoUpstreamNoOps) {
  forEachCase([&](func::FuncOp function) {
    Block &block = function.getBody().front();
    OpBuilder builder(block.getTerminator());
    auto vjp = cast<DifferentiableInterface>(block.front());
    auto gradients = vjp.buildVectorJacobianProduct(builder, Value());
    ASSERT_TRUE(succeeded(gradients));
    EXPECT_EQ(gradients->size(), block.front().getNumOperands());
    for (Value gradient : *gradients)
      EXPECT_FALSE(gradient) << function.getName().str();
    EXPECT_EQ(llvm::range_size(block), 2) << function.getName().str();
  });
}

/// The weight of a layer gets one product over all rows, whatever the batch.
TEST_F(GradientTest, WeightGradientIsOneProduct) {
  auto module = parseSourceString<ModuleOp>(R"(
    func.func @main(%x: tensor<8x16x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<8x16x3x5xf32> {
      %r = nn.matmul %x, %w : (tensor<8x16x3x4xf32>, tensor<4x5xf32>) -> tensor<8x16x3x5xf32>
      return %r : tensor<8x16x3x5xf32>
    })",
                                            &context);
  ASSERT_TRUE(module);
  std::vector<bool> present;
  auto main = *module->getOps<func::FuncOp>().begin();
  ASSERT_NO_FATAL_FAILURE(differentiate(main, present));
  int64_t largest = 0;
  main.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      largest =
          std::max(largest, cast<RankedTensorType>(type).getNumElements());
  });
  EXPECT_EQ(largest, 8 * 16 * 3 * 5);
}

/// Integers and literals get none, and no ops are built for them.
TEST_F(GradientTest, LiteralsHaveNone) {
  auto module = parseSourceString<ModuleOp>(R"(
    func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %two = nn.constant dense<2.0> : tensor<f32>
      %r = nn.pow %x, %two : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
      return %r : tensor<3xf32>
    })",
                                            &context);
  ASSERT_TRUE(module);
  Block &block = (*module->getOps<func::FuncOp>().begin()).getBody().front();
  OpBuilder builder(block.getTerminator());
  Operation *pow = block.front().getNextNode();
  auto gradients =
      cast<DifferentiableInterface>(pow).buildVectorJacobianProduct(
          builder, pow->getResult(0));
  ASSERT_TRUE(succeeded(gradients));
  EXPECT_TRUE((*gradients)[0]);
  EXPECT_FALSE((*gradients)[1]);
  EXPECT_TRUE(block.getOps<nn::LogOp>().empty());
}

} // namespace
