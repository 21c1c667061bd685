// A compiler of toy ops that trains: makes a step of training of a function,
// plans and partitions it, replaces its ops on local shapes, compiles it in
// memory and lets four ranks run some steps, beside the same on one.
#include "Native.h"
#include "Toy.h"

#include "kerf/Autodiff/Passes.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Embed/Embed.h"
#include "kerf/NNToLinalg/Passes.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/Passes.h"
#include "kerf/Ranks/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"

/// A step's code for the devices of a mesh, and the ranks that run it.
struct Step {
  Step(ModuleOp module, kerf::plan::PlanOptions options) {
    auto main = *module.getOps<func::FuncOp>().begin();
    std::string name = main.getName().str();
    main->setAttr("llvm.emit_c_interface", UnitAttr::get(main.getContext()));
    FunctionType type = main.getFunctionType();
    for (auto [axis, size] : options.mesh)
      options.devices *= size;
    options.machine = llvm::cantFail(kerf::cost::loadMachine("h100-8", 4));
    options.objective = kerf::plan::Objective::Volume;
    PassManager passes(module.getContext());
    passes.addPass(kerf::plan::createPlanPass(options, "h100-8", planned));
    kerf::buildPartitionPipeline(passes);
    kerf::buildCollectivesPipeline(passes);
    if (failed(passes.run(module)))
      std::exit(1);
    if (options.devices > 1)
      module.print(llvm::outs());
    toy::lowerToy(module);
    PassManager further(module.getContext());
    further.addPass(kerf::ranks::createCallRuntime());
    further.addPass(kerf::nntolinalg::createNNToLinalg());
    if (failed(further.run(module)))
      std::exit(1);
    engine = compileInMemory(module);
    call = std::make_unique<Call>(*engine, name, type);
    call->buffers[2].data[0] = 0.005; // the learning rate is the third input
    auto *program = llvm::cantFail(engine->lookup(name + "_ranks"));
    check(kerf_ranks_create(static_cast<char *>(program), nullptr, &ranks));
    auto f32 = Float32Type::get(module.getContext());
    for (auto [name, size] : {std::pair("w", 192), {"v", 72}}) { // whole
      Buffer numbers(RankedTensorType::get({size}, f32), 2);
      check(kerf_ranks_write(ranks, name, numbers.data.data()));
    }
  }
  ~Step() { kerf_ranks_destroy(ranks); }
  float loss() {
    runOnRanks(ranks, *call);
    return call->buffers.back().data[0];
  }
  kerf::plan::PlanRun planned;
  std::unique_ptr<ExecutionEngine> engine;
  std::unique_ptr<Call> call;
  kerf_ranks_t *ranks = nullptr;
};

int main(int argc, char **argv) {
  DialectRegistry registry;
  registry.insert<toy::ToyDialect>();
  registerForNative(registry);
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
  // Two devices by data and two by columns.
  kerf::plan::PlanOptions four;
  four.mesh = {{"dp", 2}, {"tp", 2}};
  four.hints = {{"w", "[{tp},{}]"}, {"v", "[{tp},{}]"}};
  Step onRanks(*module, four), onOne(*whole, {});
  for (int number = 0; number < 5; ++number) {
    float parts = onRanks.loss(), one = onOne.loss();
    llvm::outs() << llvm::format(
        "// step %d: loss %.4f on four ranks, %.4f on one\n", number, parts,
        one);
  }
}
