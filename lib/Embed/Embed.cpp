//===- Embed.cpp - Kerf in another compiler -------------------------------===//
#include "kerf/Embed/Embed.h"

#include "kerf/Autodiff/Passes.h"
#include "kerf/Bridge/Passes.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Passes.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Models/Models.h"
#include "kerf/NN/NN.h"
#include "kerf/NNToLinalg/Passes.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/MeshText.h"
#include "kerf/Plan/Passes.h"
#include "kerf/Ranks/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/MathExtras.h"

void kerf::registerEmbeddedDialects(mlir::DialectRegistry &registry) {
  registry.insert<KerfDialect, dist::DistDialect, nn::NNDialect,
                  mlir::func::FuncDialect>();
  registerUpstreamModels(registry);
}

void kerf::registerEmbeddedPasses() {
  autodiff::registerKerfAutodiffPasses();
  plan::registerKerfPlanPasses();
  registerKerfPartitionPasses();
  registerKerfCollectivesPasses();
  dist::registerKerfDistPasses();
  bridge::registerKerfBridgePasses();
  nntolinalg::registerKerfNNToLinalgPasses();
  ranks::registerKerfRanksPasses();
  mlir::PassPipelineRegistration<>(
      "kerf-partition", "The partition phase: a planned module becomes local",
      [](mlir::OpPassManager &passes) { buildPartitionPipeline(passes); });
  mlir::PassPipelineRegistration<>(
      "kerf-collectives",
      "The collectives phase: fewer and cheaper collectives",
      [](mlir::OpPassManager &passes) { buildCollectivesPipeline(passes); });
}

llvm::Expected<kerf::plan::PlanOptions>
kerf::planOptions(llvm::StringRef mesh, llvm::StringRef machine) {
  plan::PlanOptions options;
  if (std::string wrong = plan::parseMeshText(mesh, options.mesh);
      !wrong.empty())
    return llvm::createStringError(wrong);
  for (const auto &[name, size] : options.mesh)
    if (size < 1 || llvm::MulOverflow(options.devices, size, options.devices))
      return llvm::createStringError("option mesh: axis '" + name + "' has " +
                                     std::to_string(size) +
                                     " devices, expected at least 1, and a "
                                     "number of all below 2^63");
  auto loaded = cost::loadMachine(machine, options.devices);
  if (!loaded)
    return loaded.takeError();
  options.machine = std::move(*loaded);
  return options;
}

void kerf::buildShardPipeline(mlir::OpPassManager &passes,
                              const plan::PlanOptions &options,
                              plan::PlanRun &planned) {
  passes.addPass(plan::createFlatten());
  passes.addPass(plan::createPlanPass(options, options.machine.name, planned));
  buildPartitionPipeline(passes);
  buildCollectivesPipeline(passes);
}
