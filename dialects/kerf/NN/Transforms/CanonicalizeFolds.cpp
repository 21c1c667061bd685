//===- CanonicalizeFolds.cpp - constants and identities -------------------===//
//
// Ops on constants are computed, ops without effect are removed, and constants
// shrink to their distinct content.
//
//===----------------------------------------------------------------------===//
#include "../IR/PatternUtils.h"
#include "../IR/Repeats.h"
#include "kerf/NN/IR/Evaluate.h"
#include "kerf/NN/Transforms/Simplify.h"
#include "kerf/Support/Preconditions.h"

#include <cmath>
#include <cstring>

using namespace kerf;
using namespace kerf::nn;
using namespace mlir;

using Integers = SmallVector<int64_t>;

namespace {

/// Any op on unnamed constants.
struct EvaluateConstants : RewritePattern {
  EvaluateConstants(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 10, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (isa<ConstantOp>(op) || op->getNumOperands() == 0 || isPlanned(op))
      return failure();
    DenseElementsAttr value = evaluate(op);
    if (!value)
      return failure();
    rewriter.replaceOp(
        op, makeConstant(rewriter, op->getLoc(),
                         cast<RankedTensorType>(op->getResult(0).getType()),
                         value));
    return success();
  }
};

/// A tensor without elements is a constant, whatever computes it.
struct EmptyIsConstant : RewritePattern {
  EmptyIsConstant(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 11, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (isa<ConstantOp>(op) || op->getNumOperands() == 0 ||
        op->getNumResults() != 1 || isPlanned(op) ||
        op->getName().getDialectNamespace() != "nn")
      return failure();
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!type || type.getNumElements() != 0)
      return failure();
    rewriter.replaceOpWithNewOp<ConstantOp>(
        op, DenseElementsAttr::get(type, ArrayRef<Attribute>()));
    return success();
  }
};

/// x + 0, x - 0, x * 1, x / 1 where the result has the type of x.
struct DropIdentity : RewritePattern {
  DropIdentity(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 5, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isa<AddOp, SubOp, MulOp, DivOp>(op) || isPlanned(op))
      return failure();
    double neutral = isa<AddOp, SubOp>(op) ? 0 : 1;
    bool commutes = isa<AddOp, MulOp>(op);
    for (int keep : {0, 1}) {
      Value kept = op->getOperand(keep);
      if (kept.getType() != op->getResult(0).getType() ||
          !holds(op, Precondition::NeutralStandsRight, keep == 0 || commutes) ||
          !holds(op, Precondition::NumberIsNeutral,
                 splatOf(op->getOperand(1 - keep)) == neutral))
        continue;
      rewriter.replaceOp(op, kept);
      return success();
    }
    return failure();
  }
};

/// Elementwise ops broadcast by themselves: a broadcast in front is removed.
struct DropBroadcast : RewritePattern {
  DropBroadcast(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 5, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isElementwise(op) || op->getNumOperands() < 2 || isPlanned(op))
      return failure();
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
    for (OpOperand &operand : op->getOpOperands()) {
      auto broadcast = operand.get().getDefiningOp<BroadcastOp>();
      if (!broadcast)
        continue;
      Integers joint(shapeOf(broadcast.getX()));
      bool fine = true;
      for (OpOperand &other : op->getOpOperands()) {
        if (&other == &operand)
          continue;
        auto both = broadcastShapes(joint, shapeOf(other.get()));
        fine &= both.has_value();
        if (both)
          joint = *both;
      }
      if (!holds(op, Precondition::OthersFillResult,
                 fine && ArrayRef<int64_t>(joint) == shape))
        continue;
      rewriter.modifyOpInPlace(op, [&] { operand.set(broadcast.getX()); });
      return success();
    }
    return failure();
  }
};

/// `and` with true or with false, also if the constant broadcasts.
struct DropLogicalIdentity : RewritePattern {
  DropLogicalIdentity(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 5, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isa<AndOp, OrOp>(op) || isPlanned(op))
      return failure();
    for (int keep : {0, 1}) {
      auto number = splatOf(op->getOperand(1 - keep));
      if (!number || !holds(op, Precondition::TruthIsNeutral,
                            *number == (isa<AndOp>(op) ? -1 : 0)))
        continue;
      rewriter.replaceOpWithNewOp<BroadcastOp>(op, op->getResult(0).getType(),
                                               op->getOperand(keep));
      return success();
    }
    return failure();
  }
};

