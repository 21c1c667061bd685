// A compiler of toy ops: makes a step of training of a function, plans and
// partitions it for four devices, replaces its ops on local shapes, and runs
// some steps on simulated ranks, beside the step as it was before planning.
#include "Toy.h"

#include "kerf/Autodiff/Passes.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Embed/Embed.h"
#include "kerf/Interpret/Interpret.h"
#include "kerf/NN/NN.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;
using kerf::interpret::Tensor;

static Tensor numbers(ArrayRef<int64_t> shape, double phase) {
  Tensor tensor(shape);
  for (size_t i = 0; i < tensor.data.size(); ++i)
    tensor.data[i] = std::sin(phase + static_cast<double>(i)) / 2;
  return tensor;
}

/// What a back end does with the ops; here they become ops of nn, which the
/// interpreter knows.
static void lowerToy(ModuleOp module) {
  SmallVector<Operation *> ops;
  module->walk([&](Operation *op) {
    if (isa<toy::ToyDialect>(op->getDialect()))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    OpBuilder builder(op);
    Type type = op->getResult(0).getType();
    Value a = op->getOperand(0), b = op->getOperand(1), made;
    if (auto product = dyn_cast<toy::ProductOp>(op))
      made = kerf::nn::MatmulOp::create(builder, op->getLoc(), type, a, b,
                                        product.getTa(), product.getTb());
    else
      made = kerf::nn::MulOp::create(builder, op->getLoc(), type, a, b);
    op->getResult(0).replaceAllUsesWith(made);
    op->erase();
  }
}

int main(int argc, char **argv) {
  DialectRegistry registry;
  registry.insert<toy::ToyDialect>();
  kerf::registerEmbeddedDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  auto module = parseSourceFile<ModuleOp>(argv[1], &context);
  if (!module)
    return 1;

  // The step: a loss, gradients by the ops' own rules, an update.
  kerf::autodiff::AutodiffOptions step;
  step.loss = llvm::cantFail(kerf::autodiff::parseLoss("mse(y,target)"));
  step.optimizer = llvm::cantFail(kerf::autodiff::parseOptimizer("sgd,lr=0.2"));
  kerf::autodiff::AutodiffRun differentiated;
  PassManager differentiate(&context);
  differentiate.addPass(
      kerf::autodiff::createAutodiffPass(step, differentiated));
  if (failed(differentiate.run(*module)))
    return 1;
  OwningOpRef<ModuleOp> whole = module->clone();

  // The plan, for two devices by data and two by columns.
  kerf::plan::PlanOptions options;
  options.devices = 4;
  options.mesh = {{"dp", 2}, {"tp", 2}};
  options.machine =
      llvm::cantFail(kerf::cost::loadMachine("h100-8", options.devices));
  options.objective = kerf::plan::Objective::Volume;
  options.hints = {{"w", "[{tp},{}]"}, {"v", "[{tp},{}]"}};
  kerf::plan::PlanRun planned;
  PassManager passes(&context);
  passes.addPass(kerf::plan::createPlanPass(options, "h100-8", planned));
  kerf::buildPartitionPipeline(passes);
  kerf::buildCollectivesPipeline(passes);
  if (failed(passes.run(*module)))
    return 1;
  module->print(llvm::outs());

  lowerToy(*module);
  lowerToy(*whole);
  auto weights = [](Operation *op) { // whole, also where a rank has a part
    auto stored = cast<kerf::nn::WeightOp>(op).getStored();
    return numbers(cast<RankedTensorType>(stored).getShape(), 2);
  };
  auto main = *whole->getOps<func::FuncOp>().begin();
  std::vector<Tensor> inputs;
  for (Type type : main.getArgumentTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    // The learning rate is an input; samples and targets are the others.
    inputs.push_back(
        tensor.getRank() == 0
            ? Tensor({}, 0.005)
            : numbers(tensor.getShape(), static_cast<double>(inputs.size())));
  }
  kerf::interpret::RankStates ranks;
  kerf::interpret::State state;
  for (int number = 0; number < 5; ++number) {
    auto parts =
        kerf::interpret::runPartitioned(*module, inputs, weights, &ranks);
    auto one = kerf::interpret::run(main, inputs, weights, &state);
    if (failed(parts) || failed(one))
      return 1;
    llvm::outs() << llvm::format(
        "// step %d: loss %.4f on four ranks, %.4f on one\n", number,
        (*parts)[0].data[0], (*one)[0].data[0]);
  }
}
