//===- CollectivesToDist.cpp - collectives of shard in dist ---------------===//
//
// One op for one op. What `shard` has besides (averages, a root of a gather,
// sizes that are not known, sends to some device) is an error.
//
//===----------------------------------------------------------------------===//
#include "Bridge.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

std::optional<ReductionKind> bridge::toDist(shard::ReductionKind kind) {
  switch (kind) {
  case shard::ReductionKind::Sum:
    return ReductionKind::Sum;
  case shard::ReductionKind::Max:
    return ReductionKind::Max;
  case shard::ReductionKind::Min:
    return ReductionKind::Min;
  case shard::ReductionKind::Product:
    return ReductionKind::Prod;
  default:
    return std::nullopt;
  }
}

namespace {

class ToDist {
public:
  explicit ToDist(const Mesh &mesh) : mesh(mesh) {}

  LogicalResult convert(Operation *op) {
    builder = std::make_unique<OpBuilder>(op);
    if (auto indices = dyn_cast<shard::ProcessMultiIndexOp>(op))
      return convertIndices(indices);
    if (auto shape = dyn_cast<shard::GridShapeOp>(op)) {
      for (auto [axis, result] :
           llvm::zip_equal(axesOrAll(shape.getAxes()), shape.getResult()))
        result.replaceAllUsesWith(arith::ConstantIndexOp::create(
            *builder, op->getLoc(), mesh.axes[axis].size));
      op->erase();
      return success();
    }
    if (auto index = dyn_cast<shard::ProcessLinearIndexOp>(op)) {
      index.getResult().replaceAllUsesWith(
          position(op->getLoc(), axesOrAll({})));
      op->erase();
      return success();
    }
    if (auto reduce = dyn_cast<shard::AllReduceOp>(op))
      return convertReduction(reduce, CollectiveKind::AllReduce, {});
    if (auto reduce = dyn_cast<shard::ReduceScatterOp>(op))
      return convertReduction(reduce, CollectiveKind::ReduceScatter,
                              reduce.getScatterAxisAttr());
    CollectiveArguments arguments;
    if (auto gather = dyn_cast<shard::AllGatherOp>(op)) {
      arguments.dim = toI64(gather.getGatherAxisAttr());
      return replace(gather, CollectiveKind::AllGather, arguments);
    }
    if (auto exchange = dyn_cast<shard::AllToAllOp>(op)) {
      arguments.split = toI64(exchange.getSplitAxisAttr());
      arguments.concat = toI64(exchange.getConcatAxisAttr());
      return replace(exchange, CollectiveKind::AllToAll, arguments);
    }
    if (auto slice = dyn_cast<shard::AllSliceOp>(op))
      return convertSlice(slice);
    if (auto broadcast = dyn_cast<shard::BroadcastOp>(op))
      return convertBroadcast(broadcast);
    if (auto shift = dyn_cast<shard::ShiftOp>(op))
      return convertShift(shift);
    return op->emitError("has no counterpart in dist");
  }

private:
  IntegerAttr toI64(IntegerAttr attribute) {
    return builder->getI64IntegerAttr(attribute.getInt());
  }

  AxesAttr toAxes(ArrayRef<shard::GridAxis> numbers) {
    list.clear();
    for (shard::GridAxis number : numbers)
      list.push_back(wholeAxis(mesh, number));
    return toAxesAttr(builder->getContext(), list, mesh);
  }

  /// The result if its type, and that of the operand, are ones of dist.
  template <typename Op> FailureOr<RankedTensorType> typeOf(Op op) {
    auto from = dyn_cast<RankedTensorType>(op.getInput().getType());
    auto to = dyn_cast<RankedTensorType>(op.getResult().getType());
    if (!from || !to || !from.hasStaticShape() || !to.hasStaticShape())
      return op.emitError("is on ")
             << op.getInput().getType() << " and " << op.getResult().getType()
             << ", expected tensors of static shape";
    if (from.getElementType() != to.getElementType())
      return op.emitError("converts ")
             << from.getElementType() << " to " << to.getElementType()
             << ", which collectives of dist do not";
    return to;
  }

  template <typename Op>
  LogicalResult replace(Op op, CollectiveKind kind,
                        const CollectiveArguments &arguments) {
    auto type = typeOf(op);
    if (failed(type))
      return failure();
    Value result =
        createCollective(*builder, op.getLoc(), kind, *type, op.getInput(),
                         toAxes(op.getGridAxes()), arguments, {}, {});
    op.getResult().replaceAllUsesWith(result);
    op.erase();
    return success();
  }

