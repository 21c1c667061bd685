//===- IntervalTest.cpp - values lie where intervals say they do ----------===//
//
// Partial sums pass through products and quotients by what intervals say. So
// every op's interval is held against the interpreter, on numbers, infinities,
// NaN and zeros; and what real models rely on is written out.
//
//===----------------------------------------------------------------------===//
#include "RandomOp.h"

#include "kerf/Dist/Dist.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <array>
#include <cmath>

using namespace mlir;
using namespace kerf;
using interpret::Tensor;

namespace {

class IntervalTest : public ::testing::Test {
protected:
  IntervalTest() {
    context.loadDialect<func::FuncDialect, nn::NNDialect, dist::DistDialect>();
  }

  /// Of the last op of a function with a body of these lines.
  Interval of(const std::string &body, const std::string &arguments = "") {
    module = parseSourceString<ModuleOp>("func.func @main(" + arguments +
                                             ") {\n" + body + "\nreturn\n}",
                                         &context);
    EXPECT_TRUE(module) << body;
    if (!module)
      return Interval::all();
    Block &block = module->lookupSymbol<func::FuncOp>("main").getBody().front();
    return Intervals(block).of(std::prev(block.end(), 2)->getResults().back());
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

} // namespace

/// Arguments become constants, for which intervals know the elements.
static void bindArguments(func::FuncOp main, ArrayRef<Tensor> inputs) {
  OpBuilder builder(&main.getBody().front(), main.getBody().front().begin());
  for (auto [argument, tensor] : llvm::zip(main.getArguments(), inputs)) {
    auto type = cast<RankedTensorType>(argument.getType());
    SmallVector<Attribute> elements;
    for (double value : tensor.data)
      if (auto integer = dyn_cast<IntegerType>(type.getElementType()))
        elements.push_back(IntegerAttr::get(
            integer, APInt(integer.getWidth(), uint64_t(int64_t(value)),
                           /*isSigned=*/true, /*implicitTrunc=*/true)));
      else
        elements.push_back(FloatAttr::get(type.getElementType(), value));
    argument.replaceAllUsesWith(nn::ConstantOp::create(
        builder, main.getLoc(), DenseElementsAttr::get(type, elements)));
  }
}

// Every op that has a gradient, and the ops of its gradient: no element lies
// outside of its interval, no infinity and no 0 where there is none.
TEST_F(IntervalTest, HoldsEveryElement) {
  size_t numFinite = 0, numNonZero = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::RandomOp random(&context, seed);
    std::vector<Tensor> inputs = random.inputs();
    random.differentiate(true);
    inputs.emplace_back(
        cast<RankedTensorType>(random.main.getArgumentTypes().back())
            .getShape(),
        0.5);
    for (auto [tensor, type] :
         llvm::zip(inputs, random.main.getArgumentTypes())) {
      bool isFloat =
          isa<FloatType>(cast<RankedTensorType>(type).getElementType());
      for (double &value : tensor.data)
        if (int kind = int(random.real(0, 40)); isFloat && kind < 5)
          value =
              std::array<double, 5>{0, INFINITY, -INFINITY, NAN, 1e30}[kind];
      if (isFloat && random.real(0, 3) < 1)
        for (double &value : tensor.data)
          value = std::isfinite(value) ? std::fabs(value) + 0.5 : 1;
    }
    bindArguments(random.main, inputs);
    Intervals intervals(random.main.getBody().front());
    interpret::RunOptions options;
    options.seen = [&](Operation *op, ArrayRef<Tensor> results) {
      for (auto [result, tensor] : llvm::zip(op->getResults(), results)) {
        Interval x = intervals.of(result);
        double slack = x.isFinite() ? 1e-9 * (1 + x.magnitude()) : 1e-9;
        numFinite += x.isFinite();
        numNonZero += !x.mayBeZero();
        for (double value : tensor.data)
          if (!std::isnan(value) &&
              (!(value >= x.low - slack && value <= x.high + slack) ||
               (std::isinf(value) && x.isFinite()) ||
               (value == 0 && !x.mayBeZero()))) {
            ADD_FAILURE() << op->getName().getStringRef().str() << ": " << value
                          << " is not in [" << x.low << ", " << x.high << "]";
            return false;
          }
      }
      return true;
    };
    auto outputs = interpret::run(random.main, inputs, nullptr, options);
    ASSERT_TRUE(succeeded(outputs));
    if (HasFailure())
      return;
  }
  // Something is known at all.
  EXPECT_GT(numFinite, 4000u);
  EXPECT_GT(numNonZero, 500u);
}

// What is given by the user may be infinite; what a file holds is not, but for
// weights in which import has seen it; numbers of the program are what they
// are.
TEST_F(IntervalTest, Sources) {
  EXPECT_FALSE(
      of("%r = nn.neg %x : tensor<4xf32>", "%x: tensor<4xf32>").isFinite());
  EXPECT_TRUE(
      of("%w = nn.weight \"w\" file 0 at 0 : tensor<4xf32>").isFinite());
  EXPECT_FALSE(of("%w = nn.weight \"w\" file 0 at 0 {infinite} : tensor<4xf32>")
                   .isFinite());
  EXPECT_TRUE(
      of("%c = nn.constant dense<[1.0, -2.0]> : tensor<2xf32>").isFinite());
  EXPECT_FALSE(of("%c = nn.constant dense<[1.0, 0xFF800000]> : tensor<2xf32>")
                   .isFinite());
  EXPECT_TRUE(of("%r = nn.cast %x : (tensor<4xi64>) -> tensor<4xf32>",
                 "%x: tensor<4xi64>")
                  .isFinite());
  EXPECT_FALSE(of("%r = nn.cast %x : (tensor<4xi64>) -> tensor<4xf16>",
                  "%x: tensor<4xi64>")
                   .isFinite());
}

// Sums and products of finite numbers stay finite where the type has room; what
// is known to be too large does not, nor does what grows as exp does.
TEST_F(IntervalTest, Overflow) {
  auto product = [&](const std::string &type) {
    return of("%w = nn.weight \"w\" file 0 at 0 : tensor<4x" + type +
              ">\n%r = nn.mul %w, %w : (tensor<4x" + type + ">, tensor<4x" +
              type + ">) -> tensor<4x" + type + ">");
  };
  EXPECT_TRUE(product("f32").isFinite());
  EXPECT_TRUE(product("bf16").isFinite());
  EXPECT_FALSE(product("f16").isFinite());
  EXPECT_FALSE(of("%c = nn.constant dense<1.0e30> : tensor<f32>\n%r = nn.mul "
                  "%c, %c : tensor<f32>")
                   .isFinite());
  EXPECT_FALSE(of("%i = nn.cast %x : (tensor<4xi8>) -> tensor<4xf32>\n%r = "
                  "nn.exp %i : tensor<4xf32>",
                  "%x: tensor<4xi8>")
                   .isFinite());
}

// 1 / sqrt(mean(x^2) + epsilon), whatever x is.
TEST_F(IntervalTest, InverseRootOfSquares) {
  Interval x =
      of("%e = nn.constant dense<1.0e-05> : tensor<f32>\n%q = nn.mul %x, %x : "
         "tensor<2x3xf32>\n%s = nn.reduce sum %q dims [1] : (tensor<2x3xf32>) "
         "-> tensor<2xf32>\n%a = nn.add %s, %e : (tensor<2xf32>, tensor<f32>) "
         "-> tensor<2xf32>\n%r = nn.rsqrt %a : tensor<2xf32>",
         "%x: tensor<2x3xf32>");
  EXPECT_EQ(x.low, 0);
  EXPECT_LT(x.high, 320);
}

// A count that is NaN where it would be 0 divides what it likes; the same count
// by itself does not.
TEST_F(IntervalTest, GuardedDivisor) {
  const std::string count =
      "%f = nn.cast %m : (tensor<8xi1>) -> tensor<8xf32>\n%n = nn.reduce sum "
      "%f dims [0] : (tensor<8xf32>) -> tensor<f32>\n";
  EXPECT_TRUE(of(count, "%m: tensor<8xi1>").mayBeZero());
  EXPECT_EQ(of(count, "%m: tensor<8xi1>").high, 8);
  const std::string guard =
      count + "%z = nn.constant dense<0.0> : tensor<f32>\n%nan = nn.constant "
              "dense<0x7FC00000> : tensor<f32>\n%e = nn.equal %n, %z : "
              "(tensor<f32>, tensor<f32>) -> tensor<i1>\n";
  const std::string types =
      " : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>";
  EXPECT_FALSE(
      of(guard + "%r = nn.select %e, %nan, %n" + types, "%m: tensor<8xi1>")
          .mayBeZero());
  EXPECT_TRUE(
      of(guard + "%r = nn.select %e, %n, %nan" + types, "%m: tensor<8xi1>")
          .mayBeZero());
}

// What may be infinite or 0 closes the group of the other operand alone.
TEST_F(IntervalTest, Groups) {
  of("%s = nn.sigmoid %x : tensor<4xf32>\n%r = nn.mul %x, %s : "
     "tensor<4xf32>\n%d = nn.div %x, %s : tensor<4xf32>",
     "%x: tensor<4xf32>");
  Block &block = module->lookupSymbol<func::FuncOp>("main").getBody().front();
  Intervals intervals(block);
  auto passes = [&](Operation &op, unsigned group) {
    return intervals.letsPass(
        &op, cast<ShardingRuleInterface>(op).getShardingRule(), group);
  };
  Operation &product = *std::next(block.begin(), 1);
  Operation &quotient = *std::next(block.begin(), 2);
  EXPECT_TRUE(passes(product, 0));  // x in parts times a sigmoid
  EXPECT_FALSE(passes(product, 1)); // a sigmoid in parts times x
  EXPECT_FALSE(passes(quotient, 0));
}
