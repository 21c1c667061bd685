//===- OverlapCollectives.cpp - start early, wait late --------------------===//
//
// The order of all other ops stays. A collective is hoisted to just behind the
// last op that it needs (its source, or the collective before it, since all
// ranks must start them in one order); its wait sinks to just before the first
// use. Only if another op then lies between the two. Linear scans, O(ops *
// collectives) at worst.
//
//===----------------------------------------------------------------------===//
#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"

#include <deque>

namespace kerf {
#define GEN_PASS_DEF_OVERLAPCOLLECTIVES
#include "kerf/Collectives/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

struct OverlapCollectives
    : kerf::impl::OverlapCollectivesBase<OverlapCollectives> {
  using OverlapCollectivesBase::OverlapCollectivesBase;

  void runOnOperation() override {
    if (maxStarted < 1) {
      emitError(getOperation().getLoc(), "max-started: ")
          << int64_t(maxStarted) << ", expected at least 1";
      return signalPassFailure();
    }
    if (getOperation().isExternal())
      return;
    Block &block = getOperation().getBody().front();
    if (onlyGradients)
      return overlapGradients(block);
    SmallVector<Operation *> collectives;
    for (Operation &op : block)
      if (auto collective = dyn_cast<CollectiveOpInterface>(op);
          collective && !collective.isStarted() && !op.use_empty())
        collectives.push_back(&op);
    // Waits of collectives under way, by their place in the block.
    SmallVector<Operation *> waits;
    Operation *previous = nullptr;
    for (Operation *op : collectives) {
      hoist(op, previous);
      previous = op;
      llvm::erase_if(
          waits, [&](Operation *wait) { return wait->isBeforeInBlock(op); });
      if (static_cast<int64_t>(waits.size()) < maxStarted)
        if (Operation *wait = split(op, block))
          waits.push_back(wait);
    }
  }

private:
  /// Gradients are already reduced where they are made; their waits go to their
  /// uses, or earlier if too many would be under way.
  void overlapGradients(Block &block) {
    std::deque<Operation *> waits;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      auto collective = dyn_cast<CollectiveOpInterface>(op);
      if (!collective || collective.isStarted() || op.use_empty() ||
          collective.getPurposeOrDefault() != Purpose::Gradient)
        continue;
      llvm::erase_if(
          waits, [&](Operation *wait) { return wait->isBeforeInBlock(&op); });
      Operation *wait = split(&op, block);
      if (!wait)
        continue;
      if (static_cast<int64_t>(waits.size()) >= maxStarted) {
        waits.front()->moveBefore(&op);
        waits.pop_front();
      }
      waits.push_back(wait);
    }
  }

  /// Moves a collective as far up as its source and the collective before it
  /// allow.
  void hoist(Operation *op, Operation *previous) {
    Operation *after = op->getOperand(0).getDefiningOp();
    if (previous && (!after || after->isBeforeInBlock(previous)))
      after = previous;
    if (after)
      op->moveAfter(after);
    else
      op->moveBefore(op->getBlock(), op->getBlock()->begin());
  }

  /// The first op of the block that uses the result.
  Operation *firstUse(Operation *op) {
    Operation *first = nullptr;
    for (Operation *user : op->getUsers())
      if (!first || user->isBeforeInBlock(first))
        first = user;
    return first;
  }

  Operation *split(Operation *op, Block &block) {
    Operation *use = firstUse(op);
    bool covers = false;
    for (Operation *between = op->getNextNode(); between != use && !covers;
         between = between->getNextNode())
      covers = !isa<CollectiveOpInterface, WaitOp>(between) &&
               between->getNumOperands() > 0;
    if (!covers)
      return nullptr;
    Value result = op->getResult(0);
    auto tensor = cast<RankedTensorType>(result.getType());
    OpBuilder builder(use);
    result.setType(PendingType::get(&getContext(), tensor));
    auto wait = WaitOp::create(builder, op->getLoc(), tensor, result);
    result.replaceAllUsesExcept(wait.getResult(), wait);
    return wait;
  }
};

} // namespace
