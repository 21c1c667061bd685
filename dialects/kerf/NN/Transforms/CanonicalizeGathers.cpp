//===- CanonicalizeGathers.cpp - gathers that are slices ------------------===//
//
// Exporters write slices as gathers with constant indices: x[:, 0] becomes a
// gather of index 0, masks are read through gathers of 0, 1, 2, ... A gather
// whose indices are consecutive numbers is a slice and a reshape, which can be
// sharded and fused where a gather cannot.
//
//===----------------------------------------------------------------------===//
#include "../IR/PatternUtils.h"
#include "kerf/NN/Transforms/Simplify.h"
#include "kerf/Support/Preconditions.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

namespace {

struct GatherOfRun : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    auto constant = op.getIndices().getDefiningOp<ConstantOp>();
    auto data = cast<RankedTensorType>(op.getData().getType());
    int64_t size = data.getDimSize(op.getDim());
    if (!constant || op.getPartial() || op.getBatched() || isPlanned(op))
      return failure();
    std::optional<int64_t> start;
    int64_t count = 0;
    for (const APInt &element : constant.getElements().getValues<APInt>()) {
      int64_t index = element.getSExtValue();
      if (index < 0)
        index += size;
      if (!start)
        start = index;
      if (!holds(op, Precondition::IndicesAreRun, index == *start + count))
        return failure();
      ++count;
    }
    // Out of range is an error when the program runs, not here.
    if (!start || *start < 0 || *start + count > size)
      return failure();
    SmallVector<int64_t> starts(data.getRank(), 0), strides(data.getRank(), 1);
    SmallVector<int64_t> sizes(data.getShape());
    starts[op.getDim()] = *start;
    sizes[op.getDim()] = count;
    Value value = op.getData();
    if (count != size)
      value =
          SliceOp::create(rewriter, op.getLoc(), value, starts, sizes, strides);
    if (value.getType() != op.getType())
      value = ReshapeOp::create(rewriter, op.getLoc(), op.getType(), value);
    rewriter.replaceOp(op, value);
    return success();
  }
};

} // namespace

void kerf::nn::populateGatherPatterns(RewritePatternSet &patterns) {
  patterns.add<GatherOfRun>(patterns.getContext());
}
