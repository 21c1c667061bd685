//===- VerifyIR.cpp - the verifier as a pass ------------------------------===//
#include "kerf/Pipelines/VerifyIR.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace {

struct VerifyIR : PassWrapper<VerifyIR, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyIR)

  StringRef getArgument() const override { return "verify-ir"; }
  StringRef getDescription() const override {
    return "Runs the verifiers of all operations";
  }
  void runOnOperation() override {
    if (failed(verify(getOperation())))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace

std::unique_ptr<Pass> kerf::createVerifyIR() {
  return std::make_unique<VerifyIR>();
}

void kerf::registerVerifyIR() { PassRegistration<VerifyIR>(); }
