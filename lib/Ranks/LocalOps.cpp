//===- LocalOps.cpp - ops of dist that move nothing -----------------------===//
#include "LocalOps.h"

#include "kerf/Support/TensorTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ranks;
using dist::AxisRef;

namespace {

Value number(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantOp::create(builder, loc,
                                   builder.getI64IntegerAttr(value));
}

Value index(OpBuilder &builder, Location loc, Value number) {
  return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                    number);
}

Value empty(OpBuilder &builder, Location loc, RankedTensorType type) {
  return tensor::EmptyOp::create(builder, loc, type.getShape(),
                                 type.getElementType());
}

/// An op on each element; `body` gets the elements of `inputs` and of `into`.
Value elementwise(OpBuilder &builder, Location loc, ValueRange inputs,
                  Value into,
                  function_ref<Value(OpBuilder &, ValueRange)> body) {
  int64_t rank = rankOf(into);
  SmallVector<AffineMap> maps(inputs.size() + 1,
                              builder.getMultiDimIdentityMap(rank));
  SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::parallel);
  return linalg::GenericOp::create(
             builder, loc, into.getType(), inputs, into, maps, loops,
             [&](OpBuilder &inner, Location loc, ValueRange elements) {
               linalg::YieldOp::create(inner, loc, body(inner, elements));
             })
      .getResult(0);
}

Value lowerMask(OpBuilder &builder, dist::MaskOp op, RankPosition &position) {
  Location loc = op.getLoc();
  RankedTensorType type = op.getX().getType();
  auto dim = static_cast<int64_t>(op.getDim());
  // How much of the dimension lies at or behind where this part begins.
  Value start = arith::MulIOp::create(
      builder, loc, position.over(builder, loc, op.getAxes()),
      number(builder, loc, type.getDimSize(dim)));
  Value valid =
      index(builder, loc,
            arith::SubIOp::create(builder, loc,
                                  number(builder, loc, op.getSize()), start));
  Value fill = arith::ConstantOp::create(builder, loc, op.getFill());
  return elementwise(builder, loc, op.getX(), empty(builder, loc, type),
                     [&](OpBuilder &inner, ValueRange elements) -> Value {
                       Value at = linalg::IndexOp::create(inner, loc, dim);
                       Value inside = arith::CmpIOp::create(
                           inner, loc, arith::CmpIPredicate::slt, at, valid);
                       return arith::SelectOp::create(inner, loc, inside,
                                                      elements[0], fill);
                     });
}

Value lowerSlice(OpBuilder &builder, dist::AllSliceOp op,
                 RankPosition &position) {
  Location loc = op.getLoc();
  Value x = op.getX();
  RankedTensorType whole = typeOf(x), part = op.getType();
  auto dim = static_cast<int64_t>(op.getDim());
  int64_t size = part.getDimSize(dim);
  int64_t padded = size * position.numParts(op.getAxes());
  auto at = [&](int64_t value) { return builder.getIndexAttr(value); };
  SmallVector<OpFoldResult> offsets(whole.getRank(), at(0));
  SmallVector<OpFoldResult> strides(whole.getRank(), at(1));
  auto sizesOf = [&](RankedTensorType type) {
    SmallVector<OpFoldResult> sizes;
    for (int64_t each : type.getShape())
      sizes.push_back(at(each));
    return sizes;
  };
  if (padded != whole.getDimSize(dim)) {
    SmallVector<int64_t> shape(whole.getShape());
    shape[dim] = padded;
    Value zeros = createZeros(
        builder, loc, RankedTensorType::get(shape, whole.getElementType()));
    x = tensor::InsertSliceOp::create(builder, loc, x, zeros, offsets,
                                      sizesOf(whole), strides);
  }
  Value start = arith::MulIOp::create(builder, loc,
                                      position.over(builder, loc, op.getAxes()),
                                      number(builder, loc, size));
  offsets[dim] = index(builder, loc, start);
  return tensor::ExtractSliceOp::create(builder, loc, part, x, offsets,
                                        sizesOf(part), strides);
}

/// All dimensions as one.
SmallVector<ReassociationIndices> flat(int64_t rank) {
  if (rank == 0)
    return {};
  return {llvm::to_vector<2>(llvm::seq<int64_t>(0, rank))};
}

RankedTensorType flatType(RankedTensorType type) {
  return RankedTensorType::get(type.getNumElements(), type.getElementType());
}

Value flatten(OpBuilder &builder, Location loc, Value x) {
  RankedTensorType type = typeOf(x), line = flatType(type);
  if (type.getRank() == 0)
    return tensor::ExpandShapeOp::create(builder, loc, line, x, flat(0));
  if (type.getRank() == 1)
    return x;
  return tensor::CollapseShapeOp::create(builder, loc, line, x,
                                         flat(type.getRank()));
}

Value unflatten(OpBuilder &builder, Location loc, Value x,
                RankedTensorType type) {
  if (type.getRank() == 0)
    return tensor::CollapseShapeOp::create(builder, loc, type, x, flat(0));
  if (type.getRank() == 1)
    return x;
  return tensor::ExpandShapeOp::create(builder, loc, type, x,
                                       flat(type.getRank()));
}

