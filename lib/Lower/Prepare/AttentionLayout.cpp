//===- AttentionLayout.cpp - how attention stores its results -------------===//
//
// Exporters transpose the result of attention before they merge the heads. A
// library call can store the transposed result; other readers read it with
// strides. Linear in the number of ops and uses.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "kerf/Dist/ReplacingBuilder.h"

#include "../OpKinds.h"

namespace kerf {
#define GEN_PASS_DEF_STOREATTENTIONTRANSPOSED
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Whether the call can store its result so.
static bool keepsRows(nn::TransposeOp op) {
  ArrayRef<int64_t> perm = op.getPerm();
  return perm.back() == static_cast<int64_t>(perm.size()) - 1 &&
         op.getType().getShape().back() % 8 == 0;
}

static void storeTransposed(func::FuncOp function) {
  SmallVector<Value> results;
  for (Operation &op : function.getBody().front())
    if (auto forward = dyn_cast<nn::AttentionOp>(op))
      results.push_back(forward->getResult(0));
    else if (isa<nn::AttentionGradientOp>(op))
      llvm::append_range(results, op.getResults());
  for (Value result : results) {
    // The first in the block: it comes before all other readers but itself.
    nn::TransposeOp stored;
    for (Operation *user : result.getUsers())
      if (auto transpose = dyn_cast<nn::TransposeOp>(user);
          transpose && keepsRows(transpose) &&
          (!stored || transpose->isBeforeInBlock(stored)))
        stored = transpose;
    if (!stored)
      continue;
    stored->moveAfter(result.getDefiningOp());
    stored->setAttr(exec::kStoredMark, UnitAttr::get(stored.getContext()));
    SmallVector<int64_t> inverse(stored.getPerm().size());
    for (auto [to, from] : llvm::enumerate(stored.getPerm()))
      inverse[from] = to;
    SmallVector<OpOperand *> others;
    for (OpOperand &use : result.getUses())
      if (use.getOwner() != stored)
        others.push_back(&use);
    dist::ReplacingBuilder builder(result.getDefiningOp());
    builder.setInsertionPointAfter(stored);
    for (OpOperand *use : others)
      use->set(nn::TransposeOp::create(builder, result.getLoc(),
                                       result.getType(), stored,
                                       builder.getDenseI64ArrayAttr(inverse)));
  }
}

namespace {
struct StoreAttentionTransposed
    : kerf::impl::StoreAttentionTransposedBase<StoreAttentionTransposed> {
  void runOnOperation() override {
    if (!getOperation().isExternal())
      storeTransposed(getOperation());
  }
};
} // namespace
