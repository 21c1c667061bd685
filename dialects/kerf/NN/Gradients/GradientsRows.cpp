//===- GradientsRows.cpp - gradients of reductions and normalizations -----===//
//
// Composed of row reductions and elementwise ops, which lowering fuses. Norms
// recompute their statistics from x instead of keeping them; softmax needs only
// its result. Narrow floats are computed in f32.
//
//===----------------------------------------------------------------------===//
#include "../IR/PatternUtils.h"
#include "GradientBuilder.h"

#include "kerf/Interfaces/Placement.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

#define KERF_VJP(Op)                                                           \
  Gradients Op::buildVectorJacobianProduct(OpBuilder &builder,                 \
                                           ValueRange resultGradients)

using Dims = SmallVector<int64_t>;

static Dims range(int64_t from, int64_t to) {
  Dims dims;
  for (int64_t dim = from; dim < to; ++dim)
    dims.push_back(dim);
  return dims;
}

/// The product of all other elements: y / x without zeros; with one zero in the
/// range, the product of the rest at the zero and 0 elsewhere.
static Value productSlope(GradientBuilder &b, Value x, Value y,
                          ArrayRef<int64_t> dims) {
  Value isZero = b.equal(x, b.number(0, x)), one = b.number(1, x);
  Value zeros = b.sumKeep(b.select(isZero, one, b.number(0, x)), dims);
  Value rest = b.restore(
      b.reduce(b.select(isZero, one, x), ReduceKind::Prod, dims), x, dims);
  Value alone = b.keepWhere(b.equal(zeros, one), rest);
  return b.select(isZero, alone, b.div(y, b.select(isZero, one, x)));
}

KERF_VJP(ReduceOp) {
  Value dy = resultGradients[0];
  if (!dy || !isDifferentiable(getX()))
    return SmallVector<Value>(1);
  GradientBuilder b(builder, getLoc());
  Value x = getX(), y = b.restore(getResult(), x, getDims());
  Value dx = b.restore(dy, x, getDims());
  switch (getKind()) {
  case ReduceKind::Sum:
    dx = b.broadcast(dx, shapeOf(x));
    break;
  case ReduceKind::Max:
  case ReduceKind::Min: {
    // Ties share the gradient evenly.
    Value extreme = b.equal(x, y);
    Value ties =
        b.sumKeep(b.select(extreme, b.number(1, x), b.number(0, x)), getDims());
    dx = b.keepWhere(extreme, b.div(dx, ties));
    break;
  }
  case ReduceKind::Prod:
    dx = b.mul(dx, productSlope(b, x, y, getDims()));
    break;
  }
  return SmallVector<Value>{dx};
}

KERF_VJP(ArgReduceOp) { return SmallVector<Value>(1); }
KERF_VJP(TopKOp) { return SmallVector<Value>(1); }

/// dx = y (dy - sum(y dy)).
KERF_VJP(SoftmaxOp) {
  Value dy = resultGradients[0];
  if (!dy || !isDifferentiable(getX()))
    return SmallVector<Value>(1);
  GradientBuilder b(builder, getLoc());
  Value y = b.widen(getResult()), g = b.widen(dy);
  auto dim = static_cast<int64_t>(getDim());
  Value dot = b.sumKeep(b.mul(y, g), {dim});
  return SmallVector<Value>{b.castLike(b.mul(y, b.sub(g, dot)), dy)};
}

/// dx = dy - exp(y) sum(dy).
KERF_VJP(LogSoftmaxOp) {
  Value dy = resultGradients[0];
  if (!dy || !isDifferentiable(getX()))
    return SmallVector<Value>(1);
  GradientBuilder b(builder, getLoc());
  Value y = b.widen(getResult()), g = b.widen(dy);
  auto dim = static_cast<int64_t>(getDim());
  Value sum = b.sumKeep(g, {dim});
  return SmallVector<Value>{b.castLike(b.sub(g, b.mul(b.exp(y), sum)), dy)};
}

namespace {

/// Rows of dimensions `dims` and the values that the gradients of both norms
/// share.
struct NormRows {
  GradientBuilder &b;
  Dims dims;
  double size;

