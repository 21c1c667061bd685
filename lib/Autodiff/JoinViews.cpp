//===- JoinViews.cpp - views of a weight that overlap become slices -------===//
//
// Problem: import makes a slice of a weight a source of its own, a view, so
// that fused projections can be cut each for itself. A training step writes
// every source that it trains; of two views with an element in common (the
// first 12 and the first 9 rows of a table of positions) each would write it,
// and neither gradient would be all of it.
//
// Idea: such views become slices of one source, the smallest view that holds
// them; the gradients of slices add up. What that view overlaps joins it, until
// no two overlap. Quadratic in the views of one weight.
//
//===----------------------------------------------------------------------===//
#include "Step.h"

#include "kerf/Support/TensorTypes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

namespace {
/// Views of one weight, and the box of its elements that holds them.
struct Box {
  SmallVector<nn::WeightOp> views;
  SmallVector<int64_t> begin, end;

  explicit Box(nn::WeightOp view) : views{view} {
    for (auto [dim, size] : llvm::enumerate(shapeOf(view.getResult()))) {
      begin.push_back(view.getStarts() ? (*view.getStarts())[dim] : 0);
      end.push_back(begin.back() + size);
    }
  }
  bool overlaps(const Box &other) const {
    for (size_t dim = 0; dim < begin.size(); ++dim)
      if (end[dim] <= other.begin[dim] || other.end[dim] <= begin[dim])
        return false;
    return true;
  }
  void join(const Box &other) {
    views.append(other.views);
    for (size_t dim = 0; dim < begin.size(); ++dim) {
      begin[dim] = std::min(begin[dim], other.begin[dim]);
      end[dim] = std::max(end[dim], other.end[dim]);
    }
  }
};
} // namespace

static void replaceBySlices(OpBuilder &builder, const Box &box) {
  OpBuilder::InsertionGuard guard(builder);
  nn::WeightOp first = box.views.front();
  for (nn::WeightOp view : box.views)
    if (view->isBeforeInBlock(first))
      first = view;
  SmallVector<int64_t> shape;
  for (auto [begin, end] : llvm::zip_equal(box.begin, box.end))
    shape.push_back(end - begin);
  auto stored = cast<RankedTensorType>(first.getStored());
  builder.setInsertionPoint(first);
  auto whole = nn::WeightOp::create(
      builder, first.getLoc(), stored.clone(shape), first.getNameAttr(),
      first.getFileAttr(), first.getOffsetAttr(), first.getLengthAttr(),
      first.getStoredAttr(),
      ArrayRef(shape) == stored.getShape()
          ? DenseI64ArrayAttr()
          : builder.getDenseI64ArrayAttr(box.begin));
  whole->setDiscardableAttrs(first->getDiscardableAttrDictionary());
  for (nn::WeightOp view : box.views) {
    if (view.getInfinite())
      whole.setInfinite(true);
    SmallVector<int64_t> starts(Box(view).begin), strides(shape.size(), 1);
    for (auto [start, begin] : llvm::zip_equal(starts, box.begin))
      start -= begin;
    builder.setInsertionPoint(view);
    view.replaceAllUsesWith(
        nn::SliceOp::create(builder, view.getLoc(), view.getType(), whole,
                            starts, shapeOf(view.getResult()), strides)
            .getResult());
    view.erase();
  }
}

void Step::joinViews() {
  llvm::DenseSet<Value> reached = reachedFromLoss();
  llvm::MapVector<StringAttr, SmallVector<Box>> boxes;
  for (auto weight : body().getOps<nn::WeightOp>())
    if (reached.contains(weight.getResult()))
      boxes[weight.getNameAttr()].push_back(Box(weight));
  for (auto &[name, all] : boxes)
    for (size_t at = 0; at < all.size();) {
      auto other = std::find_if(
          all.begin(), all.begin() + ptrdiff_t(at),
          [&](const Box &earlier) { return earlier.overlaps(all[at]); });
      if (other == all.begin() + ptrdiff_t(at)) {
        ++at;
        continue;
      }
      // A larger box may overlap others: all are looked at again.
      other->join(all[at]);
      all.erase(all.begin() + ptrdiff_t(at));
      at = 0;
    }
  for (auto &[name, all] : boxes)
    for (const Box &box : all)
      if (box.views.size() > 1)
        replaceBySlices(ops, box);
}
