//===- CollectivesToShard.cpp - collectives of dist in shard --------------===//
//
// One op for one op, wherever both mean the same. `shard` has whole axes and
// equal parts; a permutation that moves every part by the same number of
// places is a shift there. A rank's position is computed from the grid's
// indices.
//
//===----------------------------------------------------------------------===//
#include "Bridge.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;
using shard::GridAxesAttr;

FailureOr<SmallVector<shard::GridAxis>>
bridge::toGridAxes(Operation *op, ArrayRef<AxisRef> axes, const Mesh &mesh,
                   const Twine &what) {
  SmallVector<shard::GridAxis> numbers;
  for (const AxisRef &ref : axes) {
    if (ref != wholeAxis(mesh, ref.axis))
      return op->emitError() << what << " names " << dist::toString(ref, mesh)
                             << ", a part of an axis, where shard names axes";
    numbers.push_back(static_cast<shard::GridAxis>(ref.axis));
  }
  return numbers;
}

shard::ReductionKind bridge::toShard(ReductionKind kind) {
  switch (kind) {
  case ReductionKind::Sum:
    return shard::ReductionKind::Sum;
  case ReductionKind::Max:
    return shard::ReductionKind::Max;
  case ReductionKind::Min:
    return shard::ReductionKind::Min;
  case ReductionKind::Prod:
    return shard::ReductionKind::Product;
  }
  llvm_unreachable("a reduction");
}

namespace {

class ToShard {
public:
  ToShard(const Mesh &mesh, StringRef grid) : mesh(mesh), grid(grid) {}

  LogicalResult convert(Operation *op) {
    builder = std::make_unique<OpBuilder>(op);
    if (auto index = dyn_cast<ShardIndexOp>(op))
      return convertIndex(index);
    if (auto slice = dyn_cast<AllSliceOp>(op)) {
      if (failed(readAxes(op, slice.getAxes())) ||
          failed(checkParts(op, slice.getDim(), true)))
        return failure();
      return replace<shard::AllSliceOp>(op, indexOf(slice.getDim()));
    }
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    if (!collective)
      return op->emitError("has no counterpart in shard");
    if (collective.isStarted())
      return op->emitError("is only started, which shard cannot say");
    if (failed(readAxes(op, collective.getGroup())))
      return failure();
    CollectiveArguments arguments = collective.getArguments();
    CollectiveKind kind = collective.getKind();
    int64_t cut = arguments.cutDim(kind), joined = arguments.joinedDim(kind);
    if ((cut >= 0 && failed(checkParts(op, cut, true))) ||
        (joined >= 0 && failed(checkParts(op, joined, false))))
      return failure();
    if (isa<AllReduceOp>(op))
      return replace<shard::AllReduceOp>(op, kindOf(arguments));
    if (isa<ReduceScatterOp>(op))
      return replace<shard::ReduceScatterOp>(op, kindOf(arguments),
                                             indexOf(cut));
    if (isa<AllGatherOp>(op))
      return replace<shard::AllGatherOp>(op, indexOf(joined));
    if (isa<AllToAllOp>(op))
      return replace<shard::AllToAllOp>(op, indexOf(cut), indexOf(joined));
    if (isa<BroadcastOp>(op))
      return replace<shard::BroadcastOp>(
          op, builder->getDenseI64ArrayAttr(rootOf(arguments.root.getInt())),
          ValueRange());
    if (auto permute = dyn_cast<PermuteOp>(op))
      return convertPermute(permute);
    return op->emitError("has no counterpart in shard");
  }

private:
  LogicalResult readAxes(Operation *op, AxesAttr attribute) {
    list = llvm::cantFail(toAxisList(attribute, mesh));
    auto numbers = bridge::toGridAxes(op, list, mesh, "the group");
    if (failed(numbers))
      return failure();
    axes = GridAxesAttr::get(op->getContext(), *numbers);
    return success();
  }

