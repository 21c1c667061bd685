//===- InsertReshards.cpp - a reshard where a use wants another sharding --===//
//
// Uses of a value are grouped by (sharding, stage, part of the step; within a
// micro-batch also chunk of the stage); each group gets one dist.reshard,
// placed before its first use. The backward pass uses the reshards of the
// forward pass. A value that is made once per step is resharded once per step,
// unless each micro-batch takes its part of it. Invariant afterwards: every
// operand has the sharding of its producer. Linear in the uses.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Entry.h"
#include "kerf/Dist/MovePurpose.h"
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
      if (!function.isExternal() && isPlanned(function) &&
          failed(run(function)))
        signalPassFailure();
  }

private:
  LogicalResult run(func::FuncOp function) {
    mesh = getMesh(function).toMesh();
    isTraining = isTrainingStep(function.getBody().front());
    known.clear();
    Operation *terminator = function.getBody().front().getTerminator();
    for (Operation &op :
         llvm::make_early_inc_range(function.getBody().front())) {
      if (isa<ReshardOp>(op))
        continue;
      for (OpOperand &use : op.getOpOperands()) {
        auto wanted = &op == terminator
                          ? function.getResultAttrOfType<ShardingAttr>(
                                use.getOperandNumber(), kSharding)
                          : getOperandShardings(&op)[use.getOperandNumber()];
        if (failed(bring(use, wanted)))
          return failure();
      }
    }
    return success();
  }

  LogicalResult bring(OpOperand &use, ShardingAttr wanted) {
    Operation *op = use.getOwner();
    bool isReturn = op->hasTrait<OpTrait::IsTerminator>();
    auto layout = llvm::cantFail(wanted.toLayout(mesh));
    Layout held = getLayout(use.get(), mesh);
    // Ops that run once per step read inputs of all micro-batches.
    if (isa<BlockArgument>(use.get()) && !isReturn && runsOncePerStep(op))
      held = withoutTime(held, mesh);
    if (held == layout)
      return success();
    Operation *producer = use.get().getDefiningOp();
    Phase phase = phaseOf(op, producer, isReturn, layout);
    // The stage that made a result gives it out.
    Operation *place = isReturn ? producer : op;
    int64_t stage = place ? getStage(place) : 0;
    int64_t chunk =
        place && !dist::runsOncePerStep(phase) ? getChunk(place) : 0;
    auto type = cast<RankedTensorType>(use.get().getType());
    auto canonical = ShardingAttr::get(&getContext(), getMesh(op), layout);
    Value &resharded = find({use.get(), canonical, stage, chunk}, phase);
    if (!resharded) {
      if (!decomposeReshard(held, layout, type.getShape(),
                            elementBytes(type.getElementType()), mesh))
        return op->emitError("plan: operand ")
               << use.getOperandNumber() << " cannot be brought from "
               << dist::toString(held, mesh) << " to "
               << dist::toString(layout, mesh);
      OpBuilder builder(op);
      // A splat is equal everywhere: make another one, without communication.
      auto source = dyn_cast_or_null<SourceOpInterface>(producer);
      if (source && source.isUniform()) {
        Operation *other = builder.clone(*producer);
        setResultShardings(other, wanted);
        resharded = other->getResult(0);
        use.set(resharded);
        return success();
      }
      Location loc = producer ? producer->getLoc() : op->getLoc();
      auto reshard =
          ReshardOp::create(builder, loc, type, use.get(), ShardingAttr(),
                            wanted, TypeAttr(), movePurpose(producer, op));
      if (findStage(op) || (producer && findStage(producer)))
        setStage(reshard, stage, chunk);
      setPhase(reshard, phase);
      resharded = reshard;
    }
    use.set(resharded);
    return success();
  }

  /// When the reshard for a use runs.
  Phase phaseOf(Operation *op, Operation *producer, bool isReturn,
                const Layout &wanted) {
    if (isa_and_nonnull<AccumulateOp>(producer))
      return Phase::Update;
    bool fromSource = !producer || isa<SourceOpInterface>(producer);
    if (isReturn)
      return fromSource ? Phase::Forward : getPhase(producer);
    if (runsOncePerStep(op) || variesOverTime(wanted, mesh))
      return getPhase(op);
    if (!fromSource && getPhase(producer) == Phase::Prologue)
      return Phase::Prologue;
    // A parameter is the same in all micro-batches: gathered once, held once.
    if (isTraining && mesh.numMicroBatches() > 1 && fromSource && producer &&
        !isLocal(producer->getResult(0), wanted))
      return Phase::Prologue;
    return getPhase(op);
  }

  /// Whether nothing moves between ranks.
  bool isLocal(Value value, const Layout &wanted) {
    auto type = cast<RankedTensorType>(value.getType());
    auto way = decomposeReshard(getLayout(value, mesh), wanted, type.getShape(),
                                elementBytes(type.getElementType()), mesh);
    return way && llvm::all_of(way->steps, [](const ReshardStep &step) {
             return step.isLocal();
           });
  }

  /// Value, sharding, stage, chunk.
  using Key = std::tuple<Value, Attribute, int64_t, int64_t>;

  /// The reshard for `key` that exists when `phase` runs, or the place for a
  /// new one.
  Value &find(const Key &key, Phase phase) {
    if (phase == Phase::BackwardWeight)
      phase = Phase::BackwardInput;
    auto earlier = [&](Phase other) -> Value * {
      auto found = known.find({key, other});
      return found != known.end() ? &found->second : nullptr;
    };
    if (phase == Phase::BackwardInput)
      if (Value *value = earlier(Phase::Forward))
        return *value;
    if (phase == Phase::Update)
      if (Value *value = earlier(Phase::Prologue))
        return *value;
    return known[{key, phase}];
  }

  Mesh mesh;
  bool isTraining = false;
  llvm::DenseMap<std::pair<Key, Phase>, Value> known;
};

} // namespace
