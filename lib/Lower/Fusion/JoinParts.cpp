//===- JoinParts.cpp - concatenations that nobody computes ----------------===//
//
// Problem: the steps of an unrolled loop store their results, and a
// concatenation copies all of them, by a kernel that is as long as the loop.
//
// Idea: where parts lie one behind the other in memory, the concatenation is an
// exec.join, for which each part is written in its place. That pays where parts
// are stored anyway, since others read them or a library computes them. What
// the concatenation's kernel would compute itself is stored by a kernel of its
// own, which is good where there are many such parts: they are equal kernels.
// Parts that begin where no buffer may are copied one by one; that, too, is
// better than a long kernel.
//
// Linear in the number of parts.
//
//===----------------------------------------------------------------------===//
#include "../OpKinds.h"
#include "BlockOrder.h"

#include "kerf/Dist/Dist.h"
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
  int64_t computed = 0, stored = 0, parts = concat.getInputs().size();
  int64_t bytes = 0;
  for (Value part : concat.getInputs()) {
    Value value = computedValue(part);
    bool isPlace = bytes % exec::bufferAlignment == 0;
    bytes += exec::sizeBytes(cast<RankedTensorType>(part.getType()));
    if (!isComputed(value))
      continue;
    ++computed;
    stored += isPlace && (!value.hasOneUse() || isa<exec::LibraryCallInterface>(
                                                    value.getDefiningOp()));
  }
  return 2 * stored >= parts ||
         (parts > kMaxKernelParts && 2 * computed >= parts);
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
