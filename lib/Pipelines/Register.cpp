//===- Register.cpp - all of Kerf's dialects and passes -------------------===//
#include "kerf/Pipelines/Register.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Embed/Embed.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Import/Passes.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Lower/Passes.h"
#include "kerf/Models/Models.h"
#include "kerf/NN/NN.h"
#include "kerf/Pipelines/FailPass.h"
#include "kerf/Pipelines/Passes.h"
#include "kerf/Pipelines/VerifyIR.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

void kerf::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<KerfDialect, mlir::func::FuncDialect, nn::NNDialect,
                  dist::DistDialect, exec::ExecDialect>();
}

void kerf::registerUpstreamDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::affine::AffineDialect, mlir::arith::ArithDialect,
                  mlir::cf::ControlFlowDialect, mlir::linalg::LinalgDialect,
                  mlir::math::MathDialect, mlir::scf::SCFDialect,
                  mlir::shard::ShardDialect, mlir::tensor::TensorDialect,
                  mlir::tosa::TosaDialect>();
  registerUpstreamModels(registry);
}

void kerf::registerPasses() {
  mlir::registerTransformsPasses();
  registerFailPass();
  registerVerifyIR();
  registerKerfImportPasses();
  registerEmbeddedPasses();
  registerKerfLowerPasses();
  registerKerfPipelinesPasses();
  mlir::PassPipelineRegistration<>(
      "kerf-prepare", "Local tensor functions as lowering wants them",
      [](mlir::OpPassManager &passes) { buildPreparePipeline(passes); });
  mlir::PassPipelineRegistration<>(
      "kerf-form-groups",
      "What is computed together, in which order, and where to",
      [](mlir::OpPassManager &passes) { buildFormGroupsPipeline(passes); });
  mlir::PassPipelineRegistration<>(
      "kerf-lower", "The lower phase: local tensor functions become exec",
      [](mlir::OpPassManager &passes) { buildLowerPipeline(passes); });
}