  NormRows(GradientBuilder &b, Value x, int64_t dim)
      : b(b), dims(range(dim, rankOf(x))), size(1) {
    for (int64_t d : dims)
      size *= static_cast<double>(shapeOf(x)[d]);
  }
  Value mean(Value x) { return b.mul(b.sumKeep(x, dims), 1 / size); }
};

} // namespace

/// Of a norm y = h scale (+ bias) with h = c r, where r = 1 / sqrt(mean(c^2) +
/// epsilon), and c = x - mean(x) in a layer norm, x in an RMS norm. With g = dy
/// scale: dx = r (g - h mean(g h)), in a layer norm less r mean(g).
template <typename Op>
static Gradients normGradients(Op op, OpBuilder &builder, Value dy) {
  constexpr bool isLayerNorm = std::is_same_v<Op, LayerNormOp>;
  SmallVector<Value> gradients(op->getNumOperands());
  if (!dy)
    return gradients;
  GradientBuilder b(builder, op.getLoc());
  NormRows rows(b, op.getX(), static_cast<int64_t>(op.getDim()));
  Value x = b.widen(op.getX()), g = b.widen(dy), scale = b.widen(op.getScale());
  Value c = isLayerNorm ? b.sub(x, rows.mean(x)) : x;
  Value r =
      b.rsqrt(b.add(rows.mean(b.square(c)), op.getEpsilon().convertToDouble()));
  Value h = b.mul(c, r);
  if (isDifferentiable(op.getX())) {
    Value s = b.mul(g, scale);
    Value centred = isLayerNorm ? b.sub(s, rows.mean(s)) : s;
    Value inner = b.sub(centred, b.mul(h, rows.mean(b.mul(s, h))));
    gradients[0] = b.castLike(b.mul(r, inner), dy);
  }
  auto ofParameter = [&](Value gradient, Value parameter) {
    return b.castLike(b.unbroadcast(gradient, parameter), parameter);
  };
  if (isDifferentiable(op.getScale()))
    gradients[1] = ofParameter(b.mul(g, h), op.getScale());
  if constexpr (isLayerNorm)
    if (isDifferentiable(op.getBias()))
      gradients[2] = ofParameter(g, op.getBias());
  return gradients;
}
KERF_VJP(LayerNormOp) {
  return normGradients(*this, builder, resultGradients[0]);
}
KERF_VJP(RMSNormOp) {
  return normGradients(*this, builder, resultGradients[0]);
}

/// With n the norm and y = x / n: dx = (dy - n' sum(dy y)) / n, where n' =
/// dn/dx is y, or the sign of x in a sum of magnitudes. Nothing for rows of
/// zeros.
KERF_VJP(LpNormOp) {
  Value dy = resultGradients[0];
  if (!dy || !isDifferentiable(getX()))
    return SmallVector<Value>(1);
  GradientBuilder b(builder, getLoc());
  NormRows rows(b, getX(), static_cast<int64_t>(getDim()));
  Value x = b.widen(getX()), g = b.widen(dy);
  Value norm = getAbsolute()
                   ? b.sumKeep(b.make<AbsOp>(x), rows.dims)
                   : b.make<SqrtOp>(b.sumKeep(b.square(x), rows.dims));
  Value zero = b.equal(norm, b.number(0, norm));
  norm = b.select(zero, b.number(1, norm), norm);
  Value y = b.div(x, norm);
  Value slope = getAbsolute() ? b.make<SignOp>(x) : y;
  Value sum = b.sumKeep(b.mul(g, y), rows.dims);
  Value dx = b.div(b.sub(g, b.mul(slope, sum)), norm);
  return SmallVector<Value>{b.castLike(b.zeroWhere(zero, dx), dy)};
}

