//===- CanonicalizeTransposes.cpp - transposes sink and cancel ------------===//
//
// A convolution net comes from ONNX with a transpose before and after every
// window op. Each transpose sinks below its users until it meets its inverse, a
// matmul that reads either way, or the function's end. An elementwise op of
// transposed operands is the transpose of the op on the originals; a reshape
// lets a transpose pass if the dimensions that it merges or splits stay
// together: transpose(0,3,1,2) then [n,c,h,w] -> [n,c,h*w] is
// [n,h,w,c] -> [n,h*w,c] then transpose(0,2,1).
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

/// transpose(transpose(x)) composes; moving only dimensions of size 1 is a
/// reshape.
struct ComposeTransposes : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    if (isPlanned(op))
      return failure();
    if (auto inner = op.getX().getDefiningOp<TransposeOp>()) {
      Integers perm;
      for (int64_t dim : op.getPerm())
        perm.push_back(inner.getPerm()[dim]);
      rewriter.replaceOp(
          op, makeTranspose(rewriter, op.getLoc(), inner.getX(), perm));
      return success();
    }
    int64_t last = -1;
    for (int64_t dim : op.getPerm()) {
      if (shapeOf(op.getX())[dim] == 1)
        continue;
      if (!holds(op, Precondition::OnlyOnesMove, dim >= last))
        return failure();
      last = dim;
    }
    rewriter.replaceOp(op, makeReshape(rewriter, op.getLoc(), op.getX(),
                                       shapeOf(op.getResult())));
    return success();
  }
};

/// `value`, broadcast right-aligned to rank perm.size() and transposed by the
/// inverse of `perm`, or null where that would cost a transpose of its own.
Value untranspose(PatternRewriter &rewriter, Location loc, Value value,
                  ArrayRef<int64_t> perm, bool build) {
  if (auto transpose = value.getDefiningOp<TransposeOp>())
    if (transpose.getPerm() == perm)
      return transpose.getX();
  if (typeOf(value).getNumElements() == 1 && rankOf(value) == 0)
    return value;
  Integers full(perm.size() - rankOf(value), 1), back;
  llvm::append_range(full, shapeOf(value));
  for (int64_t to : inversePermutation(perm))
    back.push_back(full[to]);
  // At most one dimension that is not 1: its place may change by a reshape.
  int64_t wide = llvm::count_if(full, [](int64_t size) { return size != 1; });
  bool constant = value.getDefiningOp<ConstantOp>() &&
                  !value.getDefiningOp<ConstantOp>().getName();
  if (wide > 1 && !constant)
    return {};
  if (!build)
    return value;
  if (wide > 1)
    return makeTranspose(rewriter, loc, makeReshape(rewriter, loc, value, full),
                         inversePermutation(perm));
  // Drop leading ones: [1, 1, c] reads as [c].
  ArrayRef<int64_t> trimmed(back);
  while (!trimmed.empty() && trimmed.front() == 1)
    trimmed = trimmed.drop_front();
  return makeReshape(rewriter, loc, value, trimmed);
}

struct SinkBelowElementwise : RewritePattern {
  SinkBelowElementwise(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isElementwise(op) || isPlanned(op))
      return failure();
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
    TransposeOp first;
    for (Value operand : op->getOperands())
      if (auto transpose = operand.getDefiningOp<TransposeOp>();
          transpose && !first && rankOf(operand) == int64_t(shape.size()) &&
          !isSource(transpose.getX()))
        first = transpose;
    if (!first)
      return failure();
    Integers perm(first.getPerm());
    for (Value operand : op->getOperands())
      if (!untranspose(rewriter, op->getLoc(), operand, perm, false))
        return failure();
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(
          untranspose(rewriter, op->getLoc(), operand, perm, true));
    Integers inner;
    for (int64_t to : inversePermutation(perm))
      inner.push_back(shape[to]);
    Value result = cloneWith(rewriter, op, operands, inner);
    rewriter.replaceOp(op, makeTranspose(rewriter, op->getLoc(), result, perm));
    return success();
  }
};

