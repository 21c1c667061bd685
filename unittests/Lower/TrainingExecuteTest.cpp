//===- TrainingExecuteTest.cpp - what outlives a step ---------------------===//
//
// Functions with dist.assign are compiled, packaged and run for several steps;
// outputs of every step and the parameters at the end must equal those of a
// pure function (old values as further arguments, new ones as further results)
// that the interpreter runs step by step. Random ones assign to every weight
// something that is computed from old values in some other order, so that
// updates must wait for readers, go aside, or swap.
//
//===----------------------------------------------------------------------===//
#include "../Support/Seeds.h"
#include "RandomGraph.h"
#include "RunNative.h"

#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"
#include "kerf/Pipelines/Register.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

bool isMutable(Operation *op) {
  auto source = dyn_cast<SourceOpInterface>(op);
  return source && source.isMutable();
}

/// A step without memory: what the interpreter runs.
struct PureStep {
  OwningOpRef<ModuleOp> module;
  std::vector<std::string> names;
  std::vector<interpret::Tensor> state;

  PureStep(ModuleOp original, const interpret::Weights &weights)
      : module(cast<ModuleOp>(original->clone())) {
    func::FuncOp main = function();
    Block &block = main.getBody().front();
    SmallVector<Operation *> sources, assigns;
    for (Operation &op : block) {
      if (isMutable(&op))
        sources.push_back(&op);
      if (isa<dist::AssignOp, dist::AccumulateOp>(op))
        assigns.push_back(&op);
    }
    Operation *terminator = block.getTerminator();
    SmallVector<Value> results(terminator->getOperands());
    size_t first = results.size();
    for (Operation *source : sources) {
      names.push_back(cast<SourceOpInterface>(source).getSourceName().str());
      if (auto initial = dyn_cast<nn::StateOp>(source))
        state.push_back(interpret::Tensor(
            initial.getResult().getType().getShape(),
            cast<FloatAttr>(initial.getInit()).getValueAsDouble()));
      else
        state.push_back(weights(source));
      Value argument =
          block.addArgument(source->getResult(0).getType(), source->getLoc());
      source->getResult(0).replaceAllUsesWith(argument);
      llvm::replace(results, Value(source->getResult(0)), argument);
      results.push_back(argument);
      source->erase();
    }
    for (Operation *op : assigns) {
      if (auto assign = dyn_cast<dist::AssignOp>(op)) {
        auto argument = cast<BlockArgument>(assign.getSource());
        results[first + argument.getArgNumber() -
                (block.getNumArguments() - names.size())] = assign.getValue();
      } else {
        Value x = op->getOperand(0);
        llvm::replace(results, Value(op->getResult(0)), x);
        op->getResult(0).replaceAllUsesWith(x);
      }
      op->erase();
    }
    terminator->setOperands(results);
    main.setFunctionType(FunctionType::get(main.getContext(),
                                           block.getArgumentTypes(),
                                           terminator->getOperandTypes()));
    main.removeArgAttrsAttr();
    main.removeResAttrsAttr();
  }

  func::FuncOp function() { return module->lookupSymbol<func::FuncOp>("main"); }

  FailureOr<std::vector<interpret::Tensor>>
  step(std::vector<interpret::Tensor> inputs,
       const interpret::Weights &weights) {
    inputs.insert(inputs.end(), state.begin(), state.end());
    auto all = interpret::run(function(), inputs, weights);
    if (failed(all))
      return failure();
    size_t outputs = all->size() - state.size();
    state.assign(all->begin() + outputs, all->end());
    all->resize(outputs);
    return all;
  }
};

