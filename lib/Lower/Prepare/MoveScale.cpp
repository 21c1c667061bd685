//===- MoveScale.cpp - factors and small powers ---------------------------===//
//
// A factor on an operand of a matmul of two activations (the 1/sqrt(d) of
// attention) moves to its result, where the library call applies it at no cost.
// It does not move behind a product with weights: there the bias comes next,
// and the factor costs nothing in the kernel in front of the product. Squares
// and cubes become products. Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "kerf/Dist/ReplacingBuilder.h"

#include "../Library/LibraryCall.h"
#include "../Library/Strides.h"

#include "kerf/Support/Preconditions.h"

#include <cmath>

namespace kerf {
#define GEN_PASS_DEF_MOVESCALE
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// The matmul that a value reaches through shape ops of one use each.
static nn::MatmulOp reachedMatmul(Value value) {
  while (!value.use_empty() &&
         holds(value.getDefiningOp(), Precondition::FactorReadOnce,
               value.hasOneUse())) {
    Operation *user = *value.user_begin();
    if (auto matmul = dyn_cast<nn::MatmulOp>(user))
      return matmul;
    if (!isShapeOp(user))
      break;
    value = user->getResult(0);
  }
  return {};
}

/// Turns x^2 and x^3 into products.
static void expandPower(nn::PowOp pow) {
  auto exponent = splatValue(pow.getRhs());
  if (!exponent || pow.getLhs().getType() != pow.getResult().getType() ||
      !holds(pow, Precondition::PowerIsSmall, *exponent == 2 || *exponent == 3))
    return;
  dist::ReplacingBuilder builder(pow);
  Value x = pow.getLhs();
  Value product = nn::MulOp::create(builder, pow.getLoc(), x, x);
  if (*exponent == 3)
    product = nn::MulOp::create(builder, pow.getLoc(), product, x);
  pow.getResult().replaceAllUsesWith(product);
  pow.erase();
}

static void moveBehindMatmul(Operation *op) {
  bool isDiv = isa<nn::DivOp>(op);
  Value result = op->getResult(0);
  unsigned scalar = 1;
  auto factor = splatValue(op->getOperand(1));
  if (!factor && holds(op, Precondition::FactorScales, !isDiv))
    factor = splatValue(op->getOperand(scalar = 0));
  if (!factor || op->getOperand(1 - scalar).getType() != result.getType())
    return;
  // 1 / 1e-40 is infinite in float32, where x / 1e-40 need not be.
  double scale = isDiv ? 1 / *factor : *factor;
  if (!holds(op, Precondition::FactorIsPlain,
             std::isnormal(static_cast<float>(scale))))
    return;
  nn::MatmulOp matmul = reachedMatmul(result);
  if (!matmul || !typeOf(result).getElementType().isF32() ||
      isComputedAtLoad(matmul.getLhs()) || isComputedAtLoad(matmul.getRhs()))
    return;
  result.replaceAllUsesWith(op->getOperand(1 - scalar));
  dist::ReplacingBuilder builder(op);
  builder.setInsertionPointAfter(matmul);
  Value constant =
      splatConstant(builder, op->getLoc(),
                    RankedTensorType::get({}, builder.getF32Type()), scale);
  auto scaled =
      nn::MulOp::create(builder, op->getLoc(), matmul.getResult(), constant);
  matmul.getResult().replaceAllUsesExcept(scaled.getResult(), scaled);
  op->erase();
}

namespace {
struct MoveScale : kerf::impl::MoveScaleBase<MoveScale> {
  void runOnOperation() override {
    forEachOp(getOperation(), [](Operation *op) {
      if (auto pow = dyn_cast<nn::PowOp>(op))
        expandPower(pow);
      else if (isa<nn::MulOp, nn::DivOp>(op))
        moveBehindMatmul(op);
    });
  }
};
} // namespace
