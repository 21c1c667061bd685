// A compiler of linalg that runs what it shards: plans and partitions a
// function, compiles it in memory and lets a thread for each rank run it; then
// runs the function as it was, beside it.
//   run-linalg FILE AXIS=SIZE,... VALUE=SHARDING...
#include "kerf/Embed/Embed.h"
#include "kerf/Native/Native.h"
#include "kerf/Ranks/Passes.h"

#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;
using kerf::native::Program;

static llvm::ExitOnError orExit;

/// Numbers for each tensor that the program takes; it overwrites its outputs.
static std::vector<std::vector<float>> run(Program &program) {
  std::vector<std::vector<float>> tensors;
  std::vector<void *> addresses;
  for (ShapedType type : program.getTypes()) {
    std::vector<float> tensor(type.getNumElements());
    for (size_t i = 0; i < tensor.size(); ++i)
      tensor[i] = std::sin(static_cast<float>(tensors.size() + i)) / 2;
    addresses.push_back(tensor.data());
    tensors.push_back(std::move(tensor));
  }
  orExit(program.run(addresses));
  return tensors;
}

int main(int argc, char **argv) {
  DialectRegistry registry;
  registerAllDialects(registry);
  kerf::registerEmbeddedDialects(registry);
  MLIRContext context(registry);
  auto module = parseSourceFile<ModuleOp>(argv[1], &context);
  if (!module)
    return 1;
  OwningOpRef<ModuleOp> whole = module->clone();
  auto function = *module->getOps<func::FuncOp>().begin();
  std::string name = function.getName().str();
  size_t numInputs = function.getNumArguments();

  auto options = orExit(kerf::planOptions(argv[2]));
  for (int i = 3; i < argc; ++i) {
    auto [value, sharding] = StringRef(argv[i]).split('=');
    options.hints.push_back({value.str(), sharding.str()});
  }
  kerf::plan::PlanRun planned;
  PassManager passes(&context);
  kerf::buildShardPipeline(passes, options, planned);
  passes.addPass(kerf::ranks::createCallRuntime());
  if (failed(passes.run(*module)))
    return 1;

  auto sharded = orExit(Program::create(*module, name));
  auto alone = orExit(Program::create(*whole, name));
  auto onRanks = run(*sharded), onOne = run(*alone);
  for (size_t i = numInputs; i < onOne.size(); ++i)
    for (auto [a, b] : llvm::zip(onRanks[i], onOne[i]))
      llvm::outs() << llvm::format("%.6f on ranks, %.6f on one\n", a, b);
  kerf_ranks_t *ranks = sharded->getRanks();
  llvm::outs() << kerf_ranks_size(ranks) << " ranks sent "
               << kerf_ranks_sent_bytes(ranks) << " bytes\n";
}
