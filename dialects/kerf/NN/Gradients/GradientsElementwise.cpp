//===- GradientsElementwise.cpp - gradients of elementwise ops ------------===//
//
// Where a derivative does not exist, the value is PyTorch's: 0 for relu and abs
// at 0, a half to each side of a tie of max or min. Formulas use the result
// instead of the operand where possible (tanh, sigmoid, exp, sqrt), so that
// only one of the two must be kept.
//
//===----------------------------------------------------------------------===//
#include "GradientBuilder.h"

#include "kerf/Interfaces/TransferCast.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

#define KERF_VJP(Op)                                                           \
  Gradients Op::buildVectorJacobianProduct(OpBuilder &builder,                 \
                                           ValueRange resultGradients)

using Vjp = llvm::function_ref<Value(GradientBuilder &, Value dy)>;

/// Functions that give the gradient of each operand, in the shape of the
/// result.
static Gradients elementwise(Operation *op, OpBuilder &builder, Value dy,
                             ArrayRef<Vjp> functions) {
  GradientBuilder b(builder, op->getLoc());
  SmallVector<Value> gradients(op->getNumOperands());
  if (dy)
    for (auto [gradient, operand, function] :
         llvm::zip_equal(gradients, op->getOperands(), functions))
      if (isDifferentiable(operand))
        gradient = b.unbroadcast(function(b, dy), operand);
  return gradients;
}

/// For ops of x: `formula` of b, x, y and dy. Narrow floats are computed in
/// f32.
#define KERF_UNARY(Op, formula)                                                \
  KERF_VJP(Op) {                                                               \
    return elementwise(                                                        \
        getOperation(), builder, resultGradients[0],                           \
        {[&](GradientBuilder &b, Value dy) -> Value { return formula; }});     \
  }

/// For ops of lhs and rhs.
#define KERF_BINARY(Op, left, right)                                           \
  KERF_VJP(Op) {                                                               \
    Value l = getLhs(), r = getRhs(), y = getResult();                         \
    (void)l, (void)r, (void)y;                                                 \
    return elementwise(                                                        \
        getOperation(), builder, resultGradients[0],                           \
        {[&](GradientBuilder &b, Value dy) -> Value { return left; },          \
         [&](GradientBuilder &b, Value dy) -> Value { return right; }});       \
  }

/// Piecewise constant, or not a function of floats.
#define KERF_CONSTANT(Op)                                                      \
  KERF_VJP(Op) { return SmallVector<Value>(getOperation()->getNumOperands()); }

KERF_CONSTANT(SignOp)
KERF_CONSTANT(FloorOp)
KERF_CONSTANT(CeilOp)
KERF_CONSTANT(RoundOp)
KERF_CONSTANT(NotOp)
KERF_CONSTANT(IsNaNOp)
KERF_CONSTANT(AndOp)
KERF_CONSTANT(OrOp)
KERF_CONSTANT(XorOp)
KERF_CONSTANT(ShiftLeftOp)
KERF_CONSTANT(ShiftRightOp)
KERF_CONSTANT(EqualOp)
KERF_CONSTANT(LessOp)
KERF_CONSTANT(LessEqualOp)
KERF_CONSTANT(PhiloxOp)
KERF_CONSTANT(BitcastOp)

// Autodiff replaces the op before differentiation.
KERF_VJP(DropoutOp) { return emitError("dropout has no mask"); }

KERF_UNARY(NegOp, b.neg(dy))
KERF_UNARY(AbsOp, b.mul(dy, b.make<SignOp>(getX())))
KERF_UNARY(ExpOp, b.mul(dy, getResult()))
KERF_UNARY(LogOp, b.div(dy, getX()))
KERF_UNARY(SqrtOp, b.div(b.mul(dy, 0.5), getResult()))
KERF_UNARY(RsqrtOp,
           b.mul(b.mul(dy, -0.5), b.mul(b.square(getResult()), getResult())))
KERF_UNARY(ReciprocalOp, b.neg(b.mul(dy, b.square(getResult()))))
KERF_UNARY(SinOp, b.mul(dy, b.make<CosOp>(getX())))
KERF_UNARY(CosOp, b.neg(b.mul(dy, b.make<SinOp>(getX()))))