/// f(broadcast(x), numbers) becomes broadcast(f(x, numbers)): less work, and
/// the broadcast may be removed further down.
struct SinkBroadcast : RewritePattern {
  SinkBroadcast(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 2, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isElementwise(op) || isPlanned(op))
      return failure();
    BroadcastOp found;
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      if (auto broadcast = operand.getDefiningOp<BroadcastOp>();
          broadcast && !found &&
          shapeOf(operand) == shapeOf(op->getResult(0))) {
        found = broadcast;
        operands.push_back(broadcast.getX());
      } else if (holds(op, Precondition::OthersAreNumbers,
                       rankOf(operand) == 0)) {
        operands.push_back(operand);
      } else {
        return failure();
      }
    }
    if (!found)
      return failure();
    Value small = cloneWith(rewriter, op, operands, shapeOf(found.getX()));
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, op->getResult(0).getType(),
                                             small);
    return success();
  }
};

/// A broadcast that changes nothing, or only adds dimensions of size 1.
struct BroadcastIsReshape : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BroadcastOp op,
                                PatternRewriter &rewriter) const override {
    if (isPlanned(op) || typeOf(op.getX()).getNumElements() !=
                             typeOf(op.getResult()).getNumElements())
      return failure();
    rewriter.replaceOp(op, makeReshape(rewriter, op.getLoc(), op.getX(),
                                       shapeOf(op.getResult())));
    return success();
  }
};

/// A constant that repeats along a dimension which broadcasting would repeat
/// anyway shrinks there; a splat becomes one number.
struct ShrinkConstant : RewritePattern {
  ShrinkConstant(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 4, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isElementwise(op) || op->getNumOperands() < 2 || isPlanned(op))
      return failure();
    for (OpOperand &operand : op->getOpOperands()) {
      auto constant = operand.get().getDefiningOp<ConstantOp>();
      if (!constant || constant.getName() || rankOf(constant) == 0 ||
          typeOf(constant).getNumElements() == 0)
        continue;
      DenseElementsAttr elements = constant.getElements();
      Integers others;
      for (OpOperand &other : op->getOpOperands())
        if (&other != &operand)
          others = *broadcastShapes(others, shapeOf(other.get()));
      ArrayRef<int64_t> result = shapeOf(op->getResult(0));
      if (elements.isSplat() && ArrayRef<int64_t>(others) == result) {
        Attribute number = *elements.getValues<Attribute>().begin();
        auto type = RankedTensorType::get({}, elements.getElementType());
        Value scalar = ConstantOp::create(rewriter, constant.getLoc(),
                                          DenseElementsAttr::get(type, number));
        rewriter.modifyOpInPlace(op, [&] { operand.set(scalar); });
        return success();
      }
      if (elements.isSplat())
        continue;
      ArrayRef<int64_t> sizes = shapeOf(constant);
      Integers repeated;
      for (size_t dim = 0; dim < sizes.size(); ++dim) {
        size_t fromEnd = sizes.size() - dim;
        if (others.size() >= fromEnd &&
            others[others.size() - fromEnd] == sizes[dim])
          repeated.push_back(int64_t(dim));
      }
      elements = shrink(elements, repeated);
      if (elements == constant.getElements())
        continue;
      Value smaller = ConstantOp::create(rewriter, constant.getLoc(), elements);
      rewriter.modifyOpInPlace(op, [&] { operand.set(smaller); });
      return success();
    }
    return failure();
  }
};

/// The forms in which exporters write 1 / sqrt(x).
struct ReciprocalOfSqrt : OpRewritePattern<ReciprocalOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReciprocalOp op,
                                PatternRewriter &rewriter) const override {
    auto sqrt = op.getX().getDefiningOp<SqrtOp>();
    if (!sqrt || isPlanned(op))
      return failure();
    rewriter.replaceOpWithNewOp<RsqrtOp>(op, sqrt.getX());
    return success();
  }
};
struct OneOver : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op,
                                PatternRewriter &rewriter) const override {
    if (isPlanned(op) || op.getType() != op.getRhs().getType() ||
        !isa<FloatType>(typeOf(op.getRhs()).getElementType()) ||
        !holds(op, Precondition::NumeratorIsOne, isSplatOf(op.getLhs(), 1)))
      return failure();
    rewriter.replaceOpWithNewOp<ReciprocalOp>(op, op.getRhs());
    return success();
  }
};

