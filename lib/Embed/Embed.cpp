//===- Embed.cpp - Kerf in another compiler -------------------------------===//
#include "kerf/Embed/Embed.h"

#include "kerf/Autodiff/Passes.h"
#include "kerf/Bridge/Passes.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Passes.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Models/Models.h"
#include "kerf/Models/Passes.h"
#include "kerf/NN/NN.h"
#include "kerf/NNToLinalg/Passes.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/Passes.h"
#include "kerf/Ranks/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassRegistry.h"

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
  models::registerKerfModelsPasses();
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
