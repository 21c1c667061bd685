//===- RecogniseAttentionTest.cpp - attention found is what was written ---===//
//
// Attention in the forms that exporters give: the function computes the same
// before and after recognition (in doubles), and forms that must not match do
// not. The gradient is checked by FiniteDifferenceTest.
//
//===----------------------------------------------------------------------===//
#include "kerf/Interpret/Interpret.h"
#include "kerf/NN/NN.h"
#include "kerf/NN/Transforms/Simplify.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace kerf;
using interpret::Tensor;

namespace {

class RecogniseAttentionTest : public ::testing::Test {
protected:
  RecogniseAttentionTest() {
    context.loadDialect<func::FuncDialect, nn::NNDialect>();
  }

  static std::vector<Tensor> inputsOf(func::FuncOp function) {
    std::mt19937 random(3);
    std::vector<Tensor> inputs;
    for (Type type : function.getArgumentTypes()) {
      auto tensor = cast<RankedTensorType>(type);
      Tensor input(tensor.getShape());
      for (double &value : input.data)
        value = tensor.getElementType().isInteger(1)
                    ? double(random() % 2)
                    : double(random() % 4000) / 1000 - 2;
      // No row is hidden altogether.
      if (tensor.getElementType().isInteger(1))
        for (size_t i = 0; i < input.data.size();
             i += static_cast<size_t>(tensor.getShape().back()))
          input.data[i] = 1;
      inputs.push_back(std::move(input));
    }
    return inputs;
  }

  /// The attention that is found, or null.
  nn::AttentionOp check(const std::string &text, int64_t expected,
                        bool training = false) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    if (!module)
      return {};
    auto main = *module->getOps<func::FuncOp>().begin();
    std::vector<Tensor> inputs = inputsOf(main);
    auto before = interpret::run(main, inputs, nullptr);
    nn::AttentionForms forms;
    forms.wide = true;
    forms.training = training;
    EXPECT_EQ(nn::recogniseAttention(main.getBody().front(), forms), expected);
    EXPECT_TRUE(succeeded(verify(*module)));
    auto after = interpret::run(main, inputs, nullptr);
    EXPECT_TRUE(succeeded(before) && succeeded(after)) << text;
    if (failed(before) || failed(after))
      return {};
    for (size_t i = 0; i < before->size(); ++i)
      EXPECT_LE(interpret::difference((*after)[i], (*before)[i]), 1e-9);
    nn::AttentionOp found;
    main.walk([&](nn::AttentionOp op) { found = op; });
    EXPECT_EQ(found != nullptr, expected > 0);
    return found;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};

/// A function of q, k, v [2, 2, 3, 8] whose scores go through `between`, from
/// %m to %a.
std::string around(const std::string &between,
                   const std::string &arguments = "") {
  return R"(func.func @main(%q: tensor<2x2x3x8xf32>, %k: tensor<2x2x3x8xf32>, %v: tensor<2x2x3x8xf32>)" +
         arguments + R"() -> tensor<2x2x3x8xf32> {
  %m = nn.matmul %q, %k {transpose_rhs} : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x3xf32>
)" + between +
         R"(
  %p = nn.softmax %a dim 3 : tensor<2x2x3x3xf32>
  %y = nn.matmul %p, %v : (tensor<2x2x3x3xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32>
  return %y : tensor<2x2x3x8xf32>
})";
}

constexpr const char *kTriangle =
    "dense<[[0.0, -3.0e38, -3.0e38], [0.0, 0.0, -3.0e38], [0.0, 0.0, 0.0]]> : "
    "tensor<3x3xf32>\n";

