//===- LowerReshards.cpp - from reshards to collectives -------------------===//
//
// One op per step of decomposeReshard(). This pass decides nothing: the planner
// counted the bytes of the same steps.
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
    Mesh mesh = attribute.toMesh();
    ReshardWays ways;
    auto result = getOperation().walk([&](ReshardOp op) {
      return failed(lower(op, ways, mesh)) ? WalkResult::interrupt()
                                           : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  LogicalResult lower(ReshardOp op, ReshardWays &ways, const Mesh &mesh) {
    if (!op.getFrom())
      return op.emitOpError("is not on local shapes");
    auto global = cast<RankedTensorType>(*op.getGlobal());
    auto from = op.getFrom()->toLayout(mesh), to = op.getTo().toLayout(mesh);
    if (!from || !to)
      return failure(); // the verifier has said so
    auto reshard = ways.find(*from, *to, global.getShape(),
                             elementBytes(global.getElementType()), mesh);
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

  /// Collectives get the phase of the reshard; a slice gets the phase of the op
  /// that makes its operand, or that of the reshard if the operand is an
  /// argument.
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
    if (step.isLocal())
      return slice(op, step, type, x, axes);
    CollectiveKind kind = *step.kind;
    CollectiveArguments arguments;
    if (reduces(kind))
      arguments.reduction = ReductionAttr::get(&getContext(), step.reduction);
    if (hasOneDim(kind))
      arguments.dim = builder.getI64IntegerAttr(step.dim);
    if (hasTwoDims(kind)) {
      arguments.split = builder.getI64IntegerAttr(step.dim);
      arguments.concat = builder.getI64IntegerAttr(step.concatDim);
    }
    if (hasPairs(kind)) {
      SmallVector<int64_t> pairs;
      for (auto [source, target] : step.pairs)
        pairs.append({source, target});
      arguments.pairs = builder.getDenseI64ArrayAttr(pairs);
    }
    PhaseAttr phase;
    if (getPhase(op) != Phase::Forward)
      phase = PhaseAttr::get(&getContext(), getPhase(op));
    return createCollective(builder, op.getLoc(), kind, type, x, axes,
                            arguments, op.getPurposeAttr(), phase);
  }
};

} // namespace