void checkSteps(ModuleOp module, NativeSteps &steps, double tolerance) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  TemporaryFolder folder;
  storeWeights(module, makeWeights(), folder.file("weights.bin"));
  PureStep pure(module, makeWeights());
  std::string failure = runNativeSteps(module, folder.file("test.kerf"), steps);
  ASSERT_EQ(failure, "") << text;
  for (size_t step = 0; step < steps.inputs.size(); ++step) {
    auto expected = pure.step(steps.inputs[step], makeWeights());
    ASSERT_TRUE(succeeded(expected));
    ASSERT_EQ(expected->size(), steps.outputs[step].size());
    for (size_t i = 0; i < expected->size(); ++i)
      ASSERT_LE(interpret::difference(steps.outputs[step][i], (*expected)[i]),
                tolerance)
          << "output " << i << " of step " << step << "\n"
          << text;
  }
  for (auto [name, value] : llvm::zip_equal(pure.names, pure.state)) {
    ASSERT_TRUE(steps.parameters.count(name)) << name;
    ASSERT_LE(interpret::difference(steps.parameters[name], value), tolerance)
        << "parameter " << name << "\n"
        << text;
  }
}

class TrainingExecuteTest : public ::testing::Test {
protected:
  TrainingExecuteTest()
      : context(registry(), MLIRContext::Threading::DISABLED) {
    context.loadAllAvailableDialects();
  }
  static DialectRegistry registry() {
    DialectRegistry registry;
    registerDialects(registry);
    return registry;
  }
  void check(StringRef text, int numSteps, double tolerance = 2e-4) {
    auto module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    NativeSteps steps;
    Random random(1);
    for (int i = 0; i < numSteps; ++i)
      steps.inputs.push_back(
          makeInputs(module->lookupSymbol<func::FuncOp>("main"), random));
    checkSteps(*module, steps, tolerance);
  }
  MLIRContext context;
};

