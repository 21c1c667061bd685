//===- CanonicalizeSlices.cpp - fused projections taken apart -------------===//
//
// PyTorch's GPT-2 multiplies by one 768x2304 matrix and splits the result into
// q, k and v; contiguous shards of the product would straddle all three. A
// slice of such a product, behind bias, reshapes and transposes, moves up to
// the weight and becomes a view of it: q = x * W[:, 0:768] + b[0:768].
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

bool isCut(SliceOp op, int64_t dim) {
  return op.getSizes()[dim] != shapeOf(op.getX())[dim];
}

/// The only dimension that is cut, with stride 1; none if there are several.
std::optional<int64_t> onlyCut(SliceOp op) {
  std::optional<int64_t> cut;
  for (int64_t dim = 0; dim < rankOf(op.getX()); ++dim) {
    bool takesAll =
        holds(op, Precondition::CutTakesEach, op.getStrides()[dim] == 1);
    if (!isCut(op, dim) && takesAll)
      continue;
    if (cut || !takesAll)
      return std::nullopt;
    cut = dim;
  }
  return cut;
}

Value sliceDim(PatternRewriter &rewriter, Location loc, Value x, int64_t dim,
               int64_t start, int64_t size) {
  if (size == shapeOf(x)[dim])
    return x;
  Integers starts(rankOf(x), 0), sizes(shapeOf(x)), strides(rankOf(x), 1);
  starts[dim] = start;
  sizes[dim] = size;
  return SliceOp::create(rewriter, loc, x, starts, sizes, strides);
}

/// Whether a slice of `value` can reach a product with a weight through ops
/// that only slices read. `fromEnd`: the number of the dimension that is cut,
/// from the last, which is 1; 0: any. Of a product it must be the last one: the
/// steps of a loop, which take rows, are to read a bias that was added once.
bool leadsToProduct(Value value, int64_t fromEnd = 0, int depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 8)
    return false;
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return fromEnd <= 1 &&
           isa_and_nonnull<WeightOp>(matmul.getRhs().getDefiningOp());
  if (isa<ReshapeOp, TransposeOp>(op))
    return leadsToProduct(op->getOperand(0), 0, depth + 1);
  if (isElementwise(op))
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      return leadsToProduct(operand, fromEnd, depth + 1);
    });
  return false;
}

bool onlySlicesRead(Value value) {
  return llvm::all_of(value.getUsers(),
                      [](Operation *user) { return isa<SliceOp>(user); });
}

struct SliceOfSlice : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<SliceOp>();
    if (isPlanned(op))
      return failure();
    if (typeOf(op.getX()) == typeOf(op.getResult()) &&
        holds(
            op, Precondition::SliceKeepsOrder,
            llvm::all_of(op.getStrides(), [](int64_t s) { return s == 1; }))) {
      rewriter.replaceOp(op, op.getX());
      return success();
    }
    if (!inner)
      return failure();
    Integers starts, strides;
    for (size_t d = 0; d < op.getStarts().size(); ++d) {
      starts.push_back(inner.getStarts()[d] +
                       op.getStarts()[d] * inner.getStrides()[d]);
      strides.push_back(inner.getStrides()[d] * op.getStrides()[d]);
    }
    rewriter.replaceOpWithNewOp<SliceOp>(op, inner.getX(), starts,
                                         op.getSizes(), strides);
    return success();
  }
};

/// A slice of a weight is a view of it.
struct SliceOfWeight : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto weight = op.getX().getDefiningOp<WeightOp>();
    // A view of a variable would be what is in the file.
    if (!weight || weight.getVariable() || isPlanned(op) ||
        !holds(op, Precondition::ViewTakesEach,
               llvm::all_of(op.getStrides(), [](int64_t s) { return s == 1; })))
      return failure();
    Integers starts(op.getStarts());
    if (weight.getStarts())
      for (auto [start, base] : llvm::zip(starts, *weight.getStarts()))
        start += base;
    auto view = rewriter.replaceOpWithNewOp<WeightOp>(
        op, op.getType(), weight.getNameAttr(), weight.getFileAttr(),
        weight.getOffsetAttr(), weight.getLengthAttr(), weight.getStoredAttr(),
        rewriter.getDenseI64ArrayAttr(starts));
    view.setInfinite(weight.getInfinite());
    view->setDiscardableAttrs(weight->getDiscardableAttrDictionary());
    return success();
  }
};

