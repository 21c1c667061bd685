//===- Local.cpp - nn ops on local shapes ---------------------------------===//
//
// Rebuilds ops for one device's share if their attributes or meaning depend on
// global sizes or indices. All others are cloned with local types.
//===----------------------------------------------------------------------===//
#include "kerf/NN/NN.h"
#include "kerf/NN/Rules/Rows.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

using LocalValues = FailureOr<SmallVector<Value>>;

LocalValues WeightOp::buildLocal(OpBuilder &builder, ValueRange,
                                 TypeRange resultTypes, LocalContext &) {
  // Ranks slice weights at load: partition records the sharding and the global
  // type, so only the type changes here.
  Operation *local = builder.clone(*getOperation());
  local->getResult(0).setType(resultTypes[0]);
  return SmallVector<Value>(local->getResults());
}

LocalValues StateOp::buildLocal(OpBuilder &builder, ValueRange,
                                TypeRange resultTypes, LocalContext &) {
  Operation *local = builder.clone(*getOperation());
  local->getResult(0).setType(resultTypes[0]);
  return SmallVector<Value>(local->getResults());
}

LocalValues ConstantOp::buildLocal(OpBuilder &builder, ValueRange,
                                   TypeRange resultTypes, LocalContext &) {
  auto type = cast<RankedTensorType>(resultTypes[0]);
  if (type == getResult().getType())
    return SmallVector<Value>(builder.clone(*getOperation())->getResults());
  if (!isUniform())
    return emitOpError("is not a splat and cannot be stored in shards");
  auto splat = cast<ElementsAttr>(
      DenseElementsAttr::get(type, getElements().getSplatValue<Attribute>()));
  auto local = ConstantOp::create(builder, getLoc(), splat);
  if (getName())
    local.setNameAttr(getNameAttr());
  return SmallVector<Value>{local};
}

LocalValues IotaOp::buildLocal(OpBuilder &builder, ValueRange,
                               TypeRange resultTypes, LocalContext &context) {
  // Global index = local index + offset of the shard of `dim`.
  auto type = cast<RankedTensorType>(resultTypes[0]);
  Value local = IotaOp::create(builder, getLoc(), type, getDim());
  ShardingRule rule = getShardingRule();
  const DimFactors &factors = rule.results[0][getDim()];
  if (factors.empty() || context.shards(factors[0]) == 1)
    return SmallVector<Value>{local};
  Value offset = context.shardOffset(builder, factors[0]);
  if (!type.getElementType().isInteger(64))
    offset = CastOp::create(builder, getLoc(),
                            RankedTensorType::get({}, type.getElementType()),
                            offset);
  return SmallVector<Value>{AddOp::create(builder, getLoc(), local, offset)};
}

LocalValues SliceOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                TypeRange resultTypes, LocalContext &) {
  // Only dimensions that are taken whole are sharded.
  auto type = cast<RankedTensorType>(resultTypes[0]);
  return SmallVector<Value>{SliceOp::create(builder, getLoc(), operands[0],
                                            getStarts(), type.getShape(),
                                            getStrides())};
}

/// Indices relative to the rows that this device holds of a dimension with
/// `factor`. `checked`: an index that no device holds stays an error (kNoRow).
static Value localIndices(OpBuilder &builder, Location loc, Value indices,
                          int64_t size, unsigned factor, bool checked,
                          LocalContext &context) {
  // Bring negative indices into range first, since local rows cannot tell the
  // global size; then subtract the rows of the devices before this one.
  if (checked)
    if (auto given = cast<RankedTensorType>(indices.getType());
        !given.getElementType().isSignlessInteger(64))
      indices = CastOp::create(
          builder, loc, given.clone(Type(builder.getI64Type())), indices);
  auto type = cast<RankedTensorType>(indices.getType());
  auto scalar = RankedTensorType::get({}, type.getElementType());
  auto literal = [&](int64_t value) -> Value {
    return ConstantOp::create(
        builder, loc,
        cast<ElementsAttr>(DenseElementsAttr::get(
            scalar, builder.getIntegerAttr(type.getElementType(), value))));
  };
  Value negative = LessOp::create(builder, loc, indices, literal(0));
  Value wrapped = AddOp::create(builder, loc, indices, literal(size));
  Value index = SelectOp::create(builder, loc, negative, wrapped, indices);
  Value offset = context.shardOffset(builder, factor);
  if (offset.getType() != scalar)
    offset = CastOp::create(builder, loc, scalar, offset);
  Value local = SubOp::create(builder, loc, index, offset);
  if (!checked)
    return local;
  // Within +-2^40 of kNoRow, so that the message can tell the index.
  Value near = MaxOp::create(
      builder, loc,
      MinOp::create(builder, loc, indices, literal(int64_t(1) << 40)),
      literal(-(int64_t(1) << 40)));
  Value error = AddOp::create(builder, loc, near, literal(kNoRow));
  Value below = LessOp::create(builder, loc, index, literal(0));
  Value inside = LessOp::create(builder, loc, index, literal(size));
  return SelectOp::create(builder, loc, below, error,
                          SelectOp::create(builder, loc, inside, local, error));
}

LocalValues GatherOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                 TypeRange, LocalContext &context) {
  ShardingRule rule = getShardingRule();
  const DimFactors &factors = rule.operands[0][getDim()];
  if (factors.empty() || context.shards(factors[0]) == 1)
    return SmallVector<Value>{
        GatherOp::create(builder, getLoc(), operands[0], operands[1],
                         getDimAttr(), getPartialAttr(), getBatchedAttr())};
  Value index = localIndices(builder, getLoc(), operands[1],
                             rule.factors[factors[0]].size, factors[0],
                             /*checked=*/true, context);
  return SmallVector<Value>{
      GatherOp::create(builder, getLoc(), operands[0], index, getDimAttr(),
                       builder.getUnitAttr(), getBatchedAttr())};
}

LocalValues ScatterOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                  TypeRange, LocalContext &context) {
  ShardingRule rule = getShardingRule();
  const DimFactors &factors = rule.results[0][getDim()];
  bool cut = !factors.empty() && context.shards(factors[0]) != 1;
  Value index = operands[1];
  if (cut)
    index = localIndices(builder, getLoc(), index,
                         rule.factors[factors[0]].size, factors[0],
                         /*checked=*/true, context);
  return SmallVector<Value>{ScatterOp::create(
      builder, getLoc(), operands[0], index, operands[2], getKindAttr(),
      getDimAttr(), cut ? builder.getUnitAttr() : getPartialAttr())};
}

LocalValues ScatterAddOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                     TypeRange resultTypes,
                                     LocalContext &context) {
  ShardingRule rule = getShardingRule();
  const DimFactors &factors = rule.results[0][getDim()];
  bool cut = !factors.empty() && context.shards(factors[0]) != 1;
  Value index = operands[0];
  if (cut)
    index = localIndices(builder, getLoc(), index,
                         rule.factors[factors[0]].size, factors[0],
                         /*checked=*/true, context);
  return SmallVector<Value>{ScatterAddOp::create(
      builder, getLoc(), resultTypes[0], index, operands[1], getDimAttr(),
      cut ? builder.getUnitAttr() : getPartialAttr())};
}
