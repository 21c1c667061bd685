//===- FoldBatchNorm.cpp - statistics that are constant -------------------===//
//
// A batch norm whose statistics depend on parameters alone is folded into the
// convolution in front of it: w' = w s, b' = b s + t with s = scale /
// sqrt(variance + epsilon), t = bias - mean s. Every other one becomes x s + t.
// Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "kerf/Dist/ReplacingBuilder.h"
#include "kerf/Support/Preconditions.h"

namespace kerf {
#define GEN_PASS_DEF_FOLDBATCHNORM
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// `value` as a vector of one element per channel; null if its shape is not
/// that, up to dimensions of size 1 in front.
static Value perChannel(OpBuilder &builder, Value value, int64_t channels) {
  RankedTensorType type = typeOf(value);
  if (type.getRank() == 0 || type.getNumElements() != channels ||
      !holds(value.getDefiningOp(), Precondition::BiasIsPerChannel,
             type.getShape().back() == channels))
    return {};
  if (type.getRank() == 1)
    return value;
  return nn::ReshapeOp::create(
      builder, value.getLoc(),
      RankedTensorType::get({channels}, type.getElementType()), value);
}

static void fold(nn::BatchNormOp norm) {
  dist::ReplacingBuilder builder(norm);
  Location loc = norm.getLoc();
  RankedTensorType type = typeOf(norm.getScale());
  int64_t channels = type.getNumElements();
  Value epsilon =
      splatConstant(builder, loc, type, norm.getEpsilon().convertToDouble());
  Value scale = nn::MulOp::create(
      builder, loc, norm.getScale(),
      nn::RsqrtOp::create(
          builder, loc,
          nn::AddOp::create(builder, loc, norm.getVariance(), epsilon)));
  Value shift =
      nn::SubOp::create(builder, loc, norm.getBias(),
                        nn::MulOp::create(builder, loc, norm.getMean(), scale));
  Value x = norm.getX();
  // A bias that was added to the convolution is scaled, too.
  Value added;
  if (auto add = x.getDefiningOp<nn::AddOp>(); add && x.hasOneUse())
    for (int i : {0, 1}) {
      Value other = add->getOperand(1 - i);
      if (add->getOperand(i).getDefiningOp<nn::ConvOp>() &&
          isComputedAtLoad(other) && isComputedAtLoad(scale))
        if (Value channelwise = perChannel(builder, other, channels)) {
          added = channelwise;
          x = add->getOperand(i);
          break;
        }
    }
  // Under --precision the weights are rounded and the result is widened.
  auto widened = x.getDefiningOp<nn::CastOp>();
  if (widened && x.hasOneUse() && widened.getX().hasOneUse())
    x = widened.getX();
  auto conv = x.getDefiningOp<nn::ConvOp>();
  Value plain = conv ? conv.getWeights() : Value();
  auto rounded = conv ? plain.getDefiningOp<nn::CastOp>() : nn::CastOp();
  if (rounded)
    plain = rounded.getX();
  if (conv && x.hasOneUse() && isComputedAtLoad(plain) &&
      isComputedAtLoad(scale) &&
      typeOf(plain).getElementType() == type.getElementType()) {
    SmallVector<int64_t> shape(typeOf(conv.getWeights()).getRank(), 1);
    shape[0] = channels;
    Value factor = nn::ReshapeOp::create(
        builder, loc, RankedTensorType::get(shape, type.getElementType()),
        scale);
    Value weights = nn::MulOp::create(builder, loc, plain, factor);
    if (rounded)
      weights = nn::CastOp::create(builder, loc, rounded.getType(), weights);
    if (added)
      shift = nn::AddOp::create(
          builder, loc, nn::MulOp::create(builder, loc, added, scale), shift);
    auto folded = cast<nn::ConvOp>(builder.clone(*conv));
    folded.getWeightsMutable().assign(weights);
    Value product = folded.getResult();
    if (product.getType() != norm.getType())
      product = nn::CastOp::create(builder, loc, norm.getType(), product);
    Value result = nn::AddOp::create(builder, loc, product, shift);
    norm.getResult().replaceAllUsesWith(result);
  } else {
    Value scaled = nn::MulOp::create(builder, loc, norm.getX(), scale);
    Value result = nn::AddOp::create(builder, loc, scaled, shift);
    norm.getResult().replaceAllUsesWith(result);
  }
  norm.erase();
}

namespace {
struct FoldBatchNorm : kerf::impl::FoldBatchNormBase<FoldBatchNorm> {
  void runOnOperation() override {
    forEachOp(getOperation(), [](Operation *op) {
      if (auto norm = dyn_cast<nn::BatchNormOp>(op))
        fold(norm);
    });
  }
};
} // namespace
