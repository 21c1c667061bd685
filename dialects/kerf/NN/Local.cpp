//===- Local.cpp - nn ops on local shapes ---------------------------------===//
//
// Ops whose attributes or meaning name global sizes or indices, rebuilt for one
// device's share. Everything else is cloned with local types.
//
//===----------------------------------------------------------------------===//
#include "kerf/NN/NN.h"

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
  auto local = builder.create<ConstantOp>(getLoc(), splat);
  if (getName())
    local.setNameAttr(getNameAttr());
  return SmallVector<Value>{local};
}

LocalValues IotaOp::buildLocal(OpBuilder &builder, ValueRange,
                               TypeRange resultTypes, LocalContext &context) {
  // Global index = local index + offset of the shard of `dim`.
  auto type = cast<RankedTensorType>(resultTypes[0]);
  Value local = builder.create<IotaOp>(getLoc(), type, getDim());
  ShardingRule rule = getShardingRule();
  const DimFactors &factors = rule.results[0][getDim()];
  if (factors.empty() || context.shards(factors[0]) == 1)
    return SmallVector<Value>{local};
  Value offset = context.shardOffset(builder, factors[0]);
  if (!type.getElementType().isInteger(64))
    offset = builder.create<CastOp>(
        getLoc(), RankedTensorType::get({}, type.getElementType()), offset);
  return SmallVector<Value>{builder.create<AddOp>(getLoc(), local, offset)};
}

LocalValues SliceOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                TypeRange resultTypes, LocalContext &) {
  // Only dimensions that are taken whole are sharded.
  auto type = cast<RankedTensorType>(resultTypes[0]);
  return SmallVector<Value>{builder.create<SliceOp>(
      getLoc(), operands[0], getStarts(), type.getShape(), getStrides())};
}

LocalValues GatherOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                 TypeRange, LocalContext &context) {
  ShardingRule rule = getShardingRule();
  const DimFactors &factors = rule.operands[0][getDim()];
  if (factors.empty() || context.shards(factors[0]) == 1)
    return SmallVector<Value>{builder.create<GatherOp>(
        getLoc(), operands[0], operands[1], getDimAttr(), getPartialAttr())};
  // Bring negative indices into range first, since the table that is left knows
  // only its own rows; then shift by what the devices before this one hold.
  auto type = cast<RankedTensorType>(operands[1].getType());
  auto scalar = RankedTensorType::get({}, type.getElementType());
  auto literal = [&](int64_t value) -> Value {
    return builder.create<ConstantOp>(
        getLoc(),
        cast<ElementsAttr>(DenseElementsAttr::get(
            scalar, builder.getIntegerAttr(type.getElementType(), value))));
  };
  int64_t size = rule.factors[factors[0]].size;
  Value negative = builder.create<LessOp>(getLoc(), operands[1], literal(0));
  Value wrapped = builder.create<AddOp>(getLoc(), operands[1], literal(size));
  Value index =
      builder.create<SelectOp>(getLoc(), negative, wrapped, operands[1]);
  Value offset = context.shardOffset(builder, factors[0]);
  if (offset.getType() != scalar)
    offset = builder.create<CastOp>(getLoc(), scalar, offset);
  index = builder.create<SubOp>(getLoc(), index, offset);
  return SmallVector<Value>{builder.create<GatherOp>(
      getLoc(), operands[0], index, getDimAttr(), builder.getUnitAttr())};
}