/// x / c becomes x * (1 / c) for a number whose reciprocal is exact.
struct DivideByPowerOfTwo : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op,
                                PatternRewriter &rewriter) const override {
    auto number = splatOf(op.getRhs());
    Type element = typeOf(op.getRhs()).getElementType();
    int exponent;
    if (isPlanned(op) || !number || !isa<FloatType>(element))
      return failure();
    bool isPower = std::fabs(std::frexp(*number, &exponent)) == 0.5;
    if (!holds(op, Precondition::ReciprocalIsExact,
               isPower && std::abs(exponent) <= 14))
      return failure();
    auto type = RankedTensorType::get({}, element);
    Value inverse = ConstantOp::create(
        rewriter, op.getLoc(),
        DenseElementsAttr::get(type,
                               rewriter.getFloatAttr(element, 1 / *number)));
    rewriter.replaceOpWithNewOp<MulOp>(op, op.getLhs(), inverse);
    return success();
  }
};

/// Exporters scale q and k of attention by one number each: scale only one of
/// them, by the product.
struct ScaleOnce : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    MulOp lhs = scaleBehindViews(op.getLhs());
    MulOp rhs = scaleBehindViews(op.getRhs());
    if (!lhs || !rhs || lhs == rhs || isPlanned(op))
      return failure();
    auto type = typeOf(lhs.getRhs());
    FloatAttr both = rewriter.getFloatAttr(
        type.getElementType(), *splatOf(lhs.getRhs()) * *splatOf(rhs.getRhs()));
    if (!holds(op, Precondition::JoinedIsPlain, both.getValue().isNormal()))
      return failure();
    rewriter.setInsertionPoint(lhs);
    Value number = ConstantOp::create(rewriter, op.getLoc(),
                                      DenseElementsAttr::get(type, both));
    rewriter.modifyOpInPlace(lhs, [&] { lhs->setOperand(1, number); });
    rewriter.replaceOp(rhs, rhs.getLhs());
    return success();
  }

  /// x * number with this operand as its only use.
  static MulOp scaleBehindViews(Value value) {
    while (Operation *op = value.getDefiningOp()) {
      if (!holds(op, Precondition::ScaledReadOnce, value.hasOneUse()))
        return {};
      if (auto mul = dyn_cast<MulOp>(op))
        return splatOf(mul.getRhs()) && rankOf(mul.getRhs()) == 0 &&
                       isa<FloatType>(typeOf(value).getElementType())
                   ? mul
                   : MulOp();
      if (!isa<ReshapeOp, TransposeOp>(op))
        return {};
      value = op->getOperand(0);
    }
    return {};
  }
};

/// Moves a number to the right-hand side.
struct NumberRight : RewritePattern {
  NumberRight(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 3, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isa<AddOp, MulOp>(op) || isPlanned(op) ||
        !isSource(op->getOperand(0)) || isSource(op->getOperand(1)))
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      Value first = op->getOperand(0);
      op->setOperand(0, op->getOperand(1));
      op->setOperand(1, first);
    });
    return success();
  }
};