TEST_F(RecogniseAttentionTest, FactorAndTriangle) {
  auto op = check(
      around(
          std::string(R"(  %f = nn.constant dense<4.0> : tensor<f32>
  %s = nn.div %m, %f : (tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>
  %c = nn.constant )") +
          kTriangle +
          R"(  %a = nn.add %s, %c : (tensor<2x2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x2x3x3xf32>)"),
      1);
  ASSERT_TRUE(op);
  EXPECT_TRUE(op.getCausal());
  EXPECT_FALSE(op.getBias());
  EXPECT_EQ(op.getScale().convertToDouble(), 0.25);
}

TEST_F(RecogniseAttentionTest, OtherConstantsAreBiases) {
  auto op = check(
      around(
          R"(  %c = nn.constant dense<[[0.0, -3.0e38, 0.0], [0.0, 0.0, -3.0e38], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %a = nn.add %c, %m : (tensor<3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>)"),
      1);
  ASSERT_TRUE(op);
  EXPECT_FALSE(op.getCausal());
  EXPECT_TRUE(op.getBias());
}

TEST_F(RecogniseAttentionTest, MasksThatSelect) {
  for (const char *order : {"%c, %m, %h", "%c, %h, %m"}) {
    std::string types =
        std::string(order) == "%c, %m, %h"
            ? "(tensor<2x1x3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>)"
            : "(tensor<2x1x3x3xi1>, tensor<f32>, tensor<2x2x3x3xf32>)";
    auto module = around(
        "  %h = nn.constant dense<-1.0e30> : tensor<f32>\n  %a = nn.select " +
            std::string(order) + " : " + types + " -> tensor<2x2x3x3xf32>",
        ", %c: tensor<2x1x3x3xi1>");
    // A row that is hidden altogether is the same in both, too.
    auto op = check(module, 1);
    ASSERT_TRUE(op);
    EXPECT_TRUE(op.getBias());
  }
}

TEST_F(RecogniseAttentionTest, FactorInFrontOfHeads) {
  auto op = check(
      R"(func.func @main(%q: tensor<2x3x16xf32>, %k: tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32> {
  %f = nn.constant dense<0.5> : tensor<f32>
  %s = nn.mul %q, %f : (tensor<2x3x16xf32>, tensor<f32>) -> tensor<2x3x16xf32>
  %h = nn.reshape %s : (tensor<2x3x16xf32>) -> tensor<2x3x2x8xf32>
  %t = nn.transpose %h perm [0, 2, 1, 3] : (tensor<2x3x2x8xf32>) -> tensor<2x2x3x8xf32>
  %m = nn.matmul %t, %k {transpose_rhs} : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x3xf32>
  %p = nn.softmax %m dim 3 : tensor<2x2x3x3xf32>
  %y = nn.matmul %p, %k : (tensor<2x2x3x3xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32>
  return %y : tensor<2x2x3x8xf32>
})",
      1);
  ASSERT_TRUE(op);
  EXPECT_EQ(op.getScale().convertToDouble(), 0.5);
}

TEST_F(RecogniseAttentionTest, GroupsAsADimension) {
  auto op = check(
      R"(func.func @main(%q: tensor<2x2x2x3x8xf32>, %k: tensor<2x2x1x3x8xf32>, %b: tensor<2x1x1x1x3xf32>) -> tensor<2x2x2x3x8xf32> {
  %m = nn.matmul %q, %k {transpose_rhs} : (tensor<2x2x2x3x8xf32>, tensor<2x2x1x3x8xf32>) -> tensor<2x2x2x3x3xf32>
  %a = nn.add %m, %b : (tensor<2x2x2x3x3xf32>, tensor<2x1x1x1x3xf32>) -> tensor<2x2x2x3x3xf32>
  %p = nn.softmax %a dim 4 : tensor<2x2x2x3x3xf32>
  %y = nn.matmul %p, %k : (tensor<2x2x2x3x3xf32>, tensor<2x2x1x3x8xf32>) -> tensor<2x2x2x3x8xf32>
  return %y : tensor<2x2x2x3x8xf32>
})",
      1);
  ASSERT_TRUE(op);
  EXPECT_EQ(op.getK().getType().getShape()[1], 2);
  EXPECT_EQ(op.getQ().getType().getShape()[1], 4);
}

