//===- MergeUpdateViews.cpp - views that updates read, once ---------------===//
//
// SinkShapeOps.cpp copied shape ops for each of their users. A parameter's part
// of a bucket of gradients is a view, of which this pass keeps one. O(ops).
//
//===----------------------------------------------------------------------===//
#include "../OpKinds.h"

#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"

namespace kerf {
#define GEN_PASS_DEF_MERGEUPDATEVIEWS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

static void mergeViews(Block &block) {
  DenseMap<std::tuple<Value, Attribute, Type>, Operation *> known;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto slice = dyn_cast<nn::SliceOp>(op);
    if (!slice || op.use_empty() || !isAlias(slice) || !isReadByUpdate(slice))
      continue;
    auto [it, added] = known.try_emplace(
        {slice.getX(), op.getAttrDictionary(), slice.getType()}, slice);
    if (added)
      continue;
    op.replaceAllUsesWith(it->second);
    op.erase();
  }
}

namespace {
struct MergeUpdateViews : kerf::impl::MergeUpdateViewsBase<MergeUpdateViews> {
  void runOnOperation() override {
    FailureOr<Block *> block = blockOf(getOperation());
    if (failed(block))
      return signalPassFailure();
    if (*block)
      mergeViews(**block);
  }
};
} // namespace