// One device, one micro-batch: a linear layer with momentum. The bias is
// updated in the kernel that reduces its gradient.
TEST_F(TrainingExecuteTest, Momentum) {
  check(R"(
func.func @main(%x: tensor<8x6xf32>, %t: tensor<8x5xf32>) -> tensor<f32> {
  %w = nn.weight "w0" file 0 at 0 {variable} : tensor<6x5xf32>
  %b = nn.weight "w1" file 0 at 120 {variable} : tensor<5xf32>
  %v = nn.state "momentum/w" {init = 0.5 : f32} : tensor<6x5xf32>
  %mu = nn.constant dense<0.9> : tensor<f32>
  %lr = nn.constant dense<0.01> : tensor<f32>
  %h0 = nn.matmul %x, %w : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
  %h = nn.add %h0, %b : (tensor<8x5xf32>, tensor<5xf32>) -> tensor<8x5xf32>
  %d = nn.sub %h, %t : tensor<8x5xf32>
  %dd = nn.mul %d, %d : tensor<8x5xf32>
  %loss = nn.reduce sum %dd dims [0, 1] : (tensor<8x5xf32>) -> tensor<f32>
  %dw = nn.matmul %x, %d {transpose_lhs} : (tensor<8x6xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  %g = dist.accumulate %dw : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %db = nn.reduce sum %d dims [0] : (tensor<8x5xf32>) -> tensor<5xf32>
  %gb = dist.accumulate %db : (tensor<5xf32>) -> tensor<5xf32>
  %mv = nn.mul %v, %mu : (tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %v1 = nn.add %mv, %g : tensor<6x5xf32>
  %s = nn.mul %v1, %lr : (tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %w1 = nn.sub %w, %s : tensor<6x5xf32>
  %sb = nn.mul %gb, %lr : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %b1 = nn.sub %b, %sb : tensor<5xf32>
  dist.assign %w, %w1 : tensor<6x5xf32>
  dist.assign %v, %v1 : tensor<6x5xf32>
  dist.assign %b, %b1 : tensor<5xf32>
  %l = dist.accumulate %loss : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
})",
        5);
}

// Two sources swap, one is shifted by itself, one is read after it is computed.
TEST_F(TrainingExecuteTest, Swap) {
  check(R"(
func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %a = nn.weight "w0" file 0 at 0 {variable} : tensor<4x4xf32>
  %b = nn.weight "w1" file 0 at 64 {variable} : tensor<4x4xf32>
  %c = nn.state "c" {init = 1.5 : f32} : tensor<4x4xf32>
  %d = nn.state "d" {init = 2.5 : f32} : tensor<4x4xf32>
  %ct = nn.transpose %c perm [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c1 = nn.add %ct, %x : tensor<4x4xf32>
  %d1 = nn.add %d, %x : tensor<4x4xf32>
  %y = nn.matmul %d1, %d : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  dist.assign %a, %b : tensor<4x4xf32>
  dist.assign %b, %a : tensor<4x4xf32>
  dist.assign %c, %c1 : tensor<4x4xf32>
  dist.assign %d, %d1 : tensor<4x4xf32>
  return %y, %d1 : tensor<4x4xf32>, tensor<4x4xf32>
})",
        3);
}

// Convolutions whose weights a step writes are packed at every call; their
// gradients, in several windows and groups.
TEST_F(TrainingExecuteTest, ConvGradients) {
  struct Case {
    int64_t batch, in, channels, outChannels, kernel, stride, low, high, groups;
  };
  Case cases[] = {
      {2, 9, 3, 8, 3, 1, 1, 1, 1},     {2, 8, 16, 32, 3, 2, 1, 1, 1},
      {1, 7, 5, 7, 1, 1, 0, 0, 1},     {3, 10, 4, 6, 3, 2, 0, 1, 2},
      {2, 12, 16, 16, 5, 1, 2, 2, 16}, {2, 14, 64, 64, 3, 1, 1, 1, 1}};
  for (const Case &c : cases) {
    int64_t out = (c.in + c.low + c.high - c.kernel) / c.stride + 1;
    auto type = [](std::initializer_list<int64_t> shape) {
      std::string text = "tensor<";
      for (int64_t size : shape)
        text += std::to_string(size) + "x";
      return text + "f32>";
    };
    std::string x = type({c.batch, c.in, c.in, c.channels});
    std::string y = type({c.batch, out, out, c.outChannels});
    std::string w =
        type({c.outChannels, c.channels / c.groups, c.kernel, c.kernel});
    auto twice = [](int64_t n) {
      return std::to_string(n) + "x" + std::to_string(n);
    };
    std::string window = " kernel " + twice(c.kernel) + " strides " +
                         twice(c.stride) + " low " + twice(c.low) + " high " +
                         twice(c.high) + " groups " + std::to_string(c.groups) +
                         " : ";
    SCOPED_TRACE(window + x + w);
    check("func.func @main(%x: " + x + ", %dy: " + y + ") -> (" + y + ", " + x +
              ") {\n  %w = nn.weight \"w0\" file 0 at 0 {variable} : " + w +
              "\n  %y = nn.conv %x, %w" + window + "(" + x + ", " + w +
              ") -> " + y + "\n  %dx = nn.conv_input_gradient %dy, %w" +
              window + "(" + y + ", " + w + ") -> " + x +
              "\n  %dw = nn.conv_weight_gradient %x, %dy" + window + "(" + x +
              ", " + y + ") -> " + w +
              "\n  %c = nn.constant dense<0.01> : tensor<f32>\n  %s = nn.mul "
              "%dw, %c : (" +
              w + ", tensor<f32>) -> " + w + "\n  %w1 = nn.sub %w, %s : (" + w +
              ", " + w + ") -> " + w + "\n  dist.assign %w, %w1 : " + w +
              "\n  return %y, %dx : " + y + ", " + x + "\n}",
          2, 1e-3);
    if (HasFatalFailure())
      return;
  }
}

TEST_F(TrainingExecuteTest, PoolGradients) {
  check(R"(
func.func @main(%x: tensor<2x9x7x70xf32>, %dy: tensor<2x5x4x70xf32>, %t: tensor<1x8x3xf32>, %dt: tensor<1x4x3xf32>)
    -> (tensor<2x9x7x70xf32>, tensor<2x9x7x70xf32>, tensor<2x9x7x70xf32>, tensor<1x8x3xf32>) {
  %a = nn.max_pool_gradient %x, %dy kernel 3x3 strides 2x2 pad 1x1
     : (tensor<2x9x7x70xf32>, tensor<2x5x4x70xf32>) -> tensor<2x9x7x70xf32>
  %r = nn.relu %x : tensor<2x9x7x70xf32>
  %b = nn.max_pool_gradient %r, %dy kernel 3x3 strides 2x2 pad 1x1
     : (tensor<2x9x7x70xf32>, tensor<2x5x4x70xf32>) -> tensor<2x9x7x70xf32>
  %c = nn.avg_pool_gradient %dy kernel 3x3 strides 2x2 pad 1x1 : (tensor<2x5x4x70xf32>) -> tensor<2x9x7x70xf32>
  %d = nn.avg_pool_gradient %dt kernel 2 strides 2 {count_include_pad} : (tensor<1x4x3xf32>) -> tensor<1x8x3xf32>
  return %a, %b, %c, %d : tensor<2x9x7x70xf32>, tensor<2x9x7x70xf32>, tensor<2x9x7x70xf32>, tensor<1x8x3xf32>
})",
        2);
}