TEST_F(RecogniseAttentionTest, RepeatedKeys) {
  auto op = check(
      R"(func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x1x5x8xf32>, %v: tensor<2x2x1x5x16xf32>) -> tensor<2x4x3x16xf32> {
  %kb = nn.broadcast %k : (tensor<2x2x1x5x8xf32>) -> tensor<2x2x2x5x8xf32>
  %kr = nn.reshape %kb : (tensor<2x2x2x5x8xf32>) -> tensor<2x4x5x8xf32>
  %vb = nn.broadcast %v : (tensor<2x2x1x5x16xf32>) -> tensor<2x2x2x5x16xf32>
  %vr = nn.reshape %vb : (tensor<2x2x2x5x16xf32>) -> tensor<2x4x5x16xf32>
  %m = nn.matmul %q, %kr {transpose_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x3x5xf32>
  %p = nn.softmax %m dim 3 : tensor<2x4x3x5xf32>
  %y = nn.matmul %p, %vr : (tensor<2x4x3x5xf32>, tensor<2x4x5x16xf32>) -> tensor<2x4x3x16xf32>
  return %y : tensor<2x4x3x16xf32>
})",
      1);
  ASSERT_TRUE(op);
  EXPECT_EQ(op.getK().getType().getShape()[1], 2);
}

/// Heads in the batch, with a mask where they are apart; keys and values stored
/// the other way round.
TEST_F(RecogniseAttentionTest, HeadsInTheBatch) {
  auto op = check(
      R"(func.func @main(%q: tensor<4x3x8xf32>, %k: tensor<4x8x3xf32>, %v: tensor<4x8x3xf32>, %b: tensor<2x1x1x3xf32>) -> tensor<4x3x8xf32> {
  %m = nn.matmul %q, %k : (tensor<4x3x8xf32>, tensor<4x8x3xf32>) -> tensor<4x3x3xf32>
  %r = nn.reshape %m : (tensor<4x3x3xf32>) -> tensor<2x2x3x3xf32>
  %a = nn.add %r, %b : (tensor<2x2x3x3xf32>, tensor<2x1x1x3xf32>) -> tensor<2x2x3x3xf32>
  %p = nn.softmax %a dim 3 : tensor<2x2x3x3xf32>
  %s = nn.reshape %p : (tensor<2x2x3x3xf32>) -> tensor<4x3x3xf32>
  %y = nn.matmul %s, %v {transpose_rhs} : (tensor<4x3x3xf32>, tensor<4x8x3xf32>) -> tensor<4x3x8xf32>
  return %y : tensor<4x3x8xf32>
})",
      1);
  ASSERT_TRUE(op);
  EXPECT_EQ(op.getQ().getType().getShape()[0], 2);
}

/// ONNX's Attention gives zero where nothing is seen: only a triangle hides no
/// row altogether.
TEST_F(RecogniseAttentionTest, GuardedRows) {
  auto guarded = [](const std::string &mask, const std::string &arguments) {
    return R"(func.func @main(%q: tensor<2x2x3x8xf32>)" + arguments +
           R"() -> tensor<2x2x3x8xf32> {
  %m = nn.matmul %q, %q {transpose_rhs} : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x3xf32>
)" + mask +
           R"(  %a = nn.add %m, %c : (tensor<2x2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %p = nn.softmax %a dim 3 : tensor<2x2x3x3xf32>
  %n = nn.is_nan %p : (tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xi1>
  %z = nn.constant dense<0.0> : tensor<f32>
  %g = nn.select %n, %z, %p : (tensor<2x2x3x3xi1>, tensor<f32>, tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %y = nn.matmul %g, %q : (tensor<2x2x3x3xf32>, tensor<2x2x3x8xf32>) -> tensor<2x2x3x8xf32>
  return %y : tensor<2x2x3x8xf32>
})";
  };
  EXPECT_TRUE(
      check(guarded(std::string("  %c = nn.constant ") + kTriangle, ""), 1));
  check(guarded("", ", %c: tensor<3x3xf32>"), 0);
}

TEST_F(RecogniseAttentionTest, WhatMustNotMatch) {
  // A factor on top of a mask.
  check(around(R"(  %f = nn.constant dense<4.0> : tensor<f32>
  %s = nn.add %m, %b : (tensor<2x2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x2x3x3xf32>
  %a = nn.mul %s, %f : (tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>)",
               ", %b: tensor<3x3xf32>"),
        0);
  // Scores that are capped.
  check(around("  %a = nn.tanh %m : tensor<2x2x3x3xf32>"), 0);
  // A number that hides too little.
  check(around(R"(  %h = nn.constant dense<-100.0> : tensor<f32>
  %a = nn.select %c, %m, %h : (tensor<2x1x3x3xi1>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x2x3x3xf32>)",
               ", %c: tensor<2x1x3x3xi1>"),
        0);
}

} // namespace
