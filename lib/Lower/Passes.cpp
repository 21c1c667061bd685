//===- Passes.cpp - the lower phase as passes -----------------------------===//
#include "kerf/Lower/Passes.h"

#include "kerf/Dist/Passes.h"
#include "kerf/Lower/Lower.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {
#define GEN_PASS_DEF_BUFFERIZE
#define GEN_PASS_DEF_PLANARENAS
#define GEN_PASS_DEF_VERIFYAFTERLOWER
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
struct Bufferize : kerf::impl::BufferizeBase<Bufferize> {
  void runOnOperation() override {
    if (failed(bufferize(getOperation())))
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

void kerf::buildPreparePipeline(OpPassManager &passes) {
  OpPassManager &functions = passes.nest<func::FuncOp>();
  functions.addPass(createUnifyMutableSources());
  functions.addPass(createExpandAccumulate());
  functions.addPass(createDropPlanAttributes());
  functions.addPass(createExpandOptimizerUpdates());
  functions.addPass(createCancelCasts());
  functions.addPass(createExpandRankOps());
  functions.addPass(createFoldSplats());
  functions.addPass(createFoldBatchNorm());
  functions.addPass(createWidenProducts());
  functions.addPass(createMoveScale());
  functions.addPass(createNarrowStorage());
  functions.addPass(createCancelCasts());
  functions.addPass(createPadProducts());
  functions.addPass(createDropRoundingMarks());
  functions.addPass(dist::createMergeEqualOps());
  functions.addPass(createEraseDeadOps());
  functions.addPass(createStoreAttentionTransposed());
  functions.addPass(createSplitReductions());
  functions.addPass(createSinkShapeOps());
}

void kerf::buildFormGroupsPipeline(OpPassManager &passes) {
  OpPassManager &functions = passes.nest<func::FuncOp>();
  functions.addPass(createMarkAtLoad());
  functions.addPass(createMergeUpdateViews());
  functions.addPass(createSelectLibraryCalls());
  functions.addPass(createFormKernels());
  functions.addPass(createWriteInPlace());
  functions.addPass(createOfferBiasGradients());
  passes.addPass(createOrderGroups());
  passes.addNestedPass<func::FuncOp>(createOfferReluGradients());
}

void kerf::buildLowerPipeline(OpPassManager &passes, exec::Device device) {
  if (device != exec::Device::Cpu) {
    SetTargetOptions target;
    target.device = device;
    passes.addPass(createSetTarget(target));
  }
  buildPreparePipeline(passes);
  buildFormGroupsPipeline(passes);
  passes.addPass(createBufferize());
  passes.addPass(createPlanArenas());
  passes.addPass(createVerifyAfterLower());
}
