//===- UnfusedTest.cpp - the blocked loops against the interpreter --------===//
//
// `kerf verify` holds large models against loops in blocks and on threads, or
// against some samples of the batch. Both must give what the interpreter's
// loops, which follow the formulas, give of the whole.
//
//===----------------------------------------------------------------------===//
#include "RandomOp.h"

#include "kerf/Interpret/Samples.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using interpret::Tensor;

namespace {

std::vector<Tensor> runBy(func::FuncOp function, std::vector<Tensor> inputs,
                          bool unfused, unsigned threads = 1) {
  interpret::RunOptions options;
  options.unfused = unfused;
  options.threads = threads;
  auto outputs = interpret::run(function, std::move(inputs), nullptr, options);
  EXPECT_TRUE(succeeded(outputs));
  return succeeded(outputs) ? std::move(*outputs) : std::vector<Tensor>();
}

/// Numbers that are not small integers, the same for the same seed.
Tensor drawn(Type type, unsigned seed) {
  Tensor tensor(cast<RankedTensorType>(type).getShape());
  for (size_t i = 0; i < tensor.data.size(); ++i)
    tensor.data[i] = std::sin(double(i * 7 + seed * 13 + 1));
  return tensor;
}

class UnfusedTest : public ::testing::Test {
protected:
  UnfusedTest() { context.loadDialect<func::FuncDialect, nn::NNDialect>(); }

  void expectSame(func::FuncOp function, const std::vector<Tensor> &inputs) {
    std::vector<Tensor> expected = runBy(function, inputs, false);
    for (unsigned threads : {1u, 3u}) {
      std::vector<Tensor> found = runBy(function, inputs, true, threads);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_LE(interpret::difference(found[i], expected[i]), 1e-11)
            << "result " << i << " on " << threads << " threads";
    }
  }

  OwningOpRef<ModuleOp> parse(const std::string &text) {
    auto module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module;
  }
  func::FuncOp main(OwningOpRef<ModuleOp> &module) {
    return module->lookupSymbol<func::FuncOp>("main");
  }

  MLIRContext context;
};

} // namespace

// Every op that has a gradient, and its gradient, on random small shapes.
TEST_F(UnfusedTest, RandomOps) {
  for (unsigned seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::RandomOp random(&context, seed);
    std::vector<Tensor> inputs = random.inputs();
    random.differentiate(true);
    inputs.push_back(drawn(random.main.getArgumentTypes().back(), seed));
    expectSame(random.main, inputs);
    if (HasFatalFailure() || HasNonfatalFailure())
      return;
  }
}

// Sizes on both sides of what a block holds (rows, columns, depth), each way of
// transposing, batches that are broadcast from either side.
TEST_F(UnfusedTest, ProductsOfSeveralBlocks) {
  for (const char *text :
       {"%r = nn.matmul %a, %b : (tensor<121x257xf64>, tensor<257x9xf64>) -> "
        "tensor<121x9xf64> return %r : tensor<121x9xf64>",
        "%r = nn.matmul %a, %b {transpose_rhs} : (tensor<7x300xf64>, "
        "tensor<521x300xf64>) -> tensor<7x521xf64> return %r : "
        "tensor<7x521xf64>",
        "%r = nn.matmul %a, %b {transpose_lhs} : (tensor<3x1x20x130xf64>, "
        "tensor<5x20x11xf64>) -> tensor<3x5x130x11xf64> return %r : "
        "tensor<3x5x130x11xf64>",
        "%r = nn.matmul %a, %b {transpose_lhs, transpose_rhs} : "
        "(tensor<2x5x3xf64>, tensor<4x5xf64>) -> tensor<2x3x4xf64> return %r : "
        "tensor<2x3x4xf64>"}) {
    std::string body = text;
    auto piece = [&](size_t number) {
      size_t at = body.find("(tensor") + 1;
      for (size_t i = 0; i < number; ++i)
        at = body.find("tensor", at + 1);
      return body.substr(at, body.find('>', at) + 1 - at);
    };
    auto module =
        parse("func.func @main(%a: " + piece(0) + ", %b: " + piece(1) +
              ") -> " + piece(2) + " { " + body + " }");
    SCOPED_TRACE(text);
    expectSame(main(module), {drawn(main(module).getArgumentTypes()[0], 1),
                              drawn(main(module).getArgumentTypes()[1], 2)});
  }
}