struct SinkBelowReshape : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto transpose = op.getX().getDefiningOp<TransposeOp>();
    if (!transpose || isPlanned(op))
      return failure();
    auto groups = reshapeGroups(shapeOf(op.getX()), shapeOf(op.getResult()));
    if (!groups)
      return failure();
    ArrayRef<int64_t> perm = transpose.getPerm();
    ArrayRef<int64_t> result = shapeOf(op.getResult());
    // Groups as blocks of the transposed value; each must be contiguous and
    // ascending before the transpose.
    SmallVector<std::pair<int64_t, size_t>> order;
    for (auto [index, group] : llvm::enumerate(*groups)) {
      if (group.from == group.fromEnd || group.to == group.toEnd)
        return failure();
      for (int64_t dim = group.from + 1; dim < group.fromEnd; ++dim)
        if (!holds(op, Precondition::MergedStayTogether,
                   perm[dim] == perm[dim - 1] + 1))
          return failure();
      order.push_back({perm[group.from], index});
    }
    llvm::sort(order);
    Integers shape, newPerm(result.size());
    for (auto [dim, index] : order) {
      ReshapeGroup group = (*groups)[index];
      for (int64_t to = group.to; to < group.toEnd; ++to) {
        newPerm[to] = int64_t(shape.size());
        shape.push_back(result[to]);
      }
    }
    Value reshaped =
        makeReshape(rewriter, op.getLoc(), transpose.getX(), shape);
    rewriter.replaceOp(op,
                       makeTranspose(rewriter, op.getLoc(), reshaped, newPerm));
    return success();
  }
};

/// A reshape between two transposes only merges dimensions: the second
/// transpose moves up through it and meets the first. (ShuffleNet's channel
/// shuffle.)
struct MeetAcrossReshape : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto reshape = op.getX().getDefiningOp<ReshapeOp>();
    if (!reshape || !reshape->hasOneUse() || isPlanned(op))
      return failure();
    auto first = reshape.getX().getDefiningOp<TransposeOp>();
    if (!first)
      return failure();
    auto groups =
        reshapeGroups(shapeOf(reshape.getX()), shapeOf(reshape.getResult()));
    if (!groups || int64_t(groups->size()) != rankOf(op.getX()))
      return failure();
    Integers perm;
    for (int64_t to : op.getPerm()) {
      const ReshapeGroup &group = (*groups)[to];
      if (group.to != to || group.toEnd != to + 1)
        return failure();
      for (int64_t from = group.from; from < group.fromEnd; ++from)
        perm.push_back(first.getPerm()[from]);
    }
    Value moved = makeTranspose(rewriter, op.getLoc(), first.getX(), perm);
    rewriter.replaceOp(
        op, makeReshape(rewriter, op.getLoc(), moved, shapeOf(op.getResult())));
    return success();
  }
};

/// matmul reads an operand either way: a swap of the last two dimensions goes
/// into its flag, where that makes the transpose vanish or keeps the operand's
/// innermost dimension innermost.
struct FuseIntoMatmul : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    if (isPlanned(op))
      return failure();
    for (bool rhs : {true, false}) {
      Value operand = rhs ? op.getRhs() : op.getLhs();
      auto transpose = operand.getDefiningOp<TransposeOp>();
      if (!transpose)
        continue;
      Integers perm(transpose.getPerm());
      size_t rank = perm.size();
      if (perm[rank - 2] != int64_t(rank) - 1)
        continue;
      std::swap(perm[rank - 2], perm[rank - 1]);
      Value inner =
          makeTranspose(rewriter, op.getLoc(), transpose.getX(), perm);
      bool transposeLhs = op.getTransposeLhs(),
           transposeRhs = op.getTransposeRhs();
      if (rhs)
        transposeRhs = !transposeRhs;
      else
        transposeLhs = !transposeLhs;
      rewriter.modifyOpInPlace(op, [&] {
        op->setOperand(rhs ? 1 : 0, inner);
        op.setTransposeLhs(transposeLhs);
        op.setTransposeRhs(transposeRhs);
      });
      return success();
    }
    return failure();
  }
};

/// Reductions over transposed dimensions are reductions over the originals.
struct SinkBelowReduce : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op,
                                PatternRewriter &rewriter) const override {
    auto transpose = op.getX().getDefiningOp<TransposeOp>();
    if (!transpose || isPlanned(op))
      return failure();
    ArrayRef<int64_t> perm = transpose.getPerm();
    Integers dims, kept;
    for (auto [dim, from] : llvm::enumerate(perm))
      (llvm::is_contained(op.getDims(), int64_t(dim)) ? dims : kept)
          .push_back(from);
    llvm::sort(dims);
    Value reduced = ReduceOp::create(rewriter, op.getLoc(), transpose.getX(),
                                     op.getKind(), dims);
    // The kept dimensions, counted without the reduced ones.
    Integers newPerm;
    for (int64_t from : kept)
      newPerm.push_back(
          from - llvm::count_if(dims, [&](int64_t dim) { return dim < from; }));
    rewriter.replaceOp(op,
                       makeTranspose(rewriter, op.getLoc(), reduced, newPerm));
    return success();
  }
};

