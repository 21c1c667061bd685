// A compiler of toy ops that trains: makes a step of training of a function,
// plans and partitions it, replaces its ops on local shapes, compiles it in
// memory and lets four ranks run some steps, beside the same on one.
#include "Toy.h"

#include "kerf/Autodiff/Passes.h"
#include "kerf/Embed/Embed.h"
#include "kerf/NN/NN.h"
#include "kerf/NNToLinalg/Passes.h"
#include "kerf/Native/Native.h"
#include "kerf/Ranks/Passes.h"

#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;

static llvm::ExitOnError orExit;

static std::vector<float> numbers(size_t size, size_t phase) {
  std::vector<float> result(size);
  for (size_t i = 0; i < size; ++i)
    result[i] = std::sin(static_cast<float>(phase + i)) / 2;
  return result;
}

/// What a back end does with its ops; here they become ops of nn, which a pass
/// says in linalg, as what Kerf has added: the loss and the updates.
static void lowerToy(ModuleOp module) {
  module->walk([&](Operation *op) {
    OpBuilder builder(op);
    if (auto product = dyn_cast<toy::ProductOp>(op))
      op->replaceAllUsesWith(kerf::nn::MatmulOp::create(
          builder, op->getLoc(), product.getType(), product.getA(),
          product.getB(), product.getTa(), product.getTb()));
    else if (auto multiply = dyn_cast<toy::MultiplyOp>(op))
      op->replaceAllUsesWith(
          kerf::nn::MulOp::create(builder, op->getLoc(), multiply.getType(),
                                  multiply.getA(), multiply.getB()));
    else
      return;
    op->erase();
  });
}

/// A step's code for the devices of a mesh, and the ranks that run it.
struct Step {
  Step(ModuleOp module, const kerf::plan::PlanOptions &options) {
    std::string name = (*module.getOps<func::FuncOp>().begin()).getName().str();
    kerf::plan::PlanRun planned;
    PassManager passes(module.getContext());
    kerf::buildShardPipeline(passes, options, planned);
    if (failed(passes.run(module)))
      std::exit(1);
    if (options.devices > 1)
      module.print(llvm::outs());
    lowerToy(module);
    PassManager further(module.getContext());
    further.addPass(kerf::ranks::createCallRuntime());
    further.addPass(kerf::nntolinalg::createNNToLinalg());
    if (failed(further.run(module)))
      std::exit(1);
    program = orExit(kerf::native::Program::create(module, name));
    orExit(program->write("w", numbers(12 * 16, 2).data())); // whole
    orExit(program->write("v", numbers(12 * 6, 2).data()));
    for (ShapedType type : program->getTypes())
      tensors.push_back(numbers(type.getNumElements(), tensors.size()));
    tensors[2][0] = 0.005; // the learning rate is the third input
  }
  float loss() {
    std::vector<void *> addresses;
    for (std::vector<float> &tensor : tensors)
      addresses.push_back(tensor.data());
    orExit(program->run(addresses));
    return tensors.back()[0];
  }
  std::unique_ptr<kerf::native::Program> program;
  std::vector<std::vector<float>> tensors;
};

int main(int argc, char **argv) {
  DialectRegistry registry;
  registry.insert<toy::ToyDialect>();
  registerAllDialects(registry);
  kerf::registerEmbeddedDialects(registry);
  MLIRContext context(registry);
  auto module = parseSourceFile<ModuleOp>(argv[1], &context);
  if (!module)
    return 1;
  // The step: a loss, gradients by the ops' own rules, an update.
  kerf::autodiff::AutodiffOptions step;
  step.loss = orExit(kerf::autodiff::parseLoss("mse(y,target)"));
  step.optimizer = orExit(kerf::autodiff::parseOptimizer("sgd,lr=0.2"));
  kerf::autodiff::AutodiffRun differentiated;
  PassManager differentiate(&context);
  differentiate.addPass(
      kerf::autodiff::createAutodiffPass(step, differentiated));
  if (failed(differentiate.run(*module)))
    return 1;
  OwningOpRef<ModuleOp> whole = module->clone();
  // Two devices by data and two by columns.
  auto four = orExit(kerf::planOptions("dp=2,tp=2"));
  four.hints = {{"w", "[{tp},{}]"}, {"v", "[{tp},{}]"}};
  four.objective = kerf::plan::Objective::Volume;
  Step onRanks(*module, four), onOne(*whole, orExit(kerf::planOptions("")));
  for (int number = 0; number < 5; ++number) {
    float parts = onRanks.loss(), one = onOne.loss();
    llvm::outs() << llvm::format(
        "// step %d: loss %.4f on four ranks, %.4f on one\n", number, parts,
        one);
  }
}