// Rows of a table; added to another gradient; along another dimension, with
// indices that are constants.
TEST_F(TrainingExecuteTest, ScatterAdd) {
  check(R"(
func.func @main(%ids: tensor<2x3xi64>, %dy: tensor<2x3x20xf32>, %h: tensor<6x20xf32>, %p: tensor<6x50xf32>, %u: tensor<5x4xf32>)
    -> (tensor<50x20xf32>, tensor<5x7xf32>) {
  %c = nn.state "table" {init = 1.0 : f32} : tensor<50x20xf32>
  %m = nn.matmul %p, %h {transpose_lhs} : (tensor<6x50xf32>, tensor<6x20xf32>) -> tensor<50x20xf32>
  %s = nn.scatter_add %ids, %dy dim 0 : (tensor<2x3xi64>, tensor<2x3x20xf32>) -> tensor<50x20xf32>
  %g = nn.add %m, %s : tensor<50x20xf32>
  %c1 = nn.sub %c, %g : tensor<50x20xf32>
  dist.assign %c, %c1 : tensor<50x20xf32>
  %k = nn.constant dense<[1, -1, 1, 3]> : tensor<4xi64>
  %v = nn.scatter_add %k, %u dim 1 : (tensor<4xi64>, tensor<5x4xf32>) -> tensor<5x7xf32>
  return %c, %v : tensor<50x20xf32>, tensor<5x7xf32>
})",
        3);
}

// Rows of each sample by its own indices, some of which are the same, negative
// or of no row; into a tensor that is read again, and over one that is not.
TEST_F(TrainingExecuteTest, Scatter) {
  for (const char *kind : {"set", "add", "mul", "min", "max"})
    check(
        R"(
func.func @main(%i: tensor<4x9xi64>, %x: tensor<4x30x5xf32>, %u: tensor<4x9x5xf32>, %h: tensor<4x30xf32>)
    -> (tensor<4x30x5xf32>, tensor<4x30x5xf32>, tensor<4x30xf32>, tensor<30x4xi32>) {
  %k = nn.constant dense<[7, -1, 40, 7]> : tensor<4xi32>
  %a = nn.scatter )" +
            std::string(kind) +
            R"( %x, %i, %u dim 1 : (tensor<4x30x5xf32>, tensor<4x9xi64>, tensor<4x9x5xf32>) -> tensor<4x30x5xf32>
  %e = nn.exp %x : tensor<4x30x5xf32>
  %b = nn.scatter )" +
            std::string(kind) +
            R"( %e, %i, %u dim 1 : (tensor<4x30x5xf32>, tensor<4x9xi64>, tensor<4x9x5xf32>) -> tensor<4x30x5xf32>
  %s = nn.slice %h from [0, 0] : (tensor<4x30xf32>) -> tensor<4x9xf32>
  %c = nn.scatter )" +
            std::string(kind) +
            R"( %h, %i, %s dim 1 : (tensor<4x30xf32>, tensor<4x9xi64>, tensor<4x9xf32>) -> tensor<4x30xf32>
  %t = nn.transpose %h perm [1, 0] : (tensor<4x30xf32>) -> tensor<30x4xf32>
  %n = nn.cast %t : (tensor<30x4xf32>) -> tensor<30x4xi32>
  %o = nn.slice %n from [5, 0] : (tensor<30x4xi32>) -> tensor<4x4xi32>
  %d = nn.scatter )" +
            std::string(kind) +
            R"( %n, %k, %o dim 0 : (tensor<30x4xi32>, tensor<4xi32>, tensor<4x4xi32>) -> tensor<30x4xi32>
  return %a, %b, %c, %d : tensor<4x30x5xf32>, tensor<4x30x5xf32>, tensor<4x30xf32>, tensor<30x4xi32>
})",
        4);
}