// With the opposite condition a NaN would stop the gradient.
KERF_UNARY(ReluOp,
           b.zeroWhere(b.make<LessEqualOp>(getResult(), b.number(0, dy)), dy))

/// x with narrow floats as f32, `formula` of it, and back.
template <typename Formula>
static Value wide(GradientBuilder &b, Value dy, Value x, Formula formula) {
  return b.castLike(formula(b.widen(dy), b.widen(x)), dy);
}

KERF_UNARY(ErfOp, wide(b, dy, getX(), [&](Value g, Value x) {
             return b.mul(b.mul(g, M_2_SQRTPI), b.exp(b.neg(b.square(x))));
           }))
KERF_UNARY(TanhOp, wide(b, dy, getResult(), [&](Value g, Value y) {
             return b.mul(g, b.sub(1, b.square(y)));
           }))
KERF_UNARY(SigmoidOp, wide(b, dy, getResult(), [&](Value g, Value y) {
             return b.mul(g, b.mul(y, b.sub(1, y)));
           }))
/// s + x s (1 - s) with s = sigmoid(x).
static Value siluSlope(GradientBuilder &b, Value x) {
  Value s = b.make<SigmoidOp>(x);
  return b.mul(s, b.add(b.mul(x, b.sub(1, s)), 1));
}
KERF_UNARY(SiluOp, wide(b, dy, getX(), [&](Value g, Value x) {
             return b.mul(g, siluSlope(b, x));
           }))
KERF_UNARY(Log1pOp, wide(b, dy, getX(), [&](Value g, Value x) {
             return b.div(g, b.add(x, 1));
           }))
KERF_UNARY(TanOp, wide(b, dy, getResult(), [&](Value g, Value y) {
             return b.mul(g, b.add(b.square(y), 1));
           }))
/// 1 / sqrt(1 - x^2).
static Value asinSlope(GradientBuilder &b, Value x) {
  return b.rsqrt(b.mul(b.sub(1, x), b.add(x, 1)));
}
KERF_UNARY(AsinOp, wide(b, dy, getX(), [&](Value g, Value x) {
             return b.mul(g, asinSlope(b, x));
           }))
KERF_UNARY(AcosOp, wide(b, dy, getX(), [&](Value g, Value x) {
             return b.neg(b.mul(g, asinSlope(b, x)));
           }))
KERF_UNARY(AtanOp, wide(b, dy, getX(), [&](Value g, Value x) {
             return b.div(g, b.add(b.square(x), 1));
           }))
KERF_UNARY(SinhOp, wide(b, dy, getX(), [&](Value g, Value x) {
             return b.mul(g, b.make<CoshOp>(x));
           }))
KERF_UNARY(CoshOp, wide(b, dy, getX(), [&](Value g, Value x) {
             return b.mul(g, b.make<SinhOp>(x));
           }))
KERF_UNARY(AsinhOp, wide(b, dy, getX(), [&](Value g, Value x) {
             return b.mul(g, b.rsqrt(b.add(b.square(x), 1)));
           }))
KERF_UNARY(AcoshOp, wide(b, dy, getX(), [&](Value g, Value x) {
             return b.mul(g, b.rsqrt(b.mul(b.add(x, -1), b.add(x, 1))));
           }))
KERF_UNARY(AtanhOp, wide(b, dy, getX(), [&](Value g, Value x) {
             return b.div(g, b.mul(b.sub(1, x), b.add(x, 1)));
           }))

KERF_UNARY(GeluOp, b.make<GeluGradientOp>(dy, getX(), getTanhAttr()))

/// The second derivative of GELU: p(x) (2 - x^2); of the tanh form
/// (1 - t^2) (u' + x (u''/2 - t u'^2)), t = tanh(u), u = s (x + c x^3).
static Value geluCurve(GradientBuilder &b, Value x, bool hasTanh) {
  const double scale = M_2_SQRTPI * M_SQRT1_2, cubic = 0.044715;
  Value square = b.square(x);
  if (!hasTanh)
    return b.mul(b.mul(b.exp(b.mul(square, -0.5)), scale / 2),
                 b.sub(2, square));
  Value inner = b.mul(b.mul(x, b.add(b.mul(square, cubic), 1)), scale);
  Value t = b.make<TanhOp>(inner);
  Value slope = b.mul(b.add(b.mul(square, 3 * cubic), 1), scale);
  Value bend = b.sub(b.mul(x, 3 * cubic * scale), b.mul(t, b.square(slope)));
  return b.mul(b.sub(1, b.square(t)), b.add(slope, b.mul(x, bend)));
}

