//===- JoinViews.cpp - views of a weight that overlap become slices -------===//
//
// Problem: import makes a slice of a weight a source of its own, a view, so
// that each of several fused projections can be cut in its own way. A training
// step writes every source that it trains. If two views have an element in
// common (the first 12 and the first 9 rows of a table of positions), both
// would write it, each with only its own share of the gradient.
//
// Idea: such views become slices of one source, the smallest view that contains
// both, and gradients of slices of one source are added up. Views that overlap
// this one are merged with it in turn, until no two overlap. Quadratic in the
// views of one weight.
//
// Import also makes the reshape of a weight a source. Views of two shapes are
// compared by the elements in between, and become slices of the whole weight,
// reshaped.
//
//===----------------------------------------------------------------------===//
#include "Step.h"

#include "kerf/Support/TensorTypes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

namespace {
/// Views of one weight, and the smallest box that contains their elements, in
/// the dimensions of the weight as it is stored.
struct Box {
  SmallVector<nn::WeightOp> views;
  RankedTensorType stored;
  SmallVector<int64_t> begin, end;

  explicit Box(nn::WeightOp view)
      : views{view}, stored(cast<RankedTensorType>(view.getStored())) {
    for (auto [dim, size] : llvm::enumerate(shapeOf(view.getResult()))) {
      begin.push_back(view.getStarts() ? (*view.getStarts())[dim] : 0);
      end.push_back(begin.back() + size);
    }
  }
  /// Numbers of the first element and the last in the order they are stored in.
  std::pair<int64_t, int64_t> firstAndLast() const {
    int64_t first = 0, last = 0;
    for (auto [dim, size] : llvm::enumerate(stored.getShape())) {
      first = first * size + begin[dim];
      last = last * size + end[dim] - 1;
    }
    return {first, last};
  }
  bool overlaps(const Box &other) const {
    if (stored != other.stored) {
      auto [first, last] = firstAndLast();
      auto [otherFirst, otherLast] = other.firstAndLast();
      return first <= otherLast && otherFirst <= last;
    }
    for (size_t dim = 0; dim < begin.size(); ++dim)
      if (end[dim] <= other.begin[dim] || other.end[dim] <= begin[dim])
        return false;
    return true;
  }
  void join(const Box &other) {
    views.append(other.views);
    if (stored != other.stored) {
      begin.assign(begin.size(), 0);
      end = SmallVector<int64_t>(stored.getShape());
      return;
    }
    for (size_t dim = 0; dim < begin.size(); ++dim) {
      begin[dim] = std::min(begin[dim], other.begin[dim]);
      end[dim] = std::max(end[dim], other.end[dim]);
    }
  }
};
} // namespace

/// `whole` holds the elements of `view`'s stored tensor from `begin` on.
static void replaceBySlice(OpBuilder &builder, nn::WeightOp view, Value whole,
                           ArrayRef<int64_t> begin) {
  builder.setInsertionPoint(view);
  SmallVector<int64_t> starts(Box(view).begin), strides(starts.size(), 1);
  for (auto [start, first] : llvm::zip_equal(starts, begin))
    start -= first;
  if (whole.getType() != view.getType())
    whole = nn::SliceOp::create(builder, view.getLoc(), view.getType(), whole,
                                starts, shapeOf(view.getResult()), strides);
  view.replaceAllUsesWith(whole);
  view.erase();
}

static void replaceBySlices(OpBuilder &builder, const Box &box) {
  OpBuilder::InsertionGuard guard(builder);
  nn::WeightOp first = box.views.front();
  for (nn::WeightOp view : box.views)
    if (view->isBeforeInBlock(first))
      first = view;
  SmallVector<int64_t> shape;
  for (auto [begin, end] : llvm::zip_equal(box.begin, box.end))
    shape.push_back(end - begin);
  builder.setInsertionPoint(first);
  auto whole = nn::WeightOp::create(
      builder, first.getLoc(), box.stored.clone(shape), first.getNameAttr(),
      first.getFileAttr(), first.getOffsetAttr(), first.getLengthAttr(),
      TypeAttr::get(box.stored),
      ArrayRef(shape) == box.stored.getShape()
          ? DenseI64ArrayAttr()
          : builder.getDenseI64ArrayAttr(box.begin));
  whole->setDiscardableAttrs(first->getDiscardableAttrDictionary());
  for (nn::WeightOp view : box.views) {
    if (view.getInfinite())
      whole.setInfinite(true);
    auto stored = cast<RankedTensorType>(view.getStored());
    if (stored == box.stored) {
      replaceBySlice(builder, view, whole, box.begin);
      continue;
    }
    // The box is the whole weight: shapes differ.
    builder.setInsertionPoint(view);
    replaceBySlice(builder, view,
                   nn::ReshapeOp::create(builder, view.getLoc(), stored, whole),
                   SmallVector<int64_t>(size_t(stored.getRank()), 0));
  }
}

void Step::joinViews() {
  llvm::DenseSet<Value> reached = reachedFromLoss(/*byGradients=*/true);
  llvm::MapVector<StringAttr, SmallVector<Box>> boxes;
  for (auto weight : body().getOps<nn::WeightOp>())
    if (reached.contains(weight.getResult()))
      boxes[weight.getNameAttr()].push_back(Box(weight));
  for (auto &[name, all] : boxes)
    for (size_t at = 0; at < all.size();) {
      const Box &box = all[at];
      auto other = std::find_if(
          all.begin(), all.begin() + ptrdiff_t(at),
          [&box](const Box &earlier) { return earlier.overlaps(box); });
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
