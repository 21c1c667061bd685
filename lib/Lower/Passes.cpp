//===- Passes.cpp - the lower phase as passes -----------------------------===//
#include "kerf/Lower/Passes.h"

#include "kerf/Dist/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace kerf;

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
  functions.addPass(createDropTransferCasts());
  functions.addPass(dist::createMergeEqualOps());
  functions.addPass(createEraseDeadOps());
  functions.addPass(createStoreAttentionTransposed());
  functions.addPass(createStoreSlicesTogether());
  functions.addPass(createSplitReductions());
  functions.addPass(createSinkShapeOps());
}

void kerf::buildFormGroupsPipeline(OpPassManager &passes) {
  OpPassManager &functions = passes.nest<func::FuncOp>();
  functions.addPass(createMarkAtLoad());
  functions.addPass(createMergeUpdateViews());
  functions.addPass(createSelectLibraryCalls());
  functions.addPass(createJoinParts());
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
  passes.addPass(createOutlineLoops());
  buildPreparePipeline(passes);
  buildFormGroupsPipeline(passes);
  passes.addPass(createBufferize());
  passes.addPass(createWorkInPlace());
  passes.addPass(createPlanArenas());
  passes.addPass(createVerifyAfterLower());
}
