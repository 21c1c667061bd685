//===- CanonicalizeNorms.cpp - normalizations and softmax recognised ------===//
//
// Older exporters write (x - mean) / sqrt(mean((x - mean)^2) + eps) * w + b as
// nine ops, RMSNorm as six, softmax as five. The pattern first finds the
// normalization itself, with unit scale and zero bias; a weight and a bias
// behind it are then merged one by one.
//
//===----------------------------------------------------------------------===//
#include "../IR/PatternUtils.h"
#include "kerf/NN/Transforms/Simplify.h"
#include "kerf/Support/Preconditions.h"

#include <cmath>

using namespace kerf;
using namespace kerf::nn;
using namespace mlir;

using Integers = SmallVector<int64_t>;

/// Whether `value`, reduced from x over `dims`, lies along the other dimensions
/// of x where it is broadcast: without the dimensions of size 1 that keepdims
/// leaves, a row of means lies along the last.
static bool liesAlong(Value value, Value x, ArrayRef<int64_t> dims) {
  if (rankOf(value) > rankOf(x))
    return false;
  Integers kept(shapeOf(x)), padded(rankOf(x) - rankOf(value), 1);
  for (int64_t dim : dims)
    kept[dim] = 1;
  llvm::append_range(padded, shapeOf(value));
  return padded == kept;
}

