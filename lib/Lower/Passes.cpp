//===- Passes.cpp - the lower phase as passes -----------------------------===//
#include "kerf/Lower/Passes.h"

#include "kerf/Lower/Lower.h"

namespace kerf {
#define GEN_PASS_DEF_LOWERTOEXEC
#define GEN_PASS_DEF_PLANARENAS
#define GEN_PASS_DEF_VERIFYAFTERLOWER
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
struct LowerToExec : kerf::impl::LowerToExecBase<LowerToExec> {
  void runOnOperation() override {
    if (failed(lowerToExec(getOperation())))
      signalPassFailure();
  }
};

struct PlanArenas : kerf::impl::PlanArenasBase<PlanArenas> {
  void runOnOperation() override {
    if (failed(planArenas(getOperation())))
      signalPassFailure();
  }
};

struct VerifyAfterLower : kerf::impl::VerifyAfterLowerBase<VerifyAfterLower> {
  void runOnOperation() override {
    if (failed(verifyLowered(getOperation())))
      signalPassFailure();
  }
};
} // namespace

void kerf::buildLowerPipeline(OpPassManager &passes) {
  passes.addPass(createLowerToExec());
  passes.addPass(createPlanArenas());
  passes.addPass(createVerifyAfterLower());
}
