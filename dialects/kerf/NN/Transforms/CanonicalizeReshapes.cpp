//===- CanonicalizeReshapes.cpp - reshapes sink and cancel ----------------===//
//
// Exporters flatten [batch, sequence, hidden] to a matrix for a product and
// reshape the result back. nn.matmul takes any leading dimensions, and the
// planner can cut batch and sequence only if they are apart: a reshape that
// keeps the last dimension sinks below the product, its bias and the ops behind
// it, until it meets the one that undoes it.
//
//===----------------------------------------------------------------------===//
#include "../IR/PatternUtils.h"
#include "kerf/NN/Transforms/Simplify.h"
#include "kerf/Support/Preconditions.h"

using namespace kerf;
using namespace kerf::nn;
using namespace mlir;

using Integers = SmallVector<int64_t>;

namespace {

/// Leading dimensions of `shape` with `rows` elements together, the last of
/// them a part of one where the reshape cuts it: heads that a projection takes
/// together are split off the samples that they stand beside. Empty if it takes
/// fewer than two.
Integers leadingDims(ArrayRef<int64_t> shape, int64_t rows) {
  Integers dims;
  for (int64_t size : shape) {
    if (rows <= 1 || size < 1)
      break;
    if (rows % size && size % rows)
      return {};
    dims.push_back(std::min(size, rows));
    rows /= dims.back();
  }
  return rows == 1 && dims.size() > 1 ? dims : Integers();
}

/// matmul(reshape(x), w) with a matrix w is reshape(matmul(x, w)).
struct SinkBelowMatmul : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    auto reshape = op.getLhs().getDefiningOp<ReshapeOp>();
    if (!reshape || rankOf(op.getRhs()) != 2 || rankOf(op.getLhs()) != 2 ||
        isPlanned(op) ||
        !holds(op, Precondition::RowsComeFirst, !op.getTransposeLhs()))
      return failure();
    Integers rows =
        leadingDims(shapeOf(reshape.getX()), shapeOf(op.getLhs()).front());
    if (rows.empty())
      return failure();
    rows.push_back(shapeOf(op.getLhs()).back());
    Value lhs = makeReshape(rewriter, op.getLoc(), reshape.getX(), rows);
    Value product = MatmulOp::create(rewriter, op.getLoc(), lhs, op.getRhs(),
                                     false, op.getTransposeRhs());
    rewriter.replaceOp(op, makeReshape(rewriter, op.getLoc(), product,
                                       shapeOf(op.getResult())));
    return success();
  }
};

/// f(reshape(x), y) is reshape(f(x, y)) where y is a number, a vector along a
/// last dimension that the reshape keeps, or a reshape of the same kind.
struct SinkBelowElementwise : RewritePattern {
  SinkBelowElementwise(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isElementwise(op) || isPlanned(op))
      return failure();
    ArrayRef<int64_t> to = shapeOf(op->getResult(0));
    ReshapeOp first;
    for (Value operand : op->getOperands())
      if (auto reshape = operand.getDefiningOp<ReshapeOp>();
          reshape && !first && shapeOf(operand) == to &&
          !isSource(reshape.getX()))
        first = reshape;
    if (!first)
      return failure();
    ArrayRef<int64_t> from = shapeOf(first.getX());
    bool keepsLast = !from.empty() && !to.empty() && from.back() == to.back();
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      auto reshape = operand.getDefiningOp<ReshapeOp>();
      if (reshape && shapeOf(operand) == to && shapeOf(reshape.getX()) == from)
        operands.push_back(reshape.getX());
      else if (rankOf(operand) == 0 ||
               (rankOf(operand) == 1 &&
                holds(op, Precondition::VectorLiesAlong,
                      keepsLast && shapeOf(operand)[0] == to.back())))
        operands.push_back(operand);
      else
        return failure();
    }
    Value inner = cloneWith(rewriter, op, operands, from);
    rewriter.replaceOp(op, makeReshape(rewriter, op->getLoc(), inner, to));
    return success();
  }
};

/// Normalization over a last dimension that the reshape keeps.
template <typename Op> struct SinkBelowNorm : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    auto reshape = op.getX().template getDefiningOp<ReshapeOp>();
    if (!reshape || isPlanned(op))
      return failure();
    ArrayRef<int64_t> from = shapeOf(reshape.getX());
    if (from.size() < 2 ||
        !holds(op, Precondition::NormKeepsRow,
               from.back() == shapeOf(op.getX()).back() &&
                   int64_t(op.getDim()) + 1 == rankOf(op.getX())))
      return failure();
    SmallVector<Value> operands(op->getOperands());
    operands[0] = reshape.getX();
    Value inner = cloneWith(rewriter, op, operands, from);
    inner.getDefiningOp<Op>().setDim(from.size() - 1);
    rewriter.replaceOp(
        op, makeReshape(rewriter, op.getLoc(), inner, shapeOf(op.getResult())));
    return success();
  }
};

/// A reshaped weight is a weight of the other shape, with the same bytes.
struct ReshapeWeight : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto weight = op.getX().getDefiningOp<WeightOp>();
    if (!weight || isPlanned(op) ||
        !holds(op, Precondition::WeightIsWhole, !weight.getStarts()))
      return failure();
    auto view = rewriter.replaceOpWithNewOp<WeightOp>(
        op, op.getType(), weight.getNameAttr(), weight.getFileAttr(),
        weight.getOffsetAttr(), weight.getLengthAttr(),
        TypeAttr::get(op.getType()), DenseI64ArrayAttr());
    view.setInfinite(weight.getInfinite());
    view->setDiscardableAttrs(weight->getDiscardableAttrDictionary());
    return success();
  }
};

/// A reshaped parameter that is a literal is a literal of the other shape, with
/// the same name.
struct ReshapeNamedConstant : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto constant = op.getX().getDefiningOp<ConstantOp>();
    if (!constant || !constant.getName() || isPlanned(op))
      return failure();
    auto reshaped = ConstantOp::create(
        rewriter, op.getLoc(),
        constant.getElements().reshape(typeOf(op.getResult())));
    reshaped.setNameAttr(constant.getNameAttr());
    rewriter.replaceOp(op, reshaped);
    return success();
  }
};

} // namespace

void kerf::nn::populateReshapePatterns(RewritePatternSet &patterns) {
  patterns
      .add<SinkBelowMatmul, SinkBelowElementwise, SinkBelowNorm<LayerNormOp>,
           SinkBelowNorm<RMSNormOp>, ReshapeWeight, ReshapeNamedConstant>(
          patterns.getContext());
}
