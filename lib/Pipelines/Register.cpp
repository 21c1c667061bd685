//===- Register.cpp - all of Kerf's dialects and passes -------------------===//
#include "kerf/Pipelines/Register.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/NN/NN.h"
#include "kerf/Plan/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Passes.h"

void kerf::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::func::FuncDialect, nn::NNDialect, dist::DistDialect,
                  exec::ExecDialect>();
}

void kerf::registerPasses() {
  mlir::registerTransformsPasses();
  plan::registerKerfPlanPasses();
}