/// PyTorch's attention replaces the NaN of a fully masked row by 0. The
/// replacement is removed behind a constant mask that leaves an element in
/// every row, or one of finite numbers: these make no such NaN. (NaN from
/// scores that are themselves not finite is then kept.)
struct DropMaskGuard : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SelectOp op,
                                PatternRewriter &rewriter) const override {
    auto isNaN = op.getCondition().getDefiningOp<IsNaNOp>();
    auto softmax = op.getOnFalse().getDefiningOp<SoftmaxOp>();
    if (!isNaN || !softmax || op.getType() != softmax.getType() ||
        !isSplatOf(op.getOnTrue(), 0) || isPlanned(op) ||
        !holds(op, Precondition::GuardSeesItself,
               isNaN.getX() == op.getOnFalse()))
      return failure();
    if (auto add = softmax.getX().getDefiningOp<AddOp>()) {
      auto mask = add.getRhs().getDefiningOp<ConstantOp>();
      int64_t fromEnd = rankOf(softmax) - int64_t(softmax.getDim());
      if (!holds(op, Precondition::MaskLeavesSomething,
                 mask ? leavesSomething(mask, rankOf(mask) - fromEnd)
                      : isFiniteChoice(add.getRhs())))
        return failure();
    }
    rewriter.replaceOp(op, softmax.getResult());
    return success();
  }

  /// A computed mask of two finite numbers.
  static bool isFiniteChoice(Value mask) {
    while (auto broadcast = mask.getDefiningOp<BroadcastOp>())
      mask = broadcast.getX();
    auto select = mask.getDefiningOp<SelectOp>();
    if (!select)
      return false;
    auto a = splatOf(select.getOnTrue()), b = splatOf(select.getOnFalse());
    return a && b && std::isfinite(*a) && std::isfinite(*b);
  }

  static bool leavesSomething(ConstantOp mask, int64_t dim) {
    DenseElementsAttr elements = mask.getElements();
    if (!isa<FloatType>(elements.getElementType()))
      return false;
    if (elements.isSplat() || dim < 0)
      return elements.isSplat() && elements.getSplatValue<APFloat>().isFinite();
    // Masks have millions of elements, and most rows begin with a finite one:
    // bits are looked at, up to the first that is.
    ArrayRef<int64_t> shape = shapeOf(mask);
    int64_t inner = 1, size = shape[dim];
    for (int64_t d = dim + 1; d < int64_t(shape.size()); ++d)
      inner *= shape[d];
    auto isFinite = finiteTest(cast<FloatType>(elements.getElementType()));
    if (!isFinite || elements.getNumElements() == 0)
      return false;
    size_t width = elements.getElementType().getIntOrFloatBitWidth() / 8;
    const char *data = elements.getRawData().data();
    int64_t rows = elements.getNumElements() / size;
    for (int64_t row = 0; row < rows; ++row) {
      int64_t begin = row / inner * inner * size + row % inner, k = 0;
      while (k < size && !isFinite(data + (begin + k * inner) * width))
        ++k;
      if (k == size)
        return false;
    }
    return true;
  }

  /// Whether the bits of a number say that it is finite; null: of other types.
  static bool (*finiteTest(FloatType type))(const char *) {
    if (type.isF32())
      return isFinite<uint32_t, 23>;
    if (type.isF64())
      return isFinite<uint64_t, 52>;
    if (type.isBF16())
      return isFinite<uint16_t, 7>;
    return type.isF16() ? isFinite<uint16_t, 10> : nullptr;
  }
  template <typename Word, unsigned mantissa>
  static bool isFinite(const char *bits) {
    Word word;
    std::memcpy(&word, bits, sizeof(word));
    // Without the sign; infinities and NaNs have all bits of the exponent.
    constexpr Word exponent = (Word(~Word(0)) >> 1) >> mantissa;
    return ((word >> mantissa) & exponent) != exponent;
  }
};

/// select(true, a, b) is a.
struct SelectKnown : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SelectOp op,
                                PatternRewriter &rewriter) const override {
    auto condition = op.getCondition().getDefiningOp<ConstantOp>();
    if (!condition || !condition.getElements().isSplat() || isPlanned(op))
      return failure();
    Value taken = condition.getElements().getSplatValue<bool>()
                      ? op.getOnTrue()
                      : op.getOnFalse();
    if (taken.getType() != op.getType())
      return failure();
    rewriter.replaceOp(op, taken);
    return success();
  }
};

} // namespace

void kerf::nn::populateFoldPatterns(RewritePatternSet &patterns) {
  patterns.add<EvaluateConstants, EmptyIsConstant, DropIdentity, DropBroadcast,
               DropLogicalIdentity, SinkBroadcast, BroadcastIsReshape,
               ShrinkConstant, ReciprocalOfSqrt, OneOver, DivideByPowerOfTwo,
               ScaleOnce, NumberRight, DropMaskGuard, SelectKnown>(
      patterns.getContext());
}

void kerf::nn::populateSimplifyPatterns(RewritePatternSet &patterns) {
  populateFoldPatterns(patterns);
  populateReshapePatterns(patterns);
  populateTransposePatterns(patterns);
  populateSlicePatterns(patterns);
  populateRecognitionPatterns(patterns);
  populateGatherPatterns(patterns);
}