/// Per channel, with r = 1 / sqrt(variance + epsilon):
///   dx = dy scale r, d scale = r sum(dy (x - mean)), d bias = sum(dy),
///   d mean = -scale r d bias, d variance = -1/2 scale r^2 d scale.
/// Statistics that are themselves functions of x add their own part to dx.
KERF_VJP(BatchNormOp) {
  SmallVector<Value> gradients(5);
  Value dy = resultGradients[0];
  if (!dy)
    return gradients;
  GradientBuilder b(builder, getLoc());
  Value g = b.widen(dy), scale = b.widen(getScale());
  Value r =
      b.rsqrt(b.add(b.widen(getVariance()), getEpsilon().convertToDouble()));
  Value slope = b.mul(scale, r);
  if (isDifferentiable(getX()))
    gradients[0] = b.castLike(b.mul(g, slope), dy);
  auto wanted = [&](unsigned operand) {
    return isDifferentiable(getOperand(operand));
  };
  // Sums in the gradients of statistics have the reach of the statistics.
  const PlacementInterface *placement = getPlacement(*this);
  bool isLocal = placement && placement->isReductionLocal(*this);
  auto localSum = [&](Value x, Value like) {
    Value sum = b.unbroadcast(x, like);
    for (Value made = sum; isLocal && made;) {
      Operation *op = made.getDefiningOp();
      if (isa<ReduceOp>(op))
        placement->inheritReach(*this, op);
      made = isa<ReshapeOp>(op) ? op->getOperand(0) : Value();
    }
    return sum;
  };
  auto give = [&](unsigned operand, Value gradient) {
    gradients[operand] = b.castLike(gradient, getOperand(operand));
  };
  if (wanted(1) || wanted(4)) {
    Value centred = b.sub(b.widen(getX()), b.widen(getMean()));
    Value dScale = b.mul(b.unbroadcast(b.mul(g, centred), getScale()), r);
    if (wanted(1))
      give(1, dScale);
    if (wanted(4)) {
      Value sum = isLocal ? b.mul(localSum(b.mul(g, centred), getVariance()), r)
                          : dScale;
      give(4, b.mul(b.mul(b.mul(slope, r), sum), -0.5));
    }
  }
  if (wanted(2) || wanted(3)) {
    Value dBias = b.unbroadcast(g, getBias());
    if (wanted(2))
      give(2, dBias);
    if (wanted(3))
      give(3, b.neg(b.mul(slope, isLocal ? localSum(g, getMean()) : dBias)));
  }
  return gradients;
}

/// The sum over channels c - before to c + after: a pool with the channel as
/// its only dimension in space, times its size.
static Value windowSum(GradientBuilder &b, Value x, int64_t before,
                       int64_t after) {
  Dims shape(shapeOf(x));
  int64_t channels = shape.back(), size = before + after + 1;
  Value rows =
      b.reshape(x, {typeOf(x).getNumElements() / channels, channels, 1});
  OpBuilder attributes(x.getContext());
  auto list = [&](int64_t value) {
    return attributes.getDenseI64ArrayAttr({value});
  };
  Value mean =
      b.make<AvgPoolOp>(rows, list(size), list(1), list(before), list(after),
                        list(1), attributes.getUnitAttr(), DenseI64ArrayAttr());
  return b.mul(b.reshape(mean, shape), static_cast<double>(size));
}

/// y = x s^-beta, s = bias + a window(x^2) with a = alpha / size, so
///   dx = dy s^-beta - 2 a beta x window'(dy x s^(-beta-1))
/// where window' looks the other way.
KERF_VJP(LRNOp) {
  Value dy = resultGradients[0];
  if (!dy || !isDifferentiable(getX()))
    return SmallVector<Value>(1);
  GradientBuilder b(builder, getLoc());
  Value x = b.widen(getX()), g = b.widen(dy);
  auto size = static_cast<int64_t>(getSize());
  int64_t before = (size - 1) / 2, after = size / 2;
  double a = getAlpha().convertToDouble() / static_cast<double>(size);
  double beta = getBeta().convertToDouble();
  Value s = b.add(b.mul(windowSum(b, b.square(x), before, after), a),
                  getBias().convertToDouble());
  Value direct = b.mul(g, b.make<PowOp>(s, b.number(-beta, s)));
  Value others = windowSum(b, b.div(b.mul(direct, x), s), after, before);
  Value dx = b.sub(direct, b.mul(b.mul(x, others), 2 * a * beta));
  return SmallVector<Value>{b.castLike(dx, dy)};
}
