//===- InsertReshards.cpp - a reshard where a use wants another sharding --===//
//
// Uses of a value are grouped by (sharding, stage); each group gets one
// dist.reshard, placed before its first use. Invariant afterwards: the sharding
// of every operand is that of its producer. Linear in the uses.
//
//===----------------------------------------------------------------------===//
#include "kerf/Partition/OpSharding.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace kerf {
#define GEN_PASS_DEF_INSERTRESHARDS
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

struct InsertReshards : kerf::impl::InsertReshardsBase<InsertReshards> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(run(function)))
        signalPassFailure();
  }

  LogicalResult run(func::FuncOp function) {
    Mesh mesh = getMesh(function).toMesh();
    using Key = std::tuple<Value, Attribute, int64_t>;
    llvm::DenseMap<Key, Value> known;
    Operation *terminator = function.getBody().front().getTerminator();
    for (Operation &op :
         llvm::make_early_inc_range(function.getBody().front())) {
      if (isa<ReshardOp>(op))
        continue;
      for (OpOperand &use : op.getOpOperands()) {
        auto wanted = &op == terminator
                          ? function.getResultAttrOfType<ShardingAttr>(
                                use.getOperandNumber(), kSharding)
                          : cast<ShardingAttr>(op.getAttrOfType<ArrayAttr>(
                                kOperands)[use.getOperandNumber()]);
        auto layout = llvm::cantFail(wanted.toLayout(mesh));
        Layout held = getLayout(use.get(), mesh);
        if (held == layout)
          continue;
        Operation *producer = use.get().getDefiningOp();
        // A result is handed out by the stage that made it.
        int64_t stage = &op == terminator ? (producer ? getStage(producer) : 0)
                                          : getStage(&op);
        auto type = cast<RankedTensorType>(use.get().getType());
        Value &resharded =
            known[{use.get(),
                   ShardingAttr::get(&getContext(), getMesh(function), layout),
                   stage}];
        if (!resharded) {
          if (!decomposeReshard(held, layout, type.getShape(),
                                elementBytes(type.getElementType()), mesh))
            return op.emitError("plan: operand ")
                   << use.getOperandNumber() << " cannot be brought from "
                   << dist::toString(held, mesh) << " to "
                   << dist::toString(layout, mesh);
          OpBuilder builder(&op);
          // A splat is the same everywhere: another one, no communication.
          auto source = dyn_cast_or_null<SourceOpInterface>(producer);
          if (source && source.isUniform()) {
            Operation *other = builder.clone(*producer);
            other->setAttr(kResults, builder.getArrayAttr(wanted));
            resharded = other->getResult(0);
            use.set(resharded);
            continue;
          }
          Location loc = producer ? producer->getLoc() : op.getLoc();
          auto reshard =
              ReshardOp::create(builder, loc, type, use.get(), ShardingAttr(),
                                wanted, TypeAttr(), purposeOf(producer));
          if (op.hasAttr(kStage) || (producer && producer->hasAttr(kStage)))
            reshard->setAttr(kStage, builder.getI64IntegerAttr(stage));
          resharded = reshard;
        }
        use.set(resharded);
      }
    }
    return success();
  }

  PurposeAttr purposeOf(Operation *producer) {
    auto source = dyn_cast_or_null<SourceOpInterface>(producer);
    return source && source.isParameter()
               ? PurposeAttr::get(&getContext(), Purpose::Parameter)
               : PurposeAttr();
  }
};

} // namespace