Value lowerPack(OpBuilder &builder, dist::PackOp op) {
  Location loc = op.getLoc();
  Value result = empty(builder, loc, op.getType());
  int64_t offset = 0;
  for (Value input : op.getInputs()) {
    int64_t size = typeOf(input).getNumElements();
    result = tensor::InsertSliceOp::create(
        builder, loc, flatten(builder, loc, input), result,
        OpFoldResult(builder.getIndexAttr(offset)),
        OpFoldResult(builder.getIndexAttr(size)),
        OpFoldResult(builder.getIndexAttr(1)));
    offset += size;
  }
  return result;
}

SmallVector<Value> lowerUnpack(OpBuilder &builder, dist::UnpackOp op) {
  Location loc = op.getLoc();
  SmallVector<Value> results;
  int64_t offset = 0;
  for (Value output : op.getOutputs()) {
    RankedTensorType type = typeOf(output);
    int64_t size = type.getNumElements();
    Value line = tensor::ExtractSliceOp::create(
        builder, loc, flatType(type), op.getX(),
        OpFoldResult(builder.getIndexAttr(offset)),
        OpFoldResult(builder.getIndexAttr(size)),
        OpFoldResult(builder.getIndexAttr(1)));
    results.push_back(unflatten(builder, loc, line, type));
    offset += size;
  }
  return results;
}

Value lowerAccumulate(OpBuilder &builder, dist::AccumulateOp op) {
  if (!op.getInto())
    return op.getX();
  Location loc = op.getLoc();
  return elementwise(
      builder, loc, op.getX(), op.getInto(),
      [&](OpBuilder &inner, ValueRange elements) -> Value {
        if (isa<FloatType>(elements[0].getType()))
          return arith::AddFOp::create(inner, loc, elements[1], elements[0]);
        return arith::AddIOp::create(inner, loc, elements[1], elements[0]);
      });
}

} // namespace

Value RankPosition::over(OpBuilder &builder, Location loc,
                         ArrayRef<AxisRef> axes) {
  // Of ranks in row-major order, how many lie between two neighbours on an
  // axis; micro-batches have a number of their own.
  auto stride = [&](unsigned axis) {
    int64_t result = 1;
    for (const dist::MeshAxis &inner : ArrayRef(mesh.axes).drop_front(axis + 1))
      if (inner.isTime == mesh.axes[axis].isTime)
        result *= inner.size;
    return result;
  };
  Value result, rank;
  for (const AxisRef &ref : axes) {
    const dist::MeshAxis &axis = mesh.axes[ref.axis];
    Value digit = arguments.microBatch;
    if (!axis.isTime)
      digit = rank =
          rank ? rank : calls.rankNumber(builder, loc, arguments.rank);
    int64_t weight = stride(ref.axis) * (axis.size / (ref.preSize * ref.size));
    if (weight != 1)
      digit = arith::DivUIOp::create(builder, loc, digit,
                                     number(builder, loc, weight));
    digit = arith::RemUIOp::create(builder, loc, digit,
                                   number(builder, loc, ref.size));
    if (result)
      digit = arith::AddIOp::create(
          builder, loc,
          arith::MulIOp::create(builder, loc, result,
                                number(builder, loc, ref.size)),
          digit);
    result = digit;
  }
  return result ? result : number(builder, loc, 0);
}

Value RankPosition::over(OpBuilder &builder, Location loc,
                         dist::AxesAttr axes) {
  return over(builder, loc, llvm::cantFail(dist::toAxisList(axes, mesh)));
}

int64_t RankPosition::numParts(dist::AxesAttr axes) const {
  return dist::numShards(llvm::cantFail(dist::toAxisList(axes, mesh)));
}

Value kerf::ranks::createZeros(OpBuilder &builder, Location loc,
                               RankedTensorType type) {
  Value zero = arith::ConstantOp::create(
      builder, loc, builder.getZeroAttr(type.getElementType()));
  return linalg::FillOp::create(builder, loc, zero, empty(builder, loc, type))
      .getResult(0);
}

FailureOr<SmallVector<Value>>
kerf::ranks::lowerLocalOp(OpBuilder &builder, Operation *op,
                          RankPosition &position) {
  using Results = FailureOr<SmallVector<Value>>;
  auto one = [](Value value) { return Results(SmallVector<Value>{value}); };
  return llvm::TypeSwitch<Operation *, Results>(op)
      .Case<dist::MaskOp>(
          [&](auto mask) { return one(lowerMask(builder, mask, position)); })
      .Case<dist::AllSliceOp>(
          [&](auto slice) { return one(lowerSlice(builder, slice, position)); })
      .Case<dist::ShardIndexOp>([&](auto shard) {
        Location loc = op->getLoc();
        Value offset = arith::MulIOp::create(
            builder, loc, position.over(builder, loc, shard.getAxes()),
            number(builder, loc, shard.getScale()));
        SmallVector<Value> all(shard.getType().getNumElements(), offset);
        return one(
            tensor::FromElementsOp::create(builder, loc, shard.getType(), all));
      })
      .Case<dist::PackOp>(
          [&](auto pack) { return one(lowerPack(builder, pack)); })
      .Case<dist::UnpackOp>(
          [&](auto unpack) { return Results(lowerUnpack(builder, unpack)); })
      .Case<dist::AccumulateOp>(
          [&](auto sum) { return one(lowerAccumulate(builder, sum)); })
      .Case<dist::ZeroOp>([&](auto zero) {
        return one(createZeros(builder, op->getLoc(), typeOf(zero)));
      })
      .Default([](Operation *) { return Results(failure()); });
}