struct RiseAboveMatmul : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto matmul = op.getX().getDefiningOp<MatmulOp>();
    auto cut = onlyCut(op);
    if (!matmul || !cut || isPlanned(op) || !onlySlicesRead(op.getX()) ||
        !leadsToProduct(op.getX()) ||
        !holds(op, Precondition::CutIsColumns, *cut == rankOf(op.getX()) - 1))
      return failure();
    int64_t dim = rankOf(matmul.getRhs()) - (matmul.getTransposeRhs() ? 2 : 1);
    Value rhs = sliceDim(rewriter, op.getLoc(), matmul.getRhs(), dim,
                         op.getStarts()[*cut], op.getSizes()[*cut]);
    rewriter.replaceOpWithNewOp<MatmulOp>(op, matmul.getLhs(), rhs,
                                          matmul.getTransposeLhs(),
                                          matmul.getTransposeRhs());
    return success();
  }
};

struct RiseAboveElementwise : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    Operation *producer = op.getX().getDefiningOp();
    auto cut = onlyCut(op);
    if (!isElementwise(producer) || !cut || isPlanned(op) ||
        !onlySlicesRead(op.getX()))
      return failure();
    int64_t fromEnd = rankOf(op.getX()) - *cut;
    if (!leadsToProduct(op.getX(), fromEnd))
      return failure();
    SmallVector<Value> operands;
    for (Value operand : producer->getOperands()) {
      int64_t dim = rankOf(operand) - fromEnd;
      bool broadcast = dim < 0 || shapeOf(operand)[dim] == 1;
      operands.push_back(broadcast ? operand
                                   : sliceDim(rewriter, op.getLoc(), operand,
                                              dim, op.getStarts()[*cut],
                                              op.getSizes()[*cut]));
    }
    rewriter.setInsertionPoint(op);
    rewriter.replaceOp(
        op, cloneWith(rewriter, producer, operands, shapeOf(op.getResult())));
    return success();
  }
};

/// The cut dimension is outermost in its group: [..., 3 e] -> [..., 3, e].
struct RiseAboveReshape : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto reshape = op.getX().getDefiningOp<ReshapeOp>();
    auto cut = onlyCut(op);
    if (!reshape || !cut || isPlanned(op) || !leadsToProduct(op.getX()))
      return failure();
    ArrayRef<int64_t> from = shapeOf(reshape.getX()), to = shapeOf(op.getX());
    auto groups = reshapeGroups(from, to);
    if (!groups)
      return failure();
    for (const ReshapeGroup &group : *groups) {
      if (*cut < group.to || *cut >= group.toEnd)
        continue;
      // Dimensions of size 1 in front of the cut one do not matter.
      bool outermost = llvm::all_of(to.slice(group.to, *cut - group.to),
                                    [](int64_t size) { return size == 1; });
      int64_t inner = 1;
      for (int64_t dim = *cut + 1; dim < group.toEnd; ++dim)
        inner *= to[dim];
      int64_t start = op.getStarts()[*cut] * inner,
              size = op.getSizes()[*cut] * inner;
      // The outermost dimension of the source's group that is not 1.
      int64_t dim = group.from;
      while (dim + 1 < group.fromEnd && from[dim] == 1)
        ++dim;
      int64_t below = 1;
      for (int64_t d = dim + 1; d < group.fromEnd; ++d)
        below *= from[d];
      if (!holds(op, Precondition::CutIsWhole,
                 outermost && start % below == 0 && size % below == 0))
        return failure();
      Value sliced = sliceDim(rewriter, op.getLoc(), reshape.getX(), dim,
                              start / below, size / below);
      rewriter.replaceOp(op, makeReshape(rewriter, op.getLoc(), sliced,
                                         shapeOf(op.getResult())));
      return success();
    }
    return failure();
  }
};

} // namespace

void kerf::nn::populateSlicePatterns(RewritePatternSet &patterns) {
  patterns.add<SliceOfSlice, SliceOfWeight, RiseAboveMatmul,
               RiseAboveElementwise, RiseAboveReshape>(patterns.getContext());
}
