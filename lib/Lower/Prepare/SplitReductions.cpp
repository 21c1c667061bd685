//===- SplitReductions.cpp - long sums for many threads -------------------===//
//
// A long reduction over leading dimensions to few elements (the statistics of
// BatchNorm, norms of gradients) becomes two: one over parts, which several
// threads compute, and one over their results (kerf/Fusion/Reductions.h). The
// parts depend only on the shape and the kind of device. Linear in the number
// of ops.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "kerf/Dist/ReplacingBuilder.h"
#include "kerf/Fusion/Reductions.h"
#include "kerf/Support/Preconditions.h"

namespace kerf {
#define GEN_PASS_DEF_SPLITREDUCTIONS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

static void split(nn::ReduceOp reduce, exec::TargetAttr target) {
  RankedTensorType from = typeOf(reduce.getX()), to = reduce.getType();
  if (to.getNumElements() == 0 ||
      !holds(reduce, Precondition::FoldsLeading, foldsLeadingDims(reduce)))
    return;
  int64_t columns = to.getNumElements();
  int64_t count = from.getNumElements() / columns;
  int64_t parts = numPartsOfSum(count, columns, target.getSumsByBlock());
  if (parts == 1)
    return;
  dist::ReplacingBuilder builder(reduce);
  Location loc = reduce.getLoc();
  auto type = [&](ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, from.getElementType());
  };
  auto reduceDim = [&](Value x, int64_t dim, RankedTensorType result) {
    return nn::ReduceOp::create(builder, loc, result, x, reduce.getKindAttr(),
                                builder.getDenseI64ArrayAttr({dim}));
  };
  Value x = nn::ReshapeOp::create(
      builder, loc, type({parts, count / parts, columns}), reduce.getX());
  x = reduceDim(x, 1, type({parts, columns}));
  x = reduceDim(x, 0, type({columns}));
  if (x.getType() != to)
    x = nn::ReshapeOp::create(builder, loc, to, x);
  reduce.getResult().replaceAllUsesWith(x);
  reduce.erase();
}

namespace {
struct SplitReductions : kerf::impl::SplitReductionsBase<SplitReductions> {
  void runOnOperation() override {
    auto target = exec::TargetAttr::of(getOperation());
    SmallVector<nn::ReduceOp> reductions;
    forEachOp(getOperation(), [&](Operation *op) {
      if (auto reduce = dyn_cast<nn::ReduceOp>(op))
        reductions.push_back(reduce);
    });
    for (nn::ReduceOp reduce : reductions)
      split(reduce, target);
  }
};
} // namespace
