// A compiler of linalg: reads a module, plans and partitions its function for a
// mesh that the command line names, prints it.
//   shard-linalg FILE AXIS=SIZE,...
#include "kerf/Embed/Embed.h"
#include "kerf/Version.h"

#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
static_assert(KERF_VERSION_MAJOR == 0 && KERF_VERSION_MINOR == 2,
              "written for the headers of Kerf 0.2");

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  DialectRegistry registry;
  registerAllDialects(registry); // or those of the compiler's own programs
  kerf::registerEmbeddedDialects(registry);
  MLIRContext context(registry);
  auto module = parseSourceFile<ModuleOp>(argv[1], &context);
  auto options = llvm::ExitOnError()(kerf::planOptions(argv[2], "h100-8"));
  kerf::plan::PlanRun planned;
  PassManager passes(&context);
  kerf::buildShardPipeline(passes, options, planned);
  bool isSharded = module && succeeded(passes.run(*module));

  if (!isSharded)
    return 1;
  module->print(llvm::outs());
  llvm::outs() << "// sends " << planned.result->candidates.front().totalBytes
               << " bytes\n";
}