// More positions than a block of rows, two groups, strides, padding that the
// windows see: the product and both gradients.
TEST_F(UnfusedTest, ConvolutionsOfSeveralBlocks) {
  auto module = parse(R"(
    func.func @main(%x: tensor<2x25x13x4xf64>, %w: tensor<6x2x3x3xf64>, %dy: tensor<2x13x13x6xf64>)
        -> (tensor<2x13x13x6xf64>, tensor<2x25x13x4xf64>, tensor<6x2x3x3xf64>) {
      %y = nn.conv %x, %w kernel 3x3 strides 2x1 pad 1x1 groups 2 : tensor<2x25x13x4xf64> -> tensor<2x13x13x6xf64>
      %dx = nn.conv_input_gradient %dy, %w kernel 3x3 strides 2x1 pad 1x1 groups 2
         : tensor<2x13x13x6xf64> -> tensor<2x25x13x4xf64>
      %dw = nn.conv_weight_gradient %x, %dy kernel 3x3 strides 2x1 pad 1x1 groups 2
         : tensor<2x25x13x4xf64>, tensor<2x13x13x6xf64>
      return %y, %dx, %dw : tensor<2x13x13x6xf64>, tensor<2x25x13x4xf64>, tensor<6x2x3x3xf64>
    })");
  ASSERT_TRUE(module);
  std::vector<Tensor> inputs;
  for (auto [i, type] : llvm::enumerate(main(module).getArgumentTypes()))
    inputs.push_back(drawn(type, unsigned(i)));
  expectSame(main(module), inputs);
}

// NaN, infinities and nothing at all go the same way.
TEST_F(UnfusedTest, SpecialValues) {
  auto module = parse(R"(
    func.func @main(%x: tensor<3x4xf64>, %w: tensor<4x2xf64>, %e: tensor<0x4xf64>)
        -> (tensor<3x4xf64>, tensor<3x2xf64>, tensor<3xf64>, tensor<3x4xf64>, tensor<0x2xf64>, tensor<4xf64>) {
      %r = nn.relu %x : tensor<3x4xf64>
      %m = nn.matmul %x, %w : (tensor<3x4xf64>, tensor<4x2xf64>) -> tensor<3x2xf64>
      %s = nn.reduce max %x dims [1] : (tensor<3x4xf64>) -> tensor<3xf64>
      %p = nn.softmax %x dim 1 : tensor<3x4xf64>
      %n = nn.matmul %e, %w : (tensor<0x4xf64>, tensor<4x2xf64>) -> tensor<0x2xf64>
      %z = nn.reduce sum %e dims [0] : (tensor<0x4xf64>) -> tensor<4xf64>
      return %r, %m, %s, %p, %n, %z : tensor<3x4xf64>, tensor<3x2xf64>, tensor<3xf64>, tensor<3x4xf64>,
                                      tensor<0x2xf64>, tensor<4xf64>
    })");
  ASSERT_TRUE(module);
  Tensor x = drawn(main(module).getArgumentTypes()[0], 1);
  x.data[1] = NAN;
  x.data[6] = INFINITY;
  x.data[9] = -INFINITY;
  std::vector<Tensor> inputs{x, drawn(main(module).getArgumentTypes()[1], 2),
                             drawn(main(module).getArgumentTypes()[2], 3)};
  std::vector<Tensor> found = runBy(main(module), inputs, true),
                      expected = runBy(main(module), inputs, false);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    for (size_t k = 0; k < expected[i].data.size(); ++k)
      EXPECT_TRUE(
          found[i].data[k] == expected[i].data[k] ||
          (std::isnan(found[i].data[k]) && std::isnan(expected[i].data[k])) ||
          std::fabs(found[i].data[k] - expected[i].data[k]) < 1e-12)
          << "result " << i << " element " << k;
}

// What a program stores: the nearest number of the type, to even between two.
TEST_F(UnfusedTest, RoundsToTypes) {
  Builder b(&context);
  auto rounded = [](double value, Type type) {
    Tensor tensor({1}, value);
    interpret::roundTo(tensor, type);
    return tensor.data[0];
  };
  EXPECT_EQ(rounded(0.1, b.getF32Type()), double(0.1f));
  EXPECT_EQ(rounded(1e39, b.getF32Type()), INFINITY);
  EXPECT_EQ(rounded(1 + 0x1p-8, b.getBF16Type()), 1);
  EXPECT_EQ(rounded(1 + 0x3p-8, b.getBF16Type()), 1 + 0x1p-6);
  EXPECT_EQ(rounded(-65519, b.getF16Type()), -65504);
  EXPECT_EQ(rounded(65520, b.getF16Type()), INFINITY);
  EXPECT_EQ(rounded(0x1.8p-24, b.getF16Type()), 0x1p-23);
  EXPECT_TRUE(std::isnan(rounded(NAN, b.getF16Type())));
  EXPECT_EQ(rounded(130, b.getIntegerType(8)), -126);
  EXPECT_EQ(rounded(258, b.getIntegerType(8, false)), 2);
  EXPECT_EQ(rounded(-3, b.getI32Type()), -3);
}

