//===- Casts.cpp - roundings that need not be -----------------------------===//
//
// Casts that undo each other are removed, also behind ops that move elements.
// Products in float16 that the target's library lacks become products of
// rounded float32. Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "kerf/Dist/ReplacingBuilder.h"

#include "../Library/Strides.h"

#include "kerf/Fusion/Casts.h"
#include "kerf/Interfaces/TransferCast.h"

#include "mlir/IR/IRMapping.h"

namespace kerf {
#define GEN_PASS_DEF_DROPTRANSFERCASTS
#define GEN_PASS_DEF_WIDENPRODUCTS
#define GEN_PASS_DEF_CANCELCASTS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// What a cast of a cast gives if the two undo each other
/// (kerf/Fusion/Casts.h); between them may stand ops that move elements, which
/// then move narrow ones.
static Value undone(nn::CastOp cast) {
  auto found = findUndoneCast(cast, [](OpOperand *operand) {
    return isShapeOp(operand->get().getDefiningOp()) ? Between::Move
                                                     : Between::Maker;
  });
  if (!found)
    return {};
  OpBuilder builder(cast);
  Value value = found->first->getOperand(0);
  for (Operation *move : llvm::reverse(found->moves)) {
    IRMapping operand;
    operand.map(move->getOperand(0), value);
    Operation *narrow = builder.clone(*move, operand);
    narrow->getResult(0).setType(
        typeOf(move->getResult(0)).clone(typeOf(value).getElementType()));
    value = narrow->getResult(0);
  }
  return value;
}

/// Erases a cast that nothing reads, and the casts and moves before it that
/// nothing else reads: passes behind this one look for the only reader.
static void eraseUnread(Operation *op) {
  while (op && op->use_empty() && (isa<nn::CastOp>(op) || isShapeOp(op))) {
    Operation *before = op->getOperand(0).getDefiningOp();
    op->erase();
    op = before;
  }
}

/// A float16 product on a CPU: operands are rounded and widened again.
static void widenProduct(Operation *op) {
  dist::ReplacingBuilder builder(op);
  Location loc = op->getLoc();
  Type wide = builder.getF32Type();
  for (OpOperand &operand : op->getOpOperands())
    operand.set(nn::CastOp::create(
        builder, loc, typeOf(operand.get()).clone(wide), operand.get()));
  Value result = op->getResult(0);
  RankedTensorType narrow = typeOf(result);
  result.setType(narrow.clone(wide));
  // A result that is cast to float32 is not rounded in between, as on GPUs.
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : result.getUses())
    uses.push_back(&use);
  Value rounded;
  for (OpOperand *use : uses) {
    auto cast = dyn_cast<nn::CastOp>(use->getOwner());
    if (cast && cast.getType() == result.getType()) {
      cast.replaceAllUsesWith(result);
      cast.erase();
      continue;
    }
    if (!rounded) {
      // Not before: what stood behind the product may have been erased.
      builder.setInsertionPointAfter(op);
      rounded = nn::CastOp::create(builder, loc, narrow, result);
    }
    use->set(rounded);
  }
}

namespace {
struct CancelCasts : kerf::impl::CancelCastsBase<CancelCasts> {
  void runOnOperation() override {
    forEachOp(getOperation(), [](Operation *op) {
      auto cast = dyn_cast<nn::CastOp>(op);
      if (!cast)
        return;
      if (Value value = undone(cast)) {
        cast.replaceAllUsesWith(value);
        eraseUnread(cast);
      }
    });
  }
};

struct WidenProducts : kerf::impl::WidenProductsBase<WidenProducts> {
  void runOnOperation() override {
    if (exec::TargetAttr::of(getOperation()).getHalfProducts())
      return;
    SmallVector<Operation *> products;
    forEachOp(getOperation(), [&](Operation *op) {
      auto costed = dyn_cast<OpCostInterface>(op);
      if (costed && isLibraryCall(costed.getLibraryWork()) &&
          typeOf(op->getResult(0)).getElementType().isF16())
        products.push_back(op);
    });
    for (Operation *op : products)
      widenProduct(op);
  }
};

struct DropTransferCasts
    : kerf::impl::DropTransferCastsBase<DropTransferCasts> {
  void runOnOperation() override {
    forEachOp(getOperation(), [](Operation *op) {
      if (isa<nn::CastOp>(op))
        op->removeAttr(kTransferCast);
    });
  }
};
} // namespace