// Many equal elements, of few and of many.
TEST_F(TrainingExecuteTest, TopK) {
  check(R"(
func.func @main(%x: tensor<40x8xf32>, %y: tensor<3x700xf32>)
    -> (tensor<40x2xi64>, tensor<40x8xi64>, tensor<3x50xi64>, tensor<3x700xi64>, tensor<3x7xi64>) {
  %r = nn.round %y : tensor<3x700xf32>
  %n = nn.cast %r : (tensor<3x700xf32>) -> tensor<3x700xi32>
  %a = nn.top_k 2 of %x : (tensor<40x8xf32>) -> tensor<40x2xi64>
  %b = nn.top_k 8 of %x {smallest} : (tensor<40x8xf32>) -> tensor<40x8xi64>
  %c = nn.top_k 50 of %r : (tensor<3x700xf32>) -> tensor<3x50xi64>
  %d = nn.top_k 700 of %n {smallest} : (tensor<3x700xi32>) -> tensor<3x700xi64>
  %e = nn.top_k 7 of %n : (tensor<3x700xi32>) -> tensor<3x7xi64>
  return %a, %b, %c, %d, %e : tensor<40x2xi64>, tensor<40x8xi64>, tensor<3x50xi64>, tensor<3x700xi64>, tensor<3x7xi64>
})",
        5);
}

// Every element of a random tensor, and a mask made of it.
TEST_F(TrainingExecuteTest, Philox) {
  check(R"(
func.func @main(%seed: tensor<i64>, %step: tensor<i64>) -> (tensor<13x37xf32>, tensor<13x37xf32>) {
  %i = nn.iota dim 0 : tensor<481xi64>
  %n = nn.reshape %i : (tensor<481xi64>) -> tensor<13x37xi64>
  %u = nn.philox %n, %seed, %step {stream = 7 : i64} : (tensor<13x37xi64>, tensor<i64>, tensor<i64>) -> tensor<13x37xf32>
  %h = nn.constant dense<0.3> : tensor<f32>
  %k = nn.less %u, %h : (tensor<13x37xf32>, tensor<f32>) -> tensor<13x37xi1>
  %f = nn.cast %k : (tensor<13x37xi1>) -> tensor<13x37xf32>
  return %u, %f : tensor<13x37xf32>, tensor<13x37xf32>
})",
        2, 1e-7);
}

