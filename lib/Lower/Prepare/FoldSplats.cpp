//===- FoldSplats.cpp - numbers that are known ----------------------------===//
//
// Elementwise ops on constants of one number become constants of one number.
// Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "kerf/Dist/ReplacingBuilder.h"

#include "kerf/NN/IR/Evaluate.h"

namespace kerf {
#define GEN_PASS_DEF_FOLDSPLATS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Whether every element of a constant is one number of float32.
static bool isSplat(Value value) {
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  return constant && !constant.getName() && constant.getElements().isSplat() &&
         constant.getResult().getType().getElementType().isF32();
}

namespace {
struct FoldSplats : kerf::impl::FoldSplatsBase<FoldSplats> {
  void runOnOperation() override {
    forEachOp(getOperation(), [](Operation *op) {
      if (op->getNumResults() != 1 || op->getNumOperands() == 0 ||
          !getElementTypeOrSelf(op->getResult(0)).isF32() ||
          !llvm::all_of(op->getOperands(), isSplat))
        return;
      DenseElementsAttr elements = nn::evaluate(op);
      if (!elements || !elements.isSplat())
        return;
      dist::ReplacingBuilder builder(op);
      op->replaceAllUsesWith(nn::ConstantOp::create(
          builder, op->getLoc(), cast<ElementsAttr>(elements)));
      op->erase();
    });
  }
};
} // namespace
