//===- RankOps.cpp - masks and slices of a rank ---------------------------===//
//
// After partitioning some ops depend on the rank (dist.mask, dist.all_slice),
// and others pack tensors into the buffer of a collective: they become nn ops
// over dist.shard_index, so that they fuse with the ops around them. Then the
// planner's attributes are removed from nn ops. Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "kerf/Dist/ReplacingBuilder.h"

namespace kerf {
#define GEN_PASS_DEF_DROPPLANATTRIBUTES
#define GEN_PASS_DEF_EXPANDRANKOPS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

static Value scalar(OpBuilder &builder, Location loc, Attribute value) {
  return splatConstant(
      builder, loc, RankedTensorType::get({}, cast<TypedAttr>(value).getType()),
      value);
}

/// scale * position of this rank over the axes.
static Value offset(OpBuilder &builder, Location loc, dist::AxesAttr axes,
                    int64_t scale) {
  Value index = dist::ShardIndexOp::create(
      builder, loc, RankedTensorType::get({}, builder.getI64Type()), axes, 1);
  if (scale == 1)
    return index;
  return nn::MulOp::create(
      builder, loc, index,
      scalar(builder, loc, builder.getI64IntegerAttr(scale)));
}

/// A buffer is a concatenation of flat tensors.
static Value expandPack(OpBuilder &builder, dist::PackOp pack) {
  SmallVector<Value> pieces;
  for (Value input : pack.getInputs()) {
    auto type = cast<RankedTensorType>(input.getType());
    pieces.push_back(nn::ReshapeOp::create(
        builder, pack.getLoc(),
        RankedTensorType::get({type.getNumElements()}, type.getElementType()),
        input));
  }
  return nn::ConcatOp::create(builder, pack.getLoc(), pieces, 0);
}

static void expandUnpack(OpBuilder &builder, dist::UnpackOp unpack) {
  int64_t start = 0, one = 1;
  for (Value output : unpack.getOutputs()) {
    int64_t size = cast<RankedTensorType>(output.getType()).getNumElements();
    Value piece =
        nn::SliceOp::create(builder, unpack.getLoc(), unpack.getX(),
                            ArrayRef(start), ArrayRef(size), ArrayRef(one));
    output.replaceAllUsesWith(nn::ReshapeOp::create(builder, unpack.getLoc(),
                                                    output.getType(), piece));
    start += size;
  }
  unpack.erase();
}

static void expand(func::FuncOp function) {
  dist::ReplacingBuilder builder(function.getContext());
  Type i64 = builder.getI64Type();
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    builder.setInsertionPoint(&op);
    builder.standFor(&op);
    Location loc = op.getLoc();
    Value replacement;
    if (auto mask = dyn_cast<dist::MaskOp>(op)) {
      RankedTensorType type = mask.getResult().getType();
      int64_t dim = mask.getDim(), size = type.getDimSize(dim);
      SmallVector<int64_t> shape(type.getRank(), 1);
      shape[dim] = size;
      Value index = nn::IotaOp::create(builder, loc,
                                       RankedTensorType::get(shape, i64), dim);
      index = nn::AddOp::create(builder, loc, index,
                                offset(builder, loc, mask.getAxes(), size));
      Value valid = nn::LessOp::create(
          builder, loc, index,
          scalar(builder, loc, builder.getI64IntegerAttr(mask.getSize())));
      replacement = nn::SelectOp::create(builder, loc, type, valid, mask.getX(),
                                         scalar(builder, loc, mask.getFill()));
    } else if (auto pack = dyn_cast<dist::PackOp>(op)) {
      replacement = expandPack(builder, pack);
    } else if (auto unpack = dyn_cast<dist::UnpackOp>(op)) {
      expandUnpack(builder, unpack);
      continue;
    } else if (auto slice = dyn_cast<dist::AllSliceOp>(op)) {
      RankedTensorType type = slice.getResult().getType();
      int64_t dim = slice.getDim(), size = type.getDimSize(dim);
      // Elements past the end are zero: a partial gather.
      Value index = nn::IotaOp::create(builder, loc,
                                       RankedTensorType::get({size}, i64), 0);
      index = nn::AddOp::create(builder, loc, index,
                                offset(builder, loc, slice.getAxes(), size));
      replacement = nn::GatherOp::create(builder, loc, type, slice.getX(),
                                         index, dim, /*partial=*/true);
    } else if (auto index = dyn_cast<dist::ShardIndexOp>(op)) {
      if (index.getScale() == 1)
        continue;
      replacement = offset(builder, loc, index.getAxes(), index.getScale());
    } else {
      continue;
    }
    op.getResult(0).replaceAllUsesWith(replacement);
    op.erase();
  }
}

/// Removes decisions about place and time from an nn op; the phase stays, for
/// traces.
static void dropAttributes(func::FuncOp function) {
  for (Operation &op : function.getBody().front()) {
    if (!isa<nn::NNDialect>(op.getDialect()))
      continue;
    dist::dropPlan(&op);
    dist::setStep(&op, dist::phaseOnly(dist::getStep(&op)));
  }
}

namespace {
struct ExpandRankOps : kerf::impl::ExpandRankOpsBase<ExpandRankOps> {
  void runOnOperation() override {
    if (!getOperation().isExternal())
      expand(getOperation());
  }
};

struct DropPlanAttributes
    : kerf::impl::DropPlanAttributesBase<DropPlanAttributes> {
  void runOnOperation() override {
    if (!getOperation().isExternal())
      dropAttributes(getOperation());
  }
};
} // namespace
