//===- BucketCollectives.cpp - several small all-reduces at once ----------===//
//
// One scan in program order. A bucket is open until something uses the result
// of a member; what is in it then is reduced there, in one buffer. A member
// never depends on another: that would be such a use. Linear in the uses.
//
//===----------------------------------------------------------------------===//
#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"

#include "llvm/ADT/MapVector.h"

namespace kerf {
#define GEN_PASS_DEF_BUCKETCOLLECTIVES
#include "kerf/Collectives/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

struct BucketCollectives
    : kerf::impl::BucketCollectivesBase<BucketCollectives> {
  using BucketCollectivesBase::BucketCollectivesBase;

  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    for (Operation &op :
         llvm::make_early_inc_range(getOperation().getBody().front())) {
      for (Value operand : op.getOperands())
        if (auto found = keyOf.find(operand.getDefiningOp());
            found != keyOf.end())
          flush(found->second, &op);
      auto reduce = dyn_cast<AllReduceOp>(op);
      if (!reduce || reduce.isStarted() || reduce->use_empty() ||
          sizeBytes(reduce.getSourceType()) > maxBytes)
        continue;
      Key key = {reduce.getReductionAttr(), reduce.getAxes(),
                 TypeAttr::get(reduce.getSourceType().getElementType()),
                 reduce.getPurposeAttr(), reduce.getPhaseAttr()};
      keyOf[&op] = key;
      buckets[key].push_back(reduce);
    }
    keyOf.clear();
    buckets.clear();
  }

private:
  /// Reduction, axes, element type, purpose, phase: what members share.
  using Key = std::tuple<Attribute, Attribute, Attribute, Attribute, Attribute>;

  void flush(Key key, Operation *before) {
    SmallVector<AllReduceOp> members = std::move(buckets[key]);
    buckets[key].clear();
    for (AllReduceOp member : members)
      keyOf.erase(member);
    if (members.size() < 2)
      return;
    OpBuilder builder(before);
    Location loc = members.front().getLoc();
    SmallVector<Value> sources;
    SmallVector<Type> types;
    int64_t elements = 0;
    for (AllReduceOp member : members) {
      sources.push_back(member.getX());
      types.push_back(member.getType());
      elements += member.getSourceType().getNumElements();
    }
    auto buffer = RankedTensorType::get(
        {elements}, members.front().getSourceType().getElementType());
    Value packed = PackOp::create(builder, loc, buffer, sources);
    Value reduced = AllReduceOp::create(
        builder, loc, buffer, packed, members.front().getReductionAttr(),
        members.front().getAxes(), members.front().getPurposeAttr(),
        members.front().getPhaseAttr());
    auto unpacked = UnpackOp::create(builder, loc, types, reduced);
    for (auto [member, result] : llvm::zip(members, unpacked.getOutputs())) {
      member.getResult().replaceAllUsesWith(result);
      member.erase();
    }
  }

  llvm::DenseMap<Operation *, Key> keyOf;
  llvm::DenseMap<Key, SmallVector<AllReduceOp>> buckets;
};

} // namespace
