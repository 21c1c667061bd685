//===- SimplifyCollectives.cpp - collectives that need not be -------------===//
//
// One walk in program order, so that a rewrite is seen by the ops behind it;
// then dead ops are erased bottom-up. Linear, with a hash table of the ops
// seen. All ranks of a stage run the same code, so an op is removed on all of
// them.
//
//===----------------------------------------------------------------------===//
#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/SameComputation.h"

#include "llvm/ADT/DenseSet.h"

namespace kerf {
#define GEN_PASS_DEF_SIMPLIFYCOLLECTIVES
#include "kerf/Collectives/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

bool isMovement(Operation *op) {
  return isa<CollectiveOpInterface, AllSliceOp, MaskOp, ShardIndexOp>(op);
}

struct SimplifyCollectives
    : kerf::impl::SimplifyCollectivesBase<SimplifyCollectives> {
  void runOnOperation() override {
    MeshAttr attribute = getMesh(getOperation());
    if (!attribute || getOperation().isExternal())
      return;
    mesh = attribute.toMesh();
    Block &block = getOperation().getBody().front();
    llvm::DenseSet<Operation *, SameComputation> seen;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (!isMovement(&op))
        continue;
      Value replacement = simplify(&op);
      if (!replacement) {
        auto [it, added] = seen.insert(&op);
        if (added)
          continue;
        replacement = (*it)->getResult(0);
      }
      op.getResult(0).replaceAllUsesWith(replacement);
      op.erase();
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isMovement(&op) && op.use_empty())
        op.erase();
  }

private:
  int64_t groupSize(AxesAttr axes) {
    return numShards(llvm::cantFail(toAxisList(axes, mesh)));
  }

  /// The value that the op's result equals; null if it must stay.
  Value simplify(Operation *op) {
    if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
      if (collective.isStarted())
        return {};
      if (groupSize(collective.getGroup()) == 1)
        return op->getOperand(0);
      if (auto permute = dyn_cast<PermuteOp>(op))
        if (staysInPlace(permute))
          return permute.getX();
      return {};
    }
    auto slice = dyn_cast<AllSliceOp>(op);
    if (!slice)
      return {};
    if (groupSize(slice.getAxes()) == 1)
      return slice.getX();
    auto gather = slice.getX().getDefiningOp<AllGatherOp>();
    if (gather && !gather.isStarted() && gather.getAxes() == slice.getAxes() &&
        gather.getDim() == slice.getDim() &&
        gather.getX().getType() == slice.getType())
      return gather.getX();
    return {};
  }

  bool staysInPlace(PermuteOp permute) {
    ArrayRef<int64_t> pairs = permute.getPairs();
    for (size_t i = 0; i < pairs.size(); i += 2)
      if (pairs[i] != pairs[i + 1])
        return false;
    return static_cast<int64_t>(pairs.size()) ==
           2 * groupSize(permute.getAxes());
  }

  Mesh mesh;
};

} // namespace