KERF_VJP(GeluGradientOp) {
  return elementwise(
      getOperation(), builder, resultGradients[0],
      {[&](GradientBuilder &b, Value g) {
         return b.make<GeluGradientOp>(g, getX(), getTanhAttr());
       },
       [&](GradientBuilder &b, Value g) {
         return wide(b, b.mul(g, getDy()), getX(), [&](Value g, Value x) {
           return b.mul(g, geluCurve(b, x, getTanh()));
         });
       }});
}

KERF_VJP(CastOp) {
  // A cast to integers or to a type of 8 bits and less has no gradient.
  Value dy = resultGradients[0];
  if (!dy || !isDifferentiable(getX()) ||
      isNarrow(getResult().getType().getElementType()))
    return SmallVector<Value>(1);
  GradientBuilder b(builder, getLoc());
  Value dx = b.castLike(dy, getX());
  // If the operand is a transfer cast, its gradient is sent in the narrow type
  // too.
  if (auto from = getX().getDefiningOp<CastOp>(); from && isTransferCast(from))
    if (auto cast = dx.getDefiningOp<CastOp>(); cast && dx != dy)
      cast->setAttr(kTransferCast, UnitAttr::get(getContext()));
  return SmallVector<Value>{dx};
}

KERF_BINARY(AddOp, dy, dy)
KERF_BINARY(SubOp, dy, b.neg(dy))
KERF_BINARY(MulOp, b.mul(dy, r), b.mul(dy, l))
KERF_BINARY(DivOp, b.div(dy, r), b.neg(b.mul(dy, b.div(y, r))))
KERF_BINARY(ModOp, dy, b.neg(b.mul(dy, b.make<FloorOp>(b.div(l, r)))))

static Value truncate(GradientBuilder &b, Value x) {
  return b.select(b.less(x, b.number(0, x)), b.make<CeilOp>(x),
                  b.make<FloorOp>(x));
}
KERF_BINARY(RemOp, dy, b.neg(b.mul(dy, truncate(b, b.div(l, r)))))

/// d/dl l^r = r l^(r-1), 0 for r = 0 and any l; d/dr = l^r log l, 0 where
/// l = 0 and r >= 0.
static Value powLeft(GradientBuilder &b, Value dy, Value l, Value r) {
  Value zero = b.equal(r, b.number(0, r));
  Value slope = b.mul(r, b.make<PowOp>(l, b.add(r, -1)));
  return b.zeroWhere(zero, b.mul(dy, slope));
}
static Value powRight(GradientBuilder &b, Value dy, Value l, Value r, Value y) {
  Value zero = b.make<AndOp>(b.equal(l, b.number(0, l)),
                             b.make<LessEqualOp>(b.number(0, r), r));
  return b.zeroWhere(zero, b.mul(dy, b.mul(y, b.make<LogOp>(l))));
}
KERF_BINARY(PowOp, powLeft(b, dy, l, r), powRight(b, dy, l, r, y))

/// dy where `x` wins, half of it in a tie.
static Value winner(GradientBuilder &b, Value dy, Value loses, Value l,
                    Value r) {
  return b.zeroWhere(loses, b.select(b.equal(l, r), b.mul(dy, 0.5), dy));
}
KERF_BINARY(MaxOp, winner(b, dy, b.less(l, r), l, r),
            winner(b, dy, b.less(r, l), l, r))
KERF_BINARY(MinOp, winner(b, dy, b.less(r, l), l, r),
            winner(b, dy, b.less(l, r), l, r))

KERF_VJP(SelectOp) {
  return elementwise(getOperation(), builder, resultGradients[0],
                     {[](GradientBuilder &, Value) { return Value(); },
                      [&](GradientBuilder &b, Value dy) {
                        return b.keepWhere(getCondition(), dy);
                      },
                      [&](GradientBuilder &b, Value dy) {
                        return b.zeroWhere(getCondition(), dy);
                      }});
}