namespace {

struct Mean {
  Value x;
  Integers dims;
};

/// mean over trailing dimensions, with or without the dimensions of size 1
/// that keepdims leaves: sum / n or sum * (1 / n).
std::optional<Mean> matchMean(Value value) {
  value = behindUnitReshapes(value);
  ReduceOp sum;
  double factor = 1;
  if (auto mul = value.getDefiningOp<MulOp>()) {
    auto number = splatOf(mul.getRhs());
    sum = behindUnitReshapes(mul.getLhs()).getDefiningOp<ReduceOp>();
    factor = number.value_or(0);
  } else if (auto div = value.getDefiningOp<DivOp>()) {
    auto number = splatOf(div.getRhs());
    sum = behindUnitReshapes(div.getLhs()).getDefiningOp<ReduceOp>();
    factor = number && *number != 0 ? 1 / *number : 0;
  }
  if (!sum || sum.getKind() != ReduceKind::Sum || sum.getDims().empty())
    return std::nullopt;
  int64_t count = 1;
  for (int64_t dim : sum.getDims())
    count *= shapeOf(sum.getX())[dim];
  if (!holds(sum, Precondition::MeanDividesByCount,
             std::fabs(factor * double(count) - 1) <= 1e-5))
    return std::nullopt;
  // Trailing.
  ArrayRef<int64_t> dims = sum.getDims();
  if (dims.back() + 1 != rankOf(sum.getX()) ||
      dims.front() + int64_t(dims.size()) != rankOf(sum.getX()))
    return std::nullopt;
  return Mean{sum.getX(), Integers(dims)};
}

/// The parts of x / sqrt(v) or x * rsqrt(v): x, v (behind unit reshapes), and
/// `root`, the operand that is broadcast.
struct OverRoot {
  Value x, v, root;
};
std::optional<OverRoot> matchOverRoot(Operation *op) {
  if (auto div = dyn_cast<DivOp>(op)) {
    auto sqrt = behindUnitReshapes(div.getRhs()).getDefiningOp<SqrtOp>();
    if (sqrt)
      return OverRoot{div.getLhs(), behindUnitReshapes(sqrt.getX()),
                      div.getRhs()};
  }
  if (auto mul = dyn_cast<MulOp>(op))
    for (bool swap : {false, true}) {
      Value x = swap ? mul.getRhs() : mul.getLhs();
      Value root = swap ? mul.getLhs() : mul.getRhs();
      auto rsqrt = behindUnitReshapes(root).getDefiningOp<RsqrtOp>();
      if (rsqrt)
        return OverRoot{x, behindUnitReshapes(rsqrt.getX()), root};
    }
  return std::nullopt;
}

/// mean(x * x) + eps for this x.
std::optional<std::pair<Mean, double>> matchMeanSquare(Value v, Value x) {
  auto add = v.getDefiningOp<AddOp>();
  if (!add)
    return std::nullopt;
  auto epsilon = splatOf(add.getRhs());
  auto mean = matchMean(add.getLhs());
  if (!epsilon || !mean)
    return std::nullopt;
  if (auto square = mean->x.getDefiningOp<MulOp>();
      square && holds(add, Precondition::SquareOfSame,
                      square.getLhs() == x && square.getRhs() == x))
    return std::make_pair(*mean, *epsilon);
  if (auto power = mean->x.getDefiningOp<PowOp>();
      power && holds(add, Precondition::SquareOfSame, power.getLhs() == x) &&
      isSplatOf(power.getRhs(), 2))
    return std::make_pair(*mean, *epsilon);
  return std::nullopt;
}

/// x where `centred` is x - mean(x) over `dims`.
Value matchCentred(Value centred, ArrayRef<int64_t> dims) {
  auto sub = centred.getDefiningOp<SubOp>();
  if (!sub)
    return {};
  auto mean = matchMean(sub.getRhs());
  if (!mean ||
      !holds(sub, Precondition::CentreLiesAlong,
             mean->x == sub.getLhs() && ArrayRef<int64_t>(mean->dims) == dims &&
                 liesAlong(sub.getRhs(), sub.getLhs(), dims)))
    return {};
  return sub.getLhs();
}

Value splat(PatternRewriter &rewriter, Location loc, RankedTensorType type,
            double number) {
  return ConstantOp::create(
      rewriter, loc,
      DenseElementsAttr::get(
          type, rewriter.getFloatAttr(type.getElementType(), number)));
}

/// layer_norm or rms_norm with unit scale.
struct RecogniseNorm : RewritePattern {
  RecogniseNorm(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 6, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isa<DivOp, MulOp>(op) || isPlanned(op))
      return failure();
    auto root = matchOverRoot(op);
    if (!root)
      return failure();
    Value x = root->x;
    auto square = matchMeanSquare(root->v, x);
    if (!square ||
        !holds(op, Precondition::NormLiesAlong,
               liesAlong(root->root, x, square->first.dims)) ||
        x.getType() != op->getResult(0).getType() ||
        !isa<FloatType>(typeOf(x).getElementType()))
      return failure();
    Integers dims = square->first.dims;
    auto trailing = RankedTensorType::get(shapeOf(x).drop_front(dims.front()),
                                          typeOf(x).getElementType());
    Value one = splat(rewriter, op->getLoc(), trailing, 1);
    auto dim = uint64_t(dims.front());
    APFloat epsilon(square->second);
    if (Value whole = matchCentred(x, dims)) {
      Value zero = splat(rewriter, op->getLoc(), trailing, 0);
      rewriter.replaceOpWithNewOp<LayerNormOp>(op, whole, one, zero, dim,
                                               epsilon);
    } else {
      rewriter.replaceOpWithNewOp<RMSNormOp>(op, x, one, dim, epsilon);
    }
    return success();
  }
};

/// `vector` if it has the trailing shape, else null.
Value asTrailing(PatternRewriter &rewriter, Location loc, Value vector,
                 ArrayRef<int64_t> trailing) {
  int64_t count = 1;
  for (int64_t size : trailing)
    count *= size;
  if (typeOf(vector).getNumElements() != count ||
      rankOf(vector) < int64_t(trailing.size()) ||
      shapeOf(vector).take_back(trailing.size()) != trailing)
    return {};
  return makeReshape(rewriter, loc, vector, trailing);
}