  /// `cut`: the result is a part of the operand, else the other way round.
  LogicalResult checkParts(Operation *op, int64_t dim, bool cut) {
    Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
    int64_t whole = cast<RankedTensorType>(cut ? from : to).getDimSize(dim);
    int64_t part = cast<RankedTensorType>(cut ? to : from).getDimSize(dim);
    if (part * numShards(list) == whole)
      return success();
    return op->emitError("dimension ")
           << dim << " has " << whole << " elements in " << numShards(list)
           << " parts of " << part << ", where shard has parts that fill it";
  }

  IntegerAttr indexOf(int64_t number) { return builder->getIndexAttr(number); }
  shard::ReductionKindAttr kindOf(const CollectiveArguments &arguments) {
    return shard::ReductionKindAttr::get(
        builder->getContext(), bridge::toShard(arguments.reduction.getValue()));
  }

  /// Coordinates of a position in the group.
  SmallVector<int64_t> rootOf(int64_t position) {
    SmallVector<int64_t> coordinates(list.size());
    for (size_t i = list.size(); i-- > 0;) {
      coordinates[i] = position % list[i].size;
      position /= list[i].size;
    }
    return coordinates;
  }

  template <typename Op, typename... Arguments>
  LogicalResult replace(Operation *op, Arguments... arguments) {
    auto grid = FlatSymbolRefAttr::get(op->getContext(), this->grid);
    Value result =
        Op::create(*builder, op->getLoc(), op->getResult(0).getType(), grid,
                   axes, op->getOperand(0), arguments...);
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
    return success();
  }

  /// All hand on by the same number of places along one axis, around its end.
  LogicalResult convertPermute(PermuteOp op) {
    ArrayRef<int64_t> pairs = op.getPairs();
    int64_t size = numShards(list);
    if (list.size() != 1 || static_cast<int64_t>(pairs.size()) != 2 * size)
      return op.emitError("is no rotation along one axis, as shard's shift is");
    int64_t offset = (pairs[1] - pairs[0] + size) % size;
    for (size_t i = 0; i < pairs.size(); i += 2)
      if ((pairs[i] + offset) % size != pairs[i + 1])
        return op.emitError(
            "is no rotation along one axis, as shard's shift is");
    return replace<shard::ShiftOp>(op, indexOf(list[0].axis),
                                   builder->getI64IntegerAttr(offset),
                                   builder->getUnitAttr());
  }

  LogicalResult convertIndex(ShardIndexOp op) {
    if (failed(readAxes(op, op.getAxes())))
      return failure();
    Location loc = op.getLoc();
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantIndexOp::create(*builder, loc, value);
    };
    Value position;
    if (list.empty()) {
      position = constant(0);
    } else {
      auto indices = shard::ProcessMultiIndexOp::create(*builder, loc, grid,
                                                        axes.asArrayRef());
      position = indices.getResult()[0];
      for (size_t i = 1; i < list.size(); ++i) {
        position = arith::MulIOp::create(*builder, loc, position,
                                         constant(list[i].size));
        position = arith::AddIOp::create(*builder, loc, position,
                                         indices.getResult()[i]);
      }
    }
    if (op.getScale() != 1)
      position = arith::MulIOp::create(*builder, loc, position,
                                       constant(op.getScale()));
    Value number = arith::IndexCastOp::create(*builder, loc,
                                              builder->getI64Type(), position);
    op.getResult().replaceAllUsesWith(
        tensor::FromElementsOp::create(*builder, loc, op.getType(), number)
            .getResult());
    op.erase();
    return success();
  }

  const Mesh &mesh;
  StringRef grid;
  std::unique_ptr<OpBuilder> builder;
  /// Of the op at hand.
  AxisList list;
  GridAxesAttr axes;
};

} // namespace

LogicalResult bridge::collectivesToShard(ModuleOp module, const Mesh &mesh,
                                         StringRef grid) {
  SmallVector<Operation *> ops;
  module.walk([&](Operation *op) {
    if (isa_and_nonnull<DistDialect>(op->getDialect()) && !isa<MeshOp>(op))
      ops.push_back(op);
  });
  ToShard converter(mesh, grid);
  for (Operation *op : ops)
    if (failed(converter.convert(op)))
      return failure();
  return success();
}