// A sample alone is that sample of the batch, through dimensions that are
// transposed, merged and split, and constants that have a row for each sample.
TEST_F(UnfusedTest, SamplesAreThoseOfTheBatch) {
  auto module = parse(R"(
    func.func @main(%x: tensor<4x3x6xf64> {kerf.batch_dim = 0 : i64}, %t: tensor<4x3xf64> {kerf.batch_dim = 0 : i64},
                    %w: tensor<6x6xf64>, %c: tensor<4x1x1xf64>)
        -> (tensor<4x3x6xf64>, tensor<3x4x6xf64>, tensor<6x6xf64>) {
      %a = nn.matmul %x, %w : (tensor<4x3x6xf64>, tensor<6x6xf64>) -> tensor<4x3x6xf64>
      %s = nn.mul %a, %c : (tensor<4x3x6xf64>, tensor<4x1x1xf64>) -> tensor<4x3x6xf64>
      %r = nn.transpose %s perm [1, 0, 2] : (tensor<4x3x6xf64>) -> tensor<3x4x6xf64>
      %f = nn.reshape %r : (tensor<3x4x6xf64>) -> tensor<12x6xf64>
      %g = nn.matmul %f, %w {transpose_rhs} : (tensor<12x6xf64>, tensor<6x6xf64>) -> tensor<12x6xf64>
      %h = nn.reshape %g : (tensor<12x6xf64>) -> tensor<3x4x2x3xf64>
      %p = nn.softmax %h dim 0 : tensor<3x4x2x3xf64>
      %q = nn.reshape %p : (tensor<3x4x2x3xf64>) -> tensor<3x4x6xf64>
      %u = nn.reshape %t : (tensor<4x3xf64>) -> tensor<4x3x1xf64>
      %y = nn.add %a, %u : (tensor<4x3x6xf64>, tensor<4x3x1xf64>) -> tensor<4x3x6xf64>
      %v = nn.exp %w : tensor<6x6xf64>
      return %y, %q, %v : tensor<4x3x6xf64>, tensor<3x4x6xf64>, tensor<6x6xf64>
    })");
  ASSERT_TRUE(module);
  ASSERT_EQ(interpret::numSamples(main(module)), 4);
  std::vector<Tensor> inputs;
  for (auto [i, type] : llvm::enumerate(main(module).getArgumentTypes()))
    inputs.push_back(drawn(type, unsigned(i)));
  std::vector<Tensor> whole = runBy(main(module), inputs, false);
  auto part = [](const Tensor &tensor, const interpret::SampleDim &at,
                 int64_t sample) {
    interpret::Index shape(tensor.shape);
    shape[at.dim] = at.inner;
    Tensor result(shape);
    interpret::forEachIndex(shape, [&](ArrayRef<int64_t> index) {
      interpret::Index from(index);
      from[at.dim] += sample * at.inner;
      result.at(index) = tensor.at(from);
    });
    return result;
  };
  for (int64_t sample = 0; sample < 4; ++sample) {
    OwningOpRef<ModuleOp> cut = module->clone();
    auto dims = interpret::cutSample(main(cut), sample);
    ASSERT_TRUE(succeeded(dims));
    EXPECT_TRUE(succeeded(verify(*cut)));
    std::vector<Tensor> own;
    for (auto [input, at] : llvm::zip(inputs, dims->inputs))
      own.push_back(at ? part(input, *at, sample) : input);
    std::vector<Tensor> found = runBy(main(cut), own, false);
    EXPECT_FALSE(dims->outputs[2]);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_LE(interpret::difference(
                    found[i], dims->outputs[i]
                                  ? part(whole[i], *dims->outputs[i], sample)
                                  : whole[i]),
                1e-12)
          << "output " << i << " of sample " << sample;
  }
}

// What mixes samples is refused, not cut.
TEST_F(UnfusedTest, SamplesThatAreMixed) {
  for (const char *text :
       {"%r = nn.reduce sum %x dims [0] : (tensor<4x6xf64>) -> tensor<6xf64> "
        "return %r : tensor<6xf64>",
        "%r = nn.softmax %x dim 0 : tensor<4x6xf64> return %r : "
        "tensor<4x6xf64>",
        "%r = nn.matmul %x, %x {transpose_lhs} : (tensor<4x6xf64>, "
        "tensor<4x6xf64>) -> tensor<6x6xf64> return %r : tensor<6x6xf64>",
        "%r = nn.matmul %x, %x {transpose_rhs} : (tensor<4x6xf64>, "
        "tensor<4x6xf64>) -> tensor<4x4xf64> return %r : tensor<4x4xf64>",
        "%r = nn.reshape %x : (tensor<4x6xf64>) -> tensor<3x8xf64> return %r : "
        "tensor<3x8xf64>",
        "%t = nn.transpose %x perm [1, 0] : (tensor<4x6xf64>) -> "
        "tensor<6x4xf64> %r = nn.reshape %t : (tensor<6x4xf64>) -> "
        "tensor<24xf64> return %r : tensor<24xf64>"}) {
    SCOPED_TRACE(text);
    StringRef type = StringRef(text).rsplit(": ").second;
    auto module = parse(
        "func.func @main(%x: tensor<4x6xf64> {kerf.batch_dim = 0 : i64}) -> " +
        type.str() + " { " + text + " }");
    ASSERT_TRUE(module);
    EXPECT_TRUE(failed(interpret::cutSample(main(module), 1)));
  }
}
