//===- FormReduceScatter.cpp - an all-reduce of which a part is kept ------===//
//
// A reshard from one layout to one other already takes the cheapest way. This
// pass finds values that were reduced whole for a use that is gone, or by
// several reshards in a row. Bytes: 2(N-1)S becomes (N-1)S.
//
//===----------------------------------------------------------------------===//
#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"

namespace kerf {
#define GEN_PASS_DEF_FORMREDUCESCATTER
#include "kerf/Collectives/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

struct FormReduceScatter
    : kerf::impl::FormReduceScatterBase<FormReduceScatter> {
  void runOnOperation() override {
    MeshAttr attribute = getMesh(getOperation());
    if (!attribute)
      return;
    mesh = attribute.toMesh();
    SmallVector<AllReduceOp> reductions;
    getOperation().walk([&](AllReduceOp op) { reductions.push_back(op); });
    for (AllReduceOp op : reductions)
      rewrite(op);
  }

private:
  void rewrite(AllReduceOp reduce) {
    if (reduce.isStarted() || reduce->use_empty())
      return;
    auto slice = dyn_cast<AllSliceOp>(*reduce->user_begin());
    if (!slice)
      return;
    for (Operation *user : reduce->getUsers()) {
      auto other = dyn_cast<AllSliceOp>(user);
      if (!other || other.getAxes() != slice.getAxes() ||
          other.getDim() != slice.getDim())
        return;
    }
    // The slice's axes must be among the reduced ones; the rest stays.
    AxisList cut = llvm::cantFail(toAxisList(slice.getAxes(), mesh));
    AxisList rest;
    for (const AxisRef &ref :
         llvm::cantFail(toAxisList(reduce.getAxes(), mesh))) {
      bool isCut = llvm::is_contained(cut, ref);
      if (!isCut && llvm::any_of(cut, [&](const AxisRef &other) {
            return overlap(ref, other);
          }))
        return; // a sub-axis: rare, and the all-reduce is correct too
      if (!isCut)
        rest.push_back(ref);
    }
    AxisList all = llvm::cantFail(toAxisList(reduce.getAxes(), mesh));
    if (all.size() != rest.size() + cut.size())
      return;

    // Padding can eat the gain: 2 elements over 8 ranks travel as 8.
    int64_t n = numShards(cut), m = numShards(rest), numRanks = n * m;
    int64_t whole = sizeBytes(cast<RankedTensorType>(reduce.getX().getType()));
    int64_t part = sizeBytes(cast<RankedTensorType>(slice.getType()));
    if (numRanks * (n - 1) * part + 2 * n * (m - 1) * part >=
        2 * (numRanks - 1) * whole)
      return;

    OpBuilder builder(reduce);
    Value value = ReduceScatterOp::create(
        builder, reduce.getLoc(), slice.getType(), reduce.getX(),
        reduce.getReductionAttr(), slice.getAxes(), slice.getDim(),
        reduce.getPurposeAttr(), reduce.getPhaseAttr());
    if (!rest.empty())
      value = AllReduceOp::create(
          builder, reduce.getLoc(), slice.getType(), value,
          reduce.getReductionAttr(), toAxesAttr(&getContext(), rest, mesh),
          reduce.getPurposeAttr(), reduce.getPhaseAttr());
    for (Operation *user : llvm::make_early_inc_range(reduce->getUsers())) {
      user->getResult(0).replaceAllUsesWith(value);
      user->erase();
    }
    reduce.erase();
  }

  Mesh mesh;
};

} // namespace
