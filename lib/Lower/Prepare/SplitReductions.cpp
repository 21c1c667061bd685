//===- SplitReductions.cpp - long sums for many threads -------------------===//
//
// A long reduction over leading dimensions to few elements (the statistics of
// BatchNorm, norms of gradients) becomes two: one over parts, which several
// threads compute, and one over their results. The parts depend only on the
// shape and the kind of device, so the result does not depend on the number of
// threads. Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "kerf/Dist/ReplacingBuilder.h"

namespace kerf {
#define GEN_PASS_DEF_SPLITREDUCTIONS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// On a GPU blocks of 32 columns are shared by the threads of
/// one multiprocessor: as many parts as keep all of them busy, if each has
/// something to add up.
static int64_t numPartsForBlocks(int64_t count, int64_t columns) {
  constexpr int64_t wanted = 264 * 32, min = 1 << 16, shortest = 32;
  if (columns >= wanted || count * columns < min)
    return 1;
  int64_t target =
      std::min<int64_t>(llvm::divideCeil(wanted, columns), count / shortest);
  // A single column is a row of parts, each of which fills a block.
  if (columns == 1)
    target = std::min<int64_t>(target, 1024);
  for (int64_t parts = target; parts <= 4 * target && parts * 8 <= count;
       ++parts)
    if (parts > 1 && count % parts == 0)
      return parts;
  for (int64_t parts = target; parts >= 8; --parts)
    if (count % parts == 0)
      return parts;
  return 1;
}

/// Into how many parts `count` elements of `columns` columns are cut; 1: none.
static int64_t numPartsForTasks(int64_t count, int64_t columns) {
  constexpr int64_t columnsOfATask = 64, tasks = 8, min = 1 << 17;
  if (columns >= tasks * columnsOfATask || count * columns < min)
    return 1;
  for (int64_t parts = 64; parts >= tasks; --parts)
    if (count % parts == 0)
      return parts;
  return 1;
}

static void split(nn::ReduceOp reduce, exec::TargetAttr target) {
  RankedTensorType from = typeOf(reduce.getX()), to = reduce.getType();
  bool leading = isa<FloatType>(from.getElementType());
  for (auto [i, dim] : llvm::enumerate(reduce.getDims()))
    leading &= dim == static_cast<int64_t>(i);
  if (!leading || to.getNumElements() == 0)
    return;
  int64_t columns = to.getNumElements();
  int64_t count = from.getNumElements() / columns;
  int64_t parts = target.getSumsByBlock() ? numPartsForBlocks(count, columns)
                                          : numPartsForTasks(count, columns);
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
