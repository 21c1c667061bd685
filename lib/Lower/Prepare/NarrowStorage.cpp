//===- NarrowStorage.cpp - products stored in 16 bits ---------------------===//
//
// Where memory is slow beside computing, what is computed from a product of 16
// bits (with a bias; of a convolution also with an addend and relu) is stored
// in 16 bits and widened where it is read. A sum with a wide tensor behind a
// matmul, gradients of weights and what leaves the function stay wide. Asks
// for casts to the type in which a value travels, so it comes before
// kerf-drop-transfer-casts. Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "kerf/Dist/ReplacingBuilder.h"

#include "../Library/GeluGradient.h"
#include "../Library/Strides.h"
#include "../OpKinds.h"

#include "kerf/Interfaces/TransferCast.h"

namespace kerf {
#define GEN_PASS_DEF_NARROWSTORAGE
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

static unsigned width(Value value) {
  return typeOf(value).getElementTypeBitWidth();
}

/// Whether there is one element per column of `type`, as in a bias.
static bool isPerColumn(Value value, RankedTensorType type) {
  RankedTensorType own = typeOf(value);
  return own.getRank() > 0 && type.getRank() > 0 &&
         own.getNumElements() == type.getShape().back() &&
         own.getShape().back() == type.getShape().back();
}

/// Whether an operand of the product is a parameter: an addend per column is
/// then a bias. A mask on the scores of attention may be as low as f32's lowest
/// number, and must not become infinite.
static bool hasWeight(Operation *product) {
  return llvm::any_of(product->getOperands(), [](Value value) {
    Operation *op = value.getDefiningOp();
    while (op && op->getNumOperands() == 1 &&
           (isa<nn::CastOp>(op) || isShapeOp(op) ||
            isa<dist::DistDialect>(op->getDialect())))
      op = op->getOperand(0).getDefiningOp();
    return isa_and_nonnull<SourceOpInterface>(op);
  });
}

/// `operand` rounded to `narrow` and widened again.
static void roundOperand(OpOperand &operand, Type narrow) {
  dist::ReplacingBuilder builder(operand.getOwner());
  Location loc = operand.getOwner()->getLoc();
  Value value = operand.get();
  RankedTensorType type = typeOf(value);
  Value there = nn::CastOp::create(builder, loc, type.clone(narrow), value);
  operand.set(nn::CastOp::create(builder, loc, type, there));
}

/// The last value that the library's call computes from a product, if it may be
/// stored in 16 bits; else null. Collects the addends.
static Value endOfCall(Operation *product,
                       SmallVectorImpl<OpOperand *> &addends) {
  Value result = product->getResult(0);
  if (!result.hasOneUse())
    return {};
  auto widened = dyn_cast<nn::CastOp>(*result.user_begin());
  if (!widened || isTransferCast(widened) ||
      !typeOf(widened.getResult()).getElementType().isF32())
    return {};
  Value value = widened.getResult();
  RankedTensorType type = typeOf(value);
  auto addTo = [&](bool perColumn) {
    auto add = value.hasOneUse() ? dyn_cast<nn::AddOp>(*value.user_begin())
                                 : nn::AddOp();
    if (!add || add.getResult().getType() != type)
      return false;
    OpOperand &other = add->getOpOperand(add.getLhs() == value ? 1 : 0);
    if (perColumn ? !isPerColumn(other.get(), type)
                  : other.get().getType() != type)
      return false;
    addends.push_back(&other);
    value = add.getResult();
    return true;
  };
  auto gradient =
      isa<nn::MatmulOp>(product) ? findGeluGradient(value) : std::nullopt;
  if (gradient)
    value = gradient->result;
  else if (!isa<nn::ConvInputGradientOp>(product) && hasWeight(product))
    addTo(/*perColumn=*/true);
  // Sums of transformers' blocks stay wide, as they are without rounding.
  if (!gradient && !isa<nn::ConvInputGradientOp>(product) &&
      addTo(/*perColumn=*/false) && isa<nn::MatmulOp>(product))
    return {};
  if (value.hasOneUse() && !gradient && !isa<nn::ConvInputGradientOp>(product))
    if (Operation *user = *value.user_begin();
        isa<nn::ReluOp>(user) ||
        (isa<nn::GeluOp>(user) && cast<nn::GeluOp>(user).getTanh() &&
         isa<nn::MatmulOp>(product)))
      value = user->getResult(0);
  bool inside = llvm::all_of(value.getUsers(), [](Operation *user) {
    return isa<nn::NNDialect>(user->getDialect()) &&
           !user->hasAttr(exec::kUpdateMark);
  });
  return inside && !value.use_empty() ? value : Value();
}

static void storeNarrow(func::FuncOp function) {
  SmallVector<Operation *> products;
  for (Operation &op : function.getBody().front())
    if (isa<nn::MatmulOp, nn::ConvOp, nn::ConvInputGradientOp>(op) &&
        width(op.getResult(0)) == 16)
      products.push_back(&op);
  for (Operation *op : products) {
    SmallVector<OpOperand *> addends;
    Value value = endOfCall(op, addends);
    if (!value)
      continue;
    if (value.getDefiningOp() == *op->getResult(0).user_begin()) {
      op->setAttr(exec::kStoredMark, UnitAttr::get(op->getContext()));
      continue; // it is in 16 bits
    }
    Type narrow = typeOf(op->getResult(0)).getElementType();
    for (OpOperand *addend : addends)
      roundOperand(*addend, narrow);
    dist::ReplacingBuilder builder(value.getDefiningOp());
    builder.setInsertionPointAfterValue(value);
    RankedTensorType type = typeOf(value);
    auto there =
        nn::CastOp::create(builder, value.getLoc(), type.clone(narrow), value);
    Value back = nn::CastOp::create(builder, value.getLoc(), type, there);
    value.replaceAllUsesExcept(back, there);
  }
}

namespace {
struct NarrowStorage : kerf::impl::NarrowStorageBase<NarrowStorage> {
  void runOnOperation() override {
    if (!getOperation().isExternal() &&
        exec::TargetAttr::of(getOperation()).getMemoryBound())
      storeNarrow(getOperation());
  }
};
} // namespace
