//===- MarkAtLoad.cpp - marks ops that depend on parameters alone ---------===//
//
// Ops that depend on parameters alone get the attribute exec.at_load: they are
// computed once, before the first step, by kernels: what only calls compute is
// none of them. A shape op that another op reads is left to its reader, which
// computes it inside. O(ops).
//
//===----------------------------------------------------------------------===//
#include "../Library/Strides.h"
#include "../OpKinds.h"
#include "../Parameters.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Fusion/Groups.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {
#define GEN_PASS_DEF_MARKATLOAD
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Whether the index is the same in every micro-batch.
static bool isOfDevice(dist::ShardIndexOp index) {
  dist::Mesh mesh = dist::getMesh(index).toMesh();
  auto axes = dist::toAxisList(index.getAxes(), mesh);
  if (!axes) {
    llvm::consumeError(axes.takeError());
    return false;
  }
  return llvm::all_of(*axes, [&](const dist::AxisRef &axis) {
    return !mesh.axes[axis.axis].isTime;
  });
}

static void markAtLoad(Block &block) {
  auto isConstant = [](Operation *op) {
    if (auto index = dyn_cast<dist::ShardIndexOp>(op))
      return isOfDevice(index);
    auto costed = dyn_cast<OpCostInterface>(op);
    return isa<nn::NNDialect>(op->getDialect()) && !isMutableSource(op) &&
           !(costed && isLibraryCall(costed.getLibraryWork()) &&
             costed.getLibraryWork() != LibraryWork::Product);
  };
  DenseSet<Operation *> atLoad = findAtLoad(block, isConstant, isShapeOp);
  for (Operation &op : block.without_terminator()) {
    if (isa<SourceOpInterface>(op))
      continue;
    if (atLoad.contains(&op))
      op.setAttr(exec::kAtLoad, UnitAttr::get(op.getContext()));
    else
      op.removeAttr(exec::kAtLoad);
  }
}

namespace {
struct MarkAtLoad : kerf::impl::MarkAtLoadBase<MarkAtLoad> {
  void runOnOperation() override {
    FailureOr<Block *> block = blockOf(getOperation());
    if (failed(block))
      return signalPassFailure();
    if (*block)
      markAtLoad(**block);
  }
};
} // namespace
