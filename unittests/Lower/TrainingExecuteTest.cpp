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
      Value argument = block.addArgument(source->getResult(0).getType(),
                                         source->getLoc());
      source->getResult(0).replaceAllUsesWith(argument);
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

  func::FuncOp function() {
    return module->lookupSymbol<func::FuncOp>("main");
  }

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
  std::string failure =
      runNativeSteps(module, folder.file("test.kerf"), steps);
  ASSERT_EQ(failure, "") << text;
  for (size_t step = 0; step < steps.inputs.size(); ++step) {
    auto expected = pure.step(steps.inputs[step], makeWeights());
    ASSERT_TRUE(succeeded(expected));
    ASSERT_EQ(expected->size(), steps.outputs[step].size());
    for (size_t i = 0; i < expected->size(); ++i)
      ASSERT_LE(
          interpret::difference(steps.outputs[step][i], (*expected)[i]),
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
  TrainingExecuteTest() : context(registry(), MLIRContext::Threading::DISABLED) {
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
  %w = nn.weight "w0" {variable, file = 0 : i64, offset = 0 : i64, length = 120 : i64, stored = tensor<6x5xf32>} : tensor<6x5xf32>
  %b = nn.weight "w1" {variable, file = 0 : i64, offset = 120 : i64, length = 20 : i64, stored = tensor<5xf32>} : tensor<5xf32>
  %v = nn.state "momentum/w" {init = 0.5 : f32} : tensor<6x5xf32>
  %mu = nn.constant dense<0.9> : tensor<f32>
  %lr = nn.constant dense<0.01> : tensor<f32>
  %h0 = nn.matmul %x, %w : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
  %h = nn.add %h0, %b : (tensor<8x5xf32>, tensor<5xf32>) -> tensor<8x5xf32>
  %d = nn.sub %h, %t : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
  %dd = nn.mul %d, %d : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
  %loss = nn.reduce %dd {kind = 0 : i64, dims = array<i64: 0, 1>} : (tensor<8x5xf32>) -> tensor<f32>
  %dw = nn.matmul %x, %d {transpose_lhs} : (tensor<8x6xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  %g = dist.accumulate %dw : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %db = nn.reduce %d {kind = 0 : i64, dims = array<i64: 0>} : (tensor<8x5xf32>) -> tensor<5xf32>
  %gb = dist.accumulate %db : (tensor<5xf32>) -> tensor<5xf32>
  %mv = nn.mul %v, %mu : (tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %v1 = nn.add %mv, %g : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
  %s = nn.mul %v1, %lr : (tensor<6x5xf32>, tensor<f32>) -> tensor<6x5xf32>
  %w1 = nn.sub %w, %s : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
  %sb = nn.mul %gb, %lr : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %b1 = nn.sub %b, %sb : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
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
  %a = nn.weight "w0" {variable, file = 0 : i64, offset = 0 : i64, length = 64 : i64, stored = tensor<4x4xf32>} : tensor<4x4xf32>
  %b = nn.weight "w1" {variable, file = 0 : i64, offset = 64 : i64, length = 64 : i64, stored = tensor<4x4xf32>} : tensor<4x4xf32>
  %c = nn.state "c" {init = 1.5 : f32} : tensor<4x4xf32>
  %d = nn.state "d" {init = 2.5 : f32} : tensor<4x4xf32>
  %ct = nn.transpose %c {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c1 = nn.add %ct, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d1 = nn.add %d, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = nn.matmul %d1, %d : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  dist.assign %a, %b : tensor<4x4xf32>
  dist.assign %b, %a : tensor<4x4xf32>
  dist.assign %c, %c1 : tensor<4x4xf32>
  dist.assign %d, %d1 : tensor<4x4xf32>
  return %y, %d1 : tensor<4x4xf32>, tensor<4x4xf32>
})",
        3);
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
  unsigned first = 0, count = 60;
  if (const char *given = std::getenv("KERF_SEED")) {
    first = std::atoi(given);
    count = 1;
  }
  for (unsigned seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("KERF_SEED=" + std::to_string(seed));
    kerf::test::Random random(seed);
    auto module = makeGraph(&context, random, 4 + int(draw(random, 9)));
    auto main = module->lookupSymbol<func::FuncOp>("main");
    assignAll(main, random);
    NativeSteps steps;
    for (int i = 0; i < 3; ++i)
      steps.inputs.push_back(makeInputs(main, random));
    checkSteps(*module, steps, 1e-3);
    if (HasFatalFailure())
      return;
  }
}

} // namespace