/// f(transpose(x), ...) is transpose(g(x, ...)) where `onOriginal` builds g, of
/// the same kind as f with its dimensions renumbered; null, with nothing built:
/// not this f.
template <typename Op, Value (*onOriginal)(Op, TransposeOp, PatternRewriter &)>
struct SinkBelow : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    auto transpose = op->getOperand(0).template getDefiningOp<TransposeOp>();
    if (!transpose || isPlanned(op))
      return failure();
    Value inner = onOriginal(op, transpose, rewriter);
    if (!inner)
      return failure();
    rewriter.replaceOp(
        op, makeTranspose(rewriter, op.getLoc(), inner, transpose.getPerm()));
    return success();
  }
};

/// softmax, log_softmax.
template <typename Op>
Value softmaxOnOriginal(Op op, TransposeOp transpose,
                        PatternRewriter &rewriter) {
  return Op::create(rewriter, op.getLoc(), transpose.getX(),
                    transpose.getPerm()[op.getDim()]);
}

/// A product with a matrix, and normalization, keep the other dimensions: if
/// the last one stays last, the transpose passes.
Value matmulOnOriginal(MatmulOp op, TransposeOp transpose,
                       PatternRewriter &rewriter) {
  if (rankOf(op.getRhs()) != 2 || isSource(transpose.getX()) ||
      !holds(op, Precondition::LastStaysLast,
             !op.getTransposeLhs() &&
                 transpose.getPerm().back() == rankOf(op.getLhs()) - 1))
    return {};
  return MatmulOp::create(rewriter, op.getLoc(), transpose.getX(), op.getRhs(),
                          false, op.getTransposeRhs());
}
template <typename Op>
Value normOnOriginal(Op op, TransposeOp transpose, PatternRewriter &rewriter) {
  ArrayRef<int64_t> perm = transpose.getPerm();
  for (size_t dim = op.getDim(); dim < perm.size(); ++dim)
    if (!holds(op, Precondition::NormKeepsPlace, perm[dim] == int64_t(dim)))
      return {};
  SmallVector<Value> operands(op->getOperands());
  operands[0] = transpose.getX();
  return cloneWith(rewriter, op, operands, shapeOf(transpose.getX()));
}

Value padOnOriginal(PadOp op, TransposeOp transpose,
                    PatternRewriter &rewriter) {
  Integers low(op.getLow().size()), high(op.getLow().size());
  for (auto [to, from] : llvm::enumerate(transpose.getPerm())) {
    low[from] = op.getLow()[to];
    high[from] = op.getHigh()[to];
  }
  return PadOp::create(rewriter, op.getLoc(), transpose.getX(), low, high,
                       op.getValue());
}

Value sliceOnOriginal(SliceOp op, TransposeOp transpose,
                      PatternRewriter &rewriter) {
  size_t rank = op.getStarts().size();
  Integers starts(rank), sizes(rank), strides(rank);
  for (auto [to, from] : llvm::enumerate(transpose.getPerm())) {
    starts[from] = op.getStarts()[to];
    sizes[from] = op.getSizes()[to];
    strides[from] = op.getStrides()[to];
  }
  return SliceOp::create(rewriter, op.getLoc(), transpose.getX(), starts, sizes,
                         strides);
}

struct SinkBelowConcat : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override {
    auto first = op.getInputs()[0].getDefiningOp<TransposeOp>();
    if (!first || isPlanned(op))
      return failure();
    ArrayRef<int64_t> perm = first.getPerm();
    SmallVector<Value> inputs;
    for (Value input : op.getInputs()) {
      auto transpose = input.getDefiningOp<TransposeOp>();
      if (!transpose || !holds(op, Precondition::TransposedAlike,
                               transpose.getPerm() == perm))
        return failure();
      inputs.push_back(transpose.getX());
    }
    Value inner = ConcatOp::create(rewriter, op.getLoc(), inputs,
                                   uint64_t(perm[op.getDim()]));
    rewriter.replaceOp(
        op, makeTranspose(rewriter, op.getLoc(), inner, Integers(perm)));
    return success();
  }
};

} // namespace

void kerf::nn::populateTransposePatterns(RewritePatternSet &patterns) {
  patterns
      .add<ComposeTransposes, MeetAcrossReshape, SinkBelowElementwise,
           SinkBelowReshape, FuseIntoMatmul, SinkBelowReduce,
           SinkBelow<SoftmaxOp, softmaxOnOriginal>,
           SinkBelow<LogSoftmaxOp, softmaxOnOriginal>, SinkBelowConcat,
           SinkBelow<PadOp, padOnOriginal>, SinkBelow<SliceOp, sliceOnOriginal>,
           SinkBelow<MatmulOp, matmulOnOriginal>,
           SinkBelow<LayerNormOp, normOnOriginal>,
           SinkBelow<RMSNormOp, normOnOriginal>>(patterns.getContext());
}
