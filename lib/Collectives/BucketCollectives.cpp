//===- BucketCollectives.cpp - several small all-reduces at once ----------===//
//
// One scan in program order. A bucket is open until something uses the result
// of a member; its members are then reduced there, in one buffer. A member
// never depends on another, since that would be such a use. Buckets of
// gradients are closed as soon as they are large enough. Linear in the uses.
//
// A backward pass makes gradients from the last layer to the first; in
// convolutional nets the large ones (fully connected layers) come first. Large
// gradients are sent alone and at once, while the backward pass goes on; only
// gradients too small to be worth their latency are copied into a common
// buffer (cost::BucketRule, which planning asks, too).
//
//===----------------------------------------------------------------------===//
#include "kerf/Collectives/Passes.h"
#include "kerf/Cost/Buckets.h"
#include "kerf/Dist/ReplacingBuilder.h"
#include "kerf/Interfaces/TransferCast.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
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
    for (auto [name, value] :
         {std::pair("max-bytes", int64_t(maxBytes)),
          std::pair("gradient-bytes", int64_t(gradientBytes)),
          std::pair("packed-bytes", int64_t(packedBytes))})
      if (value < 0) {
        emitError(getOperation().getLoc(), name)
            << ": " << value << ", expected at least 0";
        return signalPassFailure();
      }
    if (getOperation().isExternal())
      return;
    Block &block = getOperation().getBody().front();
    if (gradientBytes > 0)
      reduceEarly(block);
    for (Operation &op : llvm::make_early_inc_range(block)) {
      for (Value operand : op.getOperands())
        if (auto found = keyOf.find(operand.getDefiningOp());
            found != keyOf.end())
          flush(found->second, &op);
      auto reduce = dyn_cast<AllReduceOp>(op);
      if (!reduce || !isMember(reduce))
        continue;
      Key key = keyFor(reduce);
      keyOf[&op] = key;
      Bucket &bucket = buckets[key];
      bucket.members.push_back(reduce);
      bucket.bytes += sizeBytes(reduce.getSourceType());
      // Close a full bucket, and one that no other gradient can join.
      if (isGradient(reduce) &&
          (--comingGradients[key] == 0 || bucket.bytes >= gradientBytes ||
           bucket.members.size() == maxMembers))
        flush(key, op.getNextNode());
    }
    keyOf.clear();
    buckets.clear();
    comingGradients.clear();
  }

private:
  /// A limit: more members would save little latency and cost compile time,
  /// since packing is one kernel and kernels of equal layers should be equal.
  static constexpr size_t maxMembers = 64;

  /// Reduction, axes, element type, purpose, phase: what members share.
  using Key = std::tuple<Attribute, Attribute, Attribute, Attribute, Attribute>;
  struct Bucket {
    SmallVector<AllReduceOp> members;
    int64_t bytes = 0;
  };

  static Key keyFor(AllReduceOp reduce) {
    return {reduce.getReductionAttr(), reduce.getAxes(),
            TypeAttr::get(reduce.getSourceType().getElementType()),
            reduce.getPurposeAttr(), reduce.getPhaseAttr()};
  }
  bool isGradient(AllReduceOp reduce) {
    return gradientBytes > 0 && reduce.getPurpose() == Purpose::Gradient;
  }
  bool isMember(AllReduceOp reduce) {
    if (reduce.isStarted() || reduce->use_empty())
      return false;
    int64_t bytes = sizeBytes(reduce.getSourceType());
    if (isGradient(reduce))
      return cost::BucketRule{gradientBytes, packedBytes}.joins(
          CollectiveKind::AllReduce, bytes);
    return bytes <= maxBytes;
  }

  static void moveBehindSource(Operation *op) {
    if (Operation *source = op->getOperand(0).getDefiningOp())
      op->moveAfter(source);
    else
      op->moveBefore(op->getBlock(), op->getBlock()->begin());
  }

  /// Moves the cast of a reduced gradient to its use: at the reduction it would
  /// wait for the result and close the bucket.
  static void sinkUsers(Operation *op) {
    for (Operation *user : llvm::make_early_inc_range(op->getUsers())) {
      if (user->getNumOperands() != 1 || user->getNumResults() != 1 ||
          user->getBlock() != op->getBlock() || !isPure(user))
        continue;
      Operation *first = nullptr;
      for (Operation *next : user->getUsers())
        if (Operation *own = op->getBlock()->findAncestorOpInBlock(*next))
          if (!first || own->isBeforeInBlock(first))
            first = own;
      if (first)
        user->moveBefore(first);
    }
  }

  /// Moves the reduction of every gradient to where it is made, or cast for
  /// sending; counts those that will join a bucket.
  void reduceEarly(Block &block) {
    SmallVector<Operation *> gradients;
    for (auto collective : block.getOps<CollectiveOpInterface>())
      if (collective.getPurposeOrDefault() == Purpose::Gradient)
        gradients.push_back(collective);
    // In reverse, so that gradients of one source (or argument) keep their
    // order.
    for (Operation *op : llvm::reverse(gradients)) {
      moveBehindSource(op);
      Operation *narrowed = op->getOperand(0).getDefiningOp();
      if (narrowed && isTransferCast(narrowed) &&
          narrowed->getBlock() == &block) {
        moveBehindSource(narrowed);
        op->moveAfter(narrowed);
        sinkUsers(op);
      }
    }
    for (auto reduce : block.getOps<AllReduceOp>())
      if (isGradient(reduce) && isMember(reduce))
        ++comingGradients[keyFor(reduce)];
  }

  /// Packing gets the phase of the op that made the first member; if that is an
  /// argument, the phase of the reduction.
  static StepAttr stepOfPacking(AllReduceOp first) {
    if (Operation *source = first.getX().getDefiningOp())
      return getStep(source);
    Phase phase = first.getPhase().value_or(Phase::Forward);
    return phase == Phase::Forward
               ? StepAttr()
               : StepAttr::get(first.getContext(), phase, std::nullopt,
                               std::nullopt, false, false);
  }

  void flush(Key key, Operation *before) {
    SmallVector<AllReduceOp> members = std::move(buckets[key].members);
    buckets[key] = Bucket();
    for (AllReduceOp member : members)
      keyOf.erase(member);
    if (members.size() < 2)
      return;
    ReplacingBuilder builder(before);
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
    StepAttr step = stepOfPacking(members.front());
    builder.standFor(step);
    Value packed = PackOp::create(builder, loc, buffer, sources);
    builder.standFor(StepAttr());
    Value reduced = AllReduceOp::create(
        builder, loc, buffer, packed, members.front().getReductionAttr(),
        members.front().getAxes(), members.front().getPurposeAttr(),
        members.front().getPhaseAttr());
    // As late as possible: the reduction may be under way until then.
    Operation *use = nullptr;
    for (AllReduceOp member : members)
      for (Operation *user : member->getUsers())
        if (!use || user->isBeforeInBlock(use))
          use = user;
    builder.setInsertionPoint(use);
    builder.standFor(step);
    auto unpacked = UnpackOp::create(builder, loc, types, reduced);
    for (auto [member, result] : llvm::zip(members, unpacked.getOutputs())) {
      member.getResult().replaceAllUsesWith(result);
      member.erase();
    }
  }

  llvm::DenseMap<Operation *, Key> keyOf;
  llvm::DenseMap<Key, Bucket> buckets;
  llvm::DenseMap<Key, int64_t> comingGradients;
};

} // namespace
