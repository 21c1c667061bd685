//===- Register.cpp - all of Kerf's dialects and passes -------------------===//
#include "kerf/Pipelines/Register.h"

#include "kerf/Autodiff/Passes.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Passes.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Import/Passes.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Pipelines/FailPass.h"
#include "kerf/Pipelines/VerifyIR.h"
#include "kerf/Plan/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

void kerf::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<KerfDialect, mlir::func::FuncDialect, nn::NNDialect,
                  dist::DistDialect, exec::ExecDialect>();
}

void kerf::registerPasses() {
  mlir::registerTransformsPasses();
  registerFailPass();
  registerVerifyIR();
  registerKerfImportPasses();
  autodiff::registerKerfAutodiffPasses();
  plan::registerKerfPlanPasses();
  registerKerfPartitionPasses();
  registerKerfCollectivesPasses();
  registerKerfLowerPasses();
  dist::registerKerfDistPasses();
  mlir::PassPipelineRegistration<>(
      "partition", "The partition phase: a planned module becomes local",
      [](mlir::OpPassManager &passes) { buildPartitionPipeline(passes); });
  mlir::PassPipelineRegistration<>(
      "collectives", "The collectives phase: fewer and cheaper collectives",
      [](mlir::OpPassManager &passes) { buildCollectivesPipeline(passes); });
  mlir::PassPipelineRegistration<>(
      "prepare", "Local tensor functions as lowering wants them",
      [](mlir::OpPassManager &passes) { buildPreparePipeline(passes); });
  mlir::PassPipelineRegistration<>(
      "form-groups", "What is computed together, in which order, and where to",
      [](mlir::OpPassManager &passes) { buildFormGroupsPipeline(passes); });
  mlir::PassPipelineRegistration<>(
      "lower", "The lower phase: local tensor functions become exec",
      [](mlir::OpPassManager &passes) { buildLowerPipeline(passes); });
}
