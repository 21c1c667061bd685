//===- JoinParts.cpp - concatenations that nobody computes ----------------===//
//
// A concatenation whose parts are to be written in their places (the rule is in
// kerf/Fusion/Joins.h) becomes an exec.join; kerf-write-in-place has the parts
// written there. Parts that begin where no buffer may are copied one by one;
// that, too, is better than a long kernel.
//
// Linear in the number of parts.
//
//===----------------------------------------------------------------------===//
#include "../OpKinds.h"
#include "BlockOrder.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Fusion/Joins.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {
#define GEN_PASS_DEF_JOINPARTS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Whether the parts lie one behind the other in memory.
static bool lieInARow(nn::ConcatOp concat) {
  RankedTensorType whole = concat.getResult().getType();
  return whole.getNumElements() != 0 &&
         isOutermost(whole.getShape(), concat.getDim());
}

/// Whether a call or kernel of this step computes the value.
static bool isComputed(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->hasAttr(exec::kAtLoad) || isInline(op))
    return false;
  return isa<exec::LibraryCallInterface>(op) ||
         (isa<nn::NNDialect>(op->getDialect()) && !isAlias(op) &&
          !isa<SourceOpInterface>(op));
}

/// Whether the result is sent: a bucket of gradients. Its parts come over the
/// whole of a backward pass, in which its memory would be held from the first
/// part on; planning counts it from the concatenation on.
static bool isSent(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<dist::CollectiveOpInterface>(user) ||
           (isa<nn::ReshapeOp>(user) && isSent(user->getResult(0)));
  });
}

static bool pays(nn::ConcatOp concat) {
  SmallVector<JoinedPart> parts;
  for (Value part : concat.getInputs()) {
    Value value = computedValue(part);
    bool isStored =
        !value.hasOneUse() ||
        isa_and_nonnull<exec::LibraryCallInterface>(value.getDefiningOp());
    parts.push_back({exec::sizeBytes(cast<RankedTensorType>(part.getType())),
                     isComputed(value), isStored});
  }
  return paysToJoin(parts, exec::bufferAlignment);
}

namespace {
struct JoinParts : kerf::impl::JoinPartsBase<JoinParts> {
  void runOnOperation() override {
    FailureOr<Block *> block = blockOf(getOperation());
    if (failed(block))
      return signalPassFailure();
    if (!*block)
      return;
    for (auto concat :
         llvm::make_early_inc_range((*block)->getOps<nn::ConcatOp>())) {
      if (concat->hasAttr(exec::kAtLoad) || concat->use_empty() ||
          concat.getInputs().size() < 2 || !lieInARow(concat) ||
          isSent(concat.getResult()) || !pays(concat))
        continue;
      OpBuilder builder(concat);
      Type type = concat.getResult().getType();
      Value place = exec::EmptyOp::create(builder, concat.getLoc(), type);
      auto join = exec::JoinOp::create(builder, concat.getLoc(), type,
                                       concat.getInputs(), place);
      concat.replaceAllUsesWith(join.getResult());
      concat.erase();
    }
  }
};
} // namespace
