//===- MutableSources.cpp - one op per mutable source ---------------------===//
//
// All uses of a mutable source (a parameter or a state of the optimizer) in a
// function use the same memory: they become one op. A source that gets the
// value of another, or is returned, is copied, since each is read before either
// is written. Sums over micro-batches become additions to the argument that
// holds the sum so far. Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "kerf/Dist/ReplacingBuilder.h"

#include "../Library/Strides.h"
#include "../Parameters.h"

#include "llvm/ADT/StringMap.h"

namespace kerf {
#define GEN_PASS_DEF_EXPANDACCUMULATE
#define GEN_PASS_DEF_UNIFYMUTABLESOURCES
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Replaces all uses of a mutable source by one op.
static void mergeUses(func::FuncOp function) {
  llvm::StringMap<Operation *> known;
  forEachOp(function, [&](Operation *op) {
    if (!isMutableSource(op))
      return;
    auto [it, added] = known.try_emplace(mutableIdentity(op), op);
    // Uses of different types are an error of the table of parameters.
    if (added || it->second->getResultTypes() != op->getResultTypes())
      return;
    op->replaceAllUsesWith(it->second);
    op->erase();
  });
}

/// Copies the value of a source that is assigned to another source or returned,
/// since the source itself may be written before that.
static void copyMovedSources(func::FuncOp function) {
  auto separate = [](OpOperand &use) {
    Value value = use.get();
    while (isShapeOp(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    if (!isMutableSource(value.getDefiningOp()))
      return;
    dist::ReplacingBuilder builder(use.getOwner());
    use.set(nn::CastOp::create(builder, use.getOwner()->getLoc(),
                               use.get().getType(), use.get()));
  };
  Block &block = function.getBody().front();
  for (auto assign : block.getOps<dist::AssignOp>())
    separate(assign.getValueMutable());
  for (OpOperand &use : block.getTerminator()->getOpOperands())
    separate(use);
}

namespace {
struct UnifyMutableSources
    : kerf::impl::UnifyMutableSourcesBase<UnifyMutableSources> {
  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    mergeUses(getOperation());
    copyMovedSources(getOperation());
  }
};

struct ExpandAccumulate : kerf::impl::ExpandAccumulateBase<ExpandAccumulate> {
  void runOnOperation() override {
    forEachOp(getOperation(), [](Operation *op) {
      auto accumulate = dyn_cast<dist::AccumulateOp>(op);
      if (!accumulate)
        return;
      Value sum = accumulate.getX();
      if (Value into = accumulate.getInto()) {
        dist::ReplacingBuilder builder(accumulate);
        sum = nn::AddOp::create(builder, accumulate.getLoc(), into, sum);
      }
      accumulate.getResult().replaceAllUsesWith(sum);
      accumulate.erase();
    });
  }
};
} // namespace
