//===- LowerReshards.cpp - reshards become collectives --------------------===//
//
// One op per step of decomposeReshard(). Nothing is decided here: the planner
// has computed its bytes from the same steps.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/ReplacingBuilder.h"
#include "kerf/Partition/OpSharding.h"
#include "kerf/Partition/Passes.h"

namespace kerf {
#define GEN_PASS_DEF_LOWERRESHARDS
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

struct LowerReshards : kerf::impl::LowerReshardsBase<LowerReshards> {
  void runOnOperation() override {
    MeshAttr attribute = getMesh(getOperation());
    if (!attribute)
      return;
    ReshardCache cache(attribute.toMesh());
    auto result = getOperation().walk([&](ReshardOp op) {
      return failed(lower(op, cache)) ? WalkResult::interrupt()
                                      : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  LogicalResult lower(ReshardOp op, ReshardCache &cache) {
    if (!op.getFrom())
      return op.emitOpError("is not on local shapes");
    const Mesh &mesh = cache.getMesh();
    auto global = cast<RankedTensorType>(*op.getGlobal());
    auto from = op.getFrom()->toLayout(mesh), to = op.getTo().toLayout(mesh);
    if (!from || !to)
      return failure(); // the verifier has said so
    auto reshard = cache.get(*from, *to, global.getShape(),
                             elementBytes(global.getElementType()));
    if (!reshard)
      return op.emitOpError("has no way from ")
             << dist::toString(*from, mesh) << " to "
             << dist::toString(*to, mesh);
    OpBuilder builder(op);
    Value value = op.getX();
    for (const ReshardStep &step : reshard->steps)
      value = build(builder, op, step, value, mesh);
    op.getResult().replaceAllUsesWith(value);
    op.erase();
    return success();
  }

  /// Collectives say when they run; a slice is computed where its operand is,
  /// that of an argument where the reshard is.
  Value slice(ReshardOp op, const ReshardStep &step, RankedTensorType type,
              Value x, AxesAttr axes) {
    ReplacingBuilder builder(op);
    if (x.getDefiningOp())
      builder.standFor(x);
    return AllSliceOp::create(builder, op.getLoc(), type, x, axes, step.dim);
  }

  Value build(OpBuilder &builder, ReshardOp op, const ReshardStep &step,
              Value x, const Mesh &mesh) {
    auto type = RankedTensorType::get(step.localShape,
                                      getElementTypeOrSelf(x.getType()));
    auto axes = toAxesAttr(&getContext(), step.axes, mesh);
    auto reduction = ReductionAttr::get(&getContext(), step.reduction);
    PurposeAttr purpose = op.getPurposeAttr();
    PhaseAttr phase;
    if (getPhase(op) != Phase::Forward)
      phase = PhaseAttr::get(&getContext(), getPhase(op));
    Location loc = op.getLoc();
    switch (step.kind) {
    case StepKind::AllReduce:
      return AllReduceOp::create(builder, loc, type, x, reduction, axes,
                                 purpose, phase);
    case StepKind::ReduceScatter:
      return ReduceScatterOp::create(builder, loc, type, x, reduction, axes,
                                     step.dim, purpose, phase);
    case StepKind::AllGather:
      return AllGatherOp::create(builder, loc, type, x, axes, step.dim, purpose,
                                 phase);
    case StepKind::AllSlice:
      return slice(op, step, type, x, axes);
    case StepKind::AllToAll:
      return AllToAllOp::create(builder, loc, type, x, axes, step.dim,
                                step.concatDim, purpose, phase);
    case StepKind::Permute: {
      SmallVector<int64_t> pairs;
      for (auto [source, target] : step.pairs)
        pairs.append({source, target});
      return PermuteOp::create(builder, loc, type, x, axes, pairs, purpose,
                               phase);
    }
    }
    llvm_unreachable("bad StepKind");
  }
};

} // namespace