/// norm(x, 1) * w is norm(x, w).
template <typename Op> struct FuseScale : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp mul,
                                PatternRewriter &rewriter) const override {
    if (isPlanned(mul))
      return failure();
    for (bool swap : {false, true}) {
      auto norm =
          (swap ? mul.getRhs() : mul.getLhs()).template getDefiningOp<Op>();
      Value vector = swap ? mul.getLhs() : mul.getRhs();
      if (!norm || !norm->hasOneUse() ||
          !holds(mul, Precondition::ScaleWasOne,
                 isSplatOf(norm.getScale(), 1)) ||
          norm.getType() != mul.getType())
        continue;
      if constexpr (std::is_same_v<Op, LayerNormOp>)
        if (!holds(mul, Precondition::BiasWasZero,
                   isSplatOf(norm.getBias(), 0)))
          continue;
      Value scale =
          asTrailing(rewriter, mul.getLoc(), vector, shapeOf(norm.getScale()));
      if (!scale)
        continue;
      SmallVector<Value> operands(norm->getOperands());
      operands[1] = scale;
      rewriter.replaceOp(
          mul, cloneWith(rewriter, norm, operands, shapeOf(norm.getResult())));
      return success();
    }
    return failure();
  }
};

/// layer_norm(x, w, 0) + b is layer_norm(x, w, b).
struct FuseBias : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp add,
                                PatternRewriter &rewriter) const override {
    if (isPlanned(add))
      return failure();
    for (bool swap : {false, true}) {
      auto norm =
          (swap ? add.getRhs() : add.getLhs()).getDefiningOp<LayerNormOp>();
      Value vector = swap ? add.getLhs() : add.getRhs();
      // Only a parameter is taken as bias: any other value may have this shape
      // by accident.
      if (!norm || !norm->hasOneUse() ||
          !holds(add, Precondition::BiasWasZero,
                 isSplatOf(norm.getBias(), 0)) ||
          norm.getType() != add.getType() ||
          !isSource(behindUnitReshapes(vector)))
        continue;
      Value bias =
          asTrailing(rewriter, add.getLoc(), vector, shapeOf(norm.getBias()));
      if (!bias)
        continue;
      rewriter.replaceOpWithNewOp<LayerNormOp>(
          add, norm.getX(), norm.getScale(), bias, norm.getDimAttr(),
          norm.getEpsilonAttr());
      return success();
    }
    return failure();
  }
};

/// exp(x - max x) / sum of it.
struct RecogniseSoftmax : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp div,
                                PatternRewriter &rewriter) const override {
    auto exp = div.getLhs().getDefiningOp<ExpOp>();
    auto sum = behindUnitReshapes(div.getRhs()).getDefiningOp<ReduceOp>();
    if (!exp || !sum || isPlanned(div) ||
        !holds(div, Precondition::SoftmaxSumsItself,
               sum.getX() == exp.getResult()) ||
        !holds(div, Precondition::SoftmaxAddsUp,
               sum.getKind() == ReduceKind::Sum) ||
        sum.getDims().size() != 1 || div.getType() != exp.getType())
      return failure();
    auto dim = sum.getDims()[0];
    // The division must be along the same dimension.
    if (!holds(div, Precondition::SoftmaxLiesAlong,
               liesAlong(div.getRhs(), exp, {dim})))
      return failure();
    Value x = exp.getX();
    if (auto sub = x.getDefiningOp<SubOp>())
      if (auto max = behindUnitReshapes(sub.getRhs()).getDefiningOp<ReduceOp>();
          max && max.getKind() == ReduceKind::Max &&
          holds(div, Precondition::MaximumOfRow,
                max.getDims() == sum.getDims() && max.getX() == sub.getLhs() &&
                    liesAlong(sub.getRhs(), sub.getLhs(), {dim})))
        x = sub.getLhs();
    rewriter.replaceOpWithNewOp<SoftmaxOp>(div, x, uint64_t(dim));
    return success();
  }
};

} // namespace

void kerf::nn::populateRecognitionPatterns(RewritePatternSet &patterns) {
  patterns.add<RecogniseNorm, FuseScale<LayerNormOp>, FuseScale<RMSNormOp>,
               FuseBias, RecogniseSoftmax>(patterns.getContext());
  populateGeluPattern(patterns);
}