  template <typename Op>
  LogicalResult convertReduction(Op op, CollectiveKind kind, IntegerAttr dim) {
    std::optional<ReductionKind> reduction = bridge::toDist(op.getReduction());
    if (!reduction)
      return op.emitError("reduces by ")
             << stringifyReductionKind(op.getReduction())
             << ", expected sum, max, min or product";
    CollectiveArguments arguments;
    arguments.reduction = ReductionAttr::get(op.getContext(), *reduction);
    if (dim)
      arguments.dim = toI64(dim);
    return replace(op, kind, arguments);
  }

  LogicalResult convertSlice(shard::AllSliceOp op) {
    auto type = typeOf(op);
    if (failed(type))
      return failure();
    Value result = AllSliceOp::create(*builder, op.getLoc(), *type,
                                      op.getInput(), toAxes(op.getGridAxes()),
                                      op.getSliceAxis().getSExtValue());
    op.getResult().replaceAllUsesWith(result);
    op.erase();
    return success();
  }

  LogicalResult convertBroadcast(shard::BroadcastOp op) {
    if (!op.getRootDynamic().empty())
      return op.emitError("has a root that is not known");
    int64_t root = 0;
    for (auto [axis, coordinate] :
         llvm::zip_equal(op.getGridAxes(), op.getRoot()))
      root = root * mesh.axes[axis].size + coordinate;
    CollectiveArguments arguments;
    arguments.root = builder->getI64IntegerAttr(root);
    return replace(op, CollectiveKind::Broadcast, arguments);
  }

  /// Devices to which nothing is handed have anything in shard, zeros in dist.
  LogicalResult convertShift(shard::ShiftOp op) {
    int64_t axis = op.getShiftAxis().getSExtValue();
    if (!llvm::is_contained(op.getGridAxes(), axis))
      return op.emitError("shifts along axis ")
             << axis << ", expected one of its group";
    int64_t size = mesh.axes[axis].size;
    int64_t offset = static_cast<int64_t>(op.getOffset());
    SmallVector<int64_t> pairs;
    for (int64_t from = 0; from < size; ++from) {
      int64_t to = from + offset;
      if (op.getRotate())
        to = (to % size + size) % size;
      if (to >= 0 && to < size)
        pairs.append({from, to});
    }
    auto type = typeOf(op);
    if (failed(type))
      return failure();
    CollectiveArguments arguments;
    arguments.pairs = builder->getDenseI64ArrayAttr(pairs);
    Value result = createCollective(
        *builder, op.getLoc(), CollectiveKind::Permute, *type, op.getInput(),
        toAxes(static_cast<shard::GridAxis>(axis)), arguments, {}, {});
    op.getResult().replaceAllUsesWith(result);
    op.erase();
    return success();
  }

  SmallVector<shard::GridAxis> axesOrAll(ArrayRef<shard::GridAxis> given) {
    SmallVector<shard::GridAxis> axes(given);
    for (size_t axis = 0; given.empty() && axis < mesh.axes.size(); ++axis)
      axes.push_back(static_cast<shard::GridAxis>(axis));
    return axes;
  }

  /// A rank's position over some axes as an index.
  Value position(Location loc, ArrayRef<shard::GridAxis> axes) {
    auto type = RankedTensorType::get({}, builder->getI64Type());
    Value tensor = ShardIndexOp::create(*builder, loc, type, toAxes(axes), 1);
    Value number = tensor::ExtractOp::create(*builder, loc, tensor, {});
    return arith::IndexCastOp::create(*builder, loc, builder->getIndexType(),
                                      number);
  }

  LogicalResult convertIndices(shard::ProcessMultiIndexOp op) {
    for (auto [axis, result] :
         llvm::zip_equal(axesOrAll(op.getAxes()), op.getResult()))
      if (!result.use_empty())
        result.replaceAllUsesWith(position(op.getLoc(), axis));
    op.erase();
    return success();
  }

  const Mesh &mesh;
  std::unique_ptr<OpBuilder> builder;
  AxisList list;
};

} // namespace

LogicalResult bridge::collectivesToDist(ModuleOp module, const Mesh &mesh) {
  SmallVector<Operation *> ops;
  module.walk([&](Operation *op) {
    if (isa_and_nonnull<shard::ShardDialect>(op->getDialect()) &&
        !isa<shard::GridOp>(op))
      ops.push_back(op);
  });
  ToDist converter(mesh);
  for (Operation *op : ops)
    if (failed(converter.convert(op)))
      return failure();
  return success();
}