// Updates of optimizers, one kernel each, with and without what is optional.
TEST_F(TrainingExecuteTest, Updates) {
  check(R"(
func.func @main(%x: tensor<8x6xf32>, %d: tensor<8x5xf32>) -> tensor<6x5xf32> {
  %w = nn.weight "w0" file 0 at 0 {variable} : tensor<6x5xf32>
  %u = nn.weight "w1" file 0 at 120 {variable} : tensor<6x5xf32>
  %q = nn.weight "w2" file 0 at 240 {variable} : tensor<6x5xf32>
  %r = nn.weight "w3" file 0 at 360 {variable} : tensor<6x5xf32>
  %k = nn.weight "w4" file 0 at 480 {variable} : tensor<6x5xf32>
  %l = nn.state "l" {init = 0.0 : f32} : tensor<6x5xf32>
  %j = nn.state "j" {init = 0.0 : f32} : tensor<6x5xf32>
  %m = nn.state "m" {init = 0.0 : f32} : tensor<6x5xf32>
  %v = nn.state "v" {init = 0.0 : f32} : tensor<6x5xf32>
  %n = nn.state "n" {init = 0.0 : f32} : tensor<6x5xf32>
  %s = nn.state "s" {init = 0.1 : f32} : tensor<6x5xf32>
  %lr = nn.constant dense<0.1> : tensor<f32>
  %c1 = nn.constant dense<0.1> : tensor<f32>
  %c2 = nn.constant dense<0.001> : tensor<f32>
  %g = nn.matmul %x, %d {transpose_lhs} : (tensor<8x6xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  %w1, %m1, %v1 = nn.adam_update %w, %g, %m, %v, %lr, %c1, %c2 beta1 0.9 beta2 0.999 epsilon 1.0e-08 weight_decay 0.01 {decoupled}
     : tensor<6x5xf32>
  %g2 = nn.matmul %x, %d {transpose_lhs} : (tensor<8x6xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  %u1, %n1 = nn.sgd_update %u, %g2, %n, %lr momentum 0.9 weight_decay 0.1 {nesterov} : tensor<6x5xf32>
  %q1, %s1 = nn.adagrad_update %q, %g, %s, %lr epsilon 1.0e-10 weight_decay 0.0 : tensor<6x5xf32>
  %r1 = nn.sgd_update %r, %g, %lr momentum 0.0 weight_decay 0.0 : tensor<6x5xf32>
  %k1, %l1, %j1 = nn.rmsprop_update %k, %g, %l, %j, %lr alpha 0.9 epsilon 1.0e-03 momentum 0.8 weight_decay 0.1 : tensor<6x5xf32>
  dist.assign %w, %w1 : tensor<6x5xf32>
  dist.assign %m, %m1 : tensor<6x5xf32>
  dist.assign %v, %v1 : tensor<6x5xf32>
  dist.assign %u, %u1 : tensor<6x5xf32>
  dist.assign %n, %n1 : tensor<6x5xf32>
  dist.assign %q, %q1 : tensor<6x5xf32>
  dist.assign %s, %s1 : tensor<6x5xf32>
  dist.assign %r, %r1 : tensor<6x5xf32>
  dist.assign %k, %k1 : tensor<6x5xf32>
  dist.assign %l, %l1 : tensor<6x5xf32>
  dist.assign %j, %j1 : tensor<6x5xf32>
  return %g : tensor<6x5xf32>
})",
        4, 1e-4);
}

// Contractions of bf16 operands that accumulate in f32, with and without a
// result in f32, their gradients, and elementwise ops between.
TEST_F(TrainingExecuteTest, NarrowPrecision) {
  check(R"(
func.func @main(%x: tensor<8x64xf32>, %t: tensor<8x32xf32>, %i: tensor<2x8x8x16xf32>, %dy: tensor<2x8x8x32xf32>)
    -> (tensor<8x32xf32>, tensor<8x64xf32>, tensor<2x8x8x32xf32>, tensor<2x8x8x16xf32>) {
  %w = nn.weight "w0" file 0 at 0 {variable} : tensor<64x32xf32>
  %k = nn.weight "w1" file 0 at 8192 {variable} : tensor<32x16x3x3xf32>
  %xb = nn.cast %x : (tensor<8x64xf32>) -> tensor<8x64xbf16>
  %wb = nn.cast %w : (tensor<64x32xf32>) -> tensor<64x32xbf16>
  %hb = nn.matmul %xb, %wb : (tensor<8x64xbf16>, tensor<64x32xbf16>) -> tensor<8x32xbf16>
  %h = nn.cast %hb : (tensor<8x32xbf16>) -> tensor<8x32xf32>
  %d = nn.sub %h, %t : tensor<8x32xf32>
  %db = nn.cast %d : (tensor<8x32xf32>) -> tensor<8x32xbf16>
  %dxb = nn.matmul %db, %wb {transpose_rhs} : (tensor<8x32xbf16>, tensor<64x32xbf16>) -> tensor<8x64xbf16>
  %rb = nn.relu %dxb : tensor<8x64xbf16>
  %dx = nn.cast %rb : (tensor<8x64xbf16>) -> tensor<8x64xf32>
  %gb = nn.matmul %xb, %db {transpose_lhs} : (tensor<8x64xbf16>, tensor<8x32xbf16>) -> tensor<64x32xbf16>
  %g = nn.cast %gb : (tensor<64x32xbf16>) -> tensor<64x32xf32>
  %lr = nn.constant dense<0.001> : tensor<f32>
  %w1 = nn.sgd_update %w, %g, %lr momentum 0.0 weight_decay 0.0 : tensor<64x32xf32>
  dist.assign %w, %w1 : tensor<64x32xf32>
  %ib = nn.cast %i : (tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xbf16>
  %kb = nn.cast %k : (tensor<32x16x3x3xf32>) -> tensor<32x16x3x3xbf16>
  %yb = nn.conv %ib, %kb kernel 3x3 pad 1x1 : tensor<2x8x8x16xbf16> -> tensor<2x8x8x32xbf16>
  %y = nn.cast %yb : (tensor<2x8x8x32xbf16>) -> tensor<2x8x8x32xf32>
  %eb = nn.cast %dy : (tensor<2x8x8x32xf32>) -> tensor<2x8x8x32xbf16>
  %dib = nn.conv_input_gradient %eb, %kb kernel 3x3 pad 1x1 : tensor<2x8x8x32xbf16> -> tensor<2x8x8x16xbf16>
  %di = nn.cast %dib : (tensor<2x8x8x16xbf16>) -> tensor<2x8x8x16xf32>
  %dkb = nn.conv_weight_gradient %ib, %eb kernel 3x3 pad 1x1 : tensor<2x8x8x16xbf16>, tensor<2x8x8x32xbf16>
  %dk = nn.cast %dkb : (tensor<32x16x3x3xbf16>) -> tensor<32x16x3x3xf32>
  %k1 = nn.sgd_update %k, %dk, %lr momentum 0.0 weight_decay 0.0 : tensor<32x16x3x3xf32>
  dist.assign %k, %k1 : tensor<32x16x3x3xf32>
  return %h, %dx, %y, %di : tensor<8x32xf32>, tensor<8x64xf32>, tensor<2x8x8x32xf32>, tensor<2x8x8x16xf32>
})",
        2, 0.15);
}

/// Makes the weights of a random function sources that steps write.
void assignAll(func::FuncOp main, Random &random) {
  Block &block = main.getBody().front();
  OpBuilder builder(block.getTerminator());
  SmallVector<nn::WeightOp> weights(block.getOps<nn::WeightOp>());
  SmallVector<Value> pool;
  for (Operation &op : block)
    llvm::append_range(pool, op.getResults());
  Location loc = main.getLoc();
  for (nn::WeightOp weight : weights) {
    weight.setVariable(true);
    auto type = cast<RankedTensorType>(weight.getResult().getType());
    SmallVector<Value> fitting;
    for (Value value : pool)
      if (value.getType() == type)
        fitting.push_back(value);
    Value other = fitting[draw(random, fitting.size())];
    Value half = nn::ConstantOp::create(
        builder, loc,
        cast<ElementsAttr>(DenseElementsAttr::get(
            RankedTensorType::get({}, builder.getF32Type()), 0.5f)));
    Value scaled = nn::MulOp::create(builder, loc, weight.getResult(), half);
    Value bounded = nn::TanhOp::create(builder, loc, other);
    Value result = other;
    switch (draw(random, 4)) {
    case 0:
      result = nn::AddOp::create(builder, loc, scaled, bounded);
      break;
    case 1:
      result = scaled;
      break;
    case 2:
      result = bounded;
      break;
    }
    dist::AssignOp::create(builder, loc, weight.getResult(), result);
  }
}

TEST_F(TrainingExecuteTest, Random) {
  kerf::test::forEachSeed(0, 60, [&](unsigned seed) {
    kerf::test::Random random(seed);
    auto module = makeGraph(&context, random, 4 + int(draw(random, 9)));
    auto main = module->lookupSymbol<func::FuncOp>("main");
    assignAll(main, random);
    NativeSteps steps;
    for (int i = 0; i < 3; ++i)
      steps.inputs.push_back(makeInputs(main, random));
    checkSteps(*module, steps, 1e-3);
  });
}

} // namespace
