//===- FailPass.cpp - a pass that fails, for tests ------------------------===//
#include "kerf/Pipelines/FailPass.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace {

struct FailPass : PassWrapper<FailPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FailPass)

  StringRef getArgument() const override { return "test-fail"; }
  StringRef getDescription() const override {
    return "Fails, to test what failing passes lead to";
  }
  void runOnOperation() override {
    getOperation().emitError("the pass test-fail fails");
    signalPassFailure();
  }
};

} // namespace

std::unique_ptr<Pass> kerf::createFailPass() {
  return std::make_unique<FailPass>();
}

void kerf::registerFailPass() { PassRegistration<FailPass>(); }
