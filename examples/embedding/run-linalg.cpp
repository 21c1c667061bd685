// A compiler of linalg that runs what it shards: plans and partitions a
// function, lowers it by upstream passes to machine code in memory, and lets a
// thread for each rank run it; then runs the function as it was, beside it.
//   run-linalg FILE AXIS=SIZE... VALUE=SHARDING...
#include "Native.h"

#include "kerf/Collectives/Passes.h"
#include "kerf/Embed/Embed.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/Passes.h"
#include "kerf/Ranks/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"

int main(int argc, char **argv) {
  DialectRegistry registry;
  registerForNative(registry);
  kerf::registerEmbeddedDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  auto module = parseSourceFile<ModuleOp>(argv[1], &context);
  if (!module)
    return 1;
  auto main = *module->getOps<func::FuncOp>().begin();
  std::string name = main.getName().str();
  FunctionType type = main.getFunctionType();
  main->setAttr("llvm.emit_c_interface", UnitAttr::get(&context));
  OwningOpRef<ModuleOp> whole = module->clone();

  kerf::plan::PlanOptions options;
  for (int i = 2; i < argc; ++i) {
    auto [name, text] = StringRef(argv[i]).split('=');
    int64_t size = 0;
    if (text.getAsInteger(10, size)) {
      options.hints.push_back({name.str(), text.str()});
    } else {
      options.mesh.push_back({name.str(), size});
      options.devices *= size;
    }
  }
  options.machine =
      llvm::cantFail(kerf::cost::loadMachine("h100-8", options.devices));
  kerf::plan::PlanRun planned;
  PassManager passes(&context);
  passes.addPass(kerf::plan::createPlanPass(options, "h100-8", planned));
  kerf::buildPartitionPipeline(passes);
  kerf::buildCollectivesPipeline(passes);
  passes.addPass(kerf::ranks::createCallRuntime());
  if (failed(passes.run(*module)))
    return 1;

  auto sharded = compileInMemory(*module), alone = compileInMemory(*whole);
  Call onRanks(*sharded, name, type), onOne(*alone, name, type);
  auto *program = llvm::cantFail(sharded->lookup(name + "_ranks"));
  kerf_ranks_t *ranks = nullptr;
  check(kerf_ranks_create(static_cast<char *>(program), nullptr, &ranks));
  runOnRanks(ranks, onRanks);
  onOne(nullptr);
  for (size_t i = type.getNumInputs(); i < onOne.buffers.size(); ++i)
    for (auto [a, b] :
         llvm::zip(onRanks.buffers[i].data, onOne.buffers[i].data))
      llvm::outs() << llvm::format("%.6f on ranks, %.6f on one\n", a, b);
  llvm::outs() << kerf_ranks_size(ranks) << " ranks sent "
               << kerf_ranks_sent_bytes(ranks) << " bytes\n";
  kerf_ranks_destroy(ranks);
}
