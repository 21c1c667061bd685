// A compiler of linalg with a machine of its own: reads a module, plans and
// partitions its function for a mesh that the command line names, prints it.
//   shard-linalg FILE AXIS=SIZE...
#include "kerf/Collectives/Passes.h"
#include "kerf/Embed/Embed.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/Passes.h"
#include "kerf/Version.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
static_assert(KERF_VERSION_MAJOR == 0 && KERF_VERSION_MINOR == 2,
              "written for the headers of Kerf 0.2");

int main(int argc, char **argv) {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, linalg::LinalgDialect, math::MathDialect,
                  tensor::TensorDialect>();
  kerf::registerEmbeddedDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  auto module = parseSourceFile<ModuleOp>(argv[1], &context);
  if (!module)
    return 1;

  kerf::plan::PlanOptions options;
  for (int i = 2; i < argc; ++i) {
    auto [name, text] = StringRef(argv[i]).split('=');
    int64_t size = 0;
    if (text.getAsInteger(10, size) || size < 1)
      return 2;
    options.mesh.push_back({name.str(), size});
    options.devices *= size;
  }
  // A machine is a description that planning reads, from JSON or made here:
  // slow links make plans that send less.
  options.machine =
      llvm::cantFail(kerf::cost::loadMachine("h100-8", options.devices));
  options.objective = kerf::plan::Objective::Volume;

  kerf::plan::PlanRun planned;
  PassManager passes(&context);
  passes.addPass(kerf::plan::createFlatten());
  passes.addPass(kerf::plan::createPlanPass(options, "h100-8", planned));
  kerf::buildPartitionPipeline(passes);
  kerf::buildCollectivesPipeline(passes);
  if (failed(passes.run(*module)))
    return 1;
  module->print(llvm::outs());
  llvm::outs() << "// sends " << planned.result->candidates.front().totalBytes
               << " bytes, at least " << planned.result->lowerBound
               << " of the busiest device\n";
}
