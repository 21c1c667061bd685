//===- VerifyPlan.cpp - checks that a plan can be partitioned -------------===//
//
// Later passes of the phase assume that the plan is correct. This pass checks
// it op by op, with errors that name the op, the dimension and the axes.
//
//===----------------------------------------------------------------------===//
#include "VerifyStep.h"

#include "kerf/Dist/Entry.h"
#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Partition/OpSharding.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {
#define GEN_PASS_DEF_VERIFYPLAN
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

/// Several chunks of a stage go with the schedule that runs them, and with what
/// that asks for.
static LogicalResult verifyChunks(func::FuncOp function, const Mesh &mesh) {
  Operation *module = function->getParentOp();
  int64_t chunks = getNumChunks(module), stages = getNumStages(mesh);
  auto kind = module->getAttrOfType<ScheduleKindAttr>(kScheduleKind);
  bool isInterleaved =
      kind && kind.getValue() == dist::ScheduleKind::Interleaved;
  if (chunks > 1 && !isInterleaved)
    return function.emitError("plan: ")
           << kChunks << " is " << chunks << ", expected " << kScheduleKind
           << " interleaved";
  if (!isInterleaved)
    return success();
  if (chunks == 1)
    return function.emitError("plan: the schedule is interleaved, expected ")
           << kChunks << " of at least 2";
  if (stages == 1)
    return function.emitError("plan: ")
           << chunks << " chunks in each stage, expected the stage axis \""
           << kStageAxis << "\" in the mesh";
  if (!isTrainingStep(function.getBody().front()))
    return function.emitError("plan: the schedule is interleaved, expected a "
                              "step of training");
  if (mesh.numMicroBatches() % stages != 0)
    return function.emitError("plan: ")
           << mesh.numMicroBatches() << " micro-batches, expected a multiple "
           << "of the " << stages << " stages, as the schedule is interleaved";
  return success();
}

namespace {

struct VerifyPlan : kerf::impl::VerifyPlanBase<VerifyPlan> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (getPart(function)) {
        emitError(function.getLoc())
            << "@" << function.getName()
            << " is on local shapes: the module is partitioned already";
        return signalPassFailure();
      }
    func::FuncOp entry = findEntry(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() &&
          (function == entry || isPlanned(function)) &&
          failed(verify(function)))
        signalPassFailure();
    markAllAnalysesPreserved();
  }

  LogicalResult verify(func::FuncOp function) {
    MeshAttr attribute = getMesh(function);
    if (!attribute)
      return function.emitError("plan: the module has no dist.mesh");
    Mesh mesh = attribute.toMesh();
    if (auto axis = mesh.find(kStageAxis); axis && *axis != 0)
      return function.emitError("plan: the stage axis \"pp\" must be the "
                                "outermost of the mesh");
    auto ends = [&](Attribute sharding, Type type,
                    const Twine &what) -> LogicalResult {
      auto entry = dyn_cast_or_null<ShardingAttr>(sharding);
      if (!entry)
        return function.emitError("plan: ") << what << " has no dist.sharding";
      auto layout = entry.toLayout(mesh);
      if (!layout)
        return function.emitError("plan: ")
               << what << ": " << llvm::toString(layout.takeError());
      if (!canBeCut(type))
        return function.emitError("plan: ")
               << what << " is " << type
               << ", expected a tensor of static shape";
      if (layout->isPartial())
        return function.emitError("plan: ") << what << " is partial";
      std::string text =
          checkPlanned(*layout, mesh, cast<RankedTensorType>(type).getShape());
      if (!text.empty())
        return function.emitError("plan: ") << what << ": " << text;
      return success();
    };
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (failed(ends(function.getArgAttr(i, kSharding),
                      function.getArgumentTypes()[i], "argument " + Twine(i))))
        return failure();
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (failed(ends(function.getResultAttr(i, kSharding),
                      function.getResultTypes()[i], "result " + Twine(i))))
        return failure();
    if (!function.getBody().hasOneBlock())
      return function.emitError("plan: has control flow, expected one block");
    if (mlir::failed(verifyChunks(function, mesh)))
      return failure();

    // Report every wrong op, not only the first.
    bool failed = false;
    for (Operation &op : function.getBody().front().without_terminator())
      failed |= mlir::failed(verify(&op, mesh));
    return failure(failed || mlir::failed(verifyStep(function, mesh)));
  }

  LogicalResult verify(Operation *op, const Mesh &mesh) {
    int64_t stage = getStage(op), numStages = getNumStages(mesh);
    if (stage < 0 || stage >= numStages)
      return op->emitError("plan: stage is ")
             << stage << ", expected less than " << numStages;
    int64_t chunk = getChunk(op), numChunks = getNumChunks(getOperation());
    if (chunk >= numChunks)
      return op->emitError("plan: chunk is ")
             << chunk << ", expected less than " << numChunks;
    if (auto reshard = dyn_cast<ReshardOp>(op)) {
      if (reshard.getFrom())
        return op->emitError("plan: names its source sharding before shapes "
                             "are local");
      auto layout = reshard.getTo().toLayout(mesh);
      std::string text =
          layout ? checkPlanned(
                       *layout, mesh,
                       cast<RankedTensorType>(reshard.getType()).getShape())
                 : llvm::toString(layout.takeError());
      if (!text.empty())
        return op->emitError("plan: ") << text;
    } else if (isa<AccumulateOp, AssignOp>(op)) {
      if (failed(operandLayouts(op, mesh)) || failed(resultLayouts(op, mesh)))
        return failure();
    } else if (failed(analyzeOp(op, mesh))) {
      return failure();
    }
    if (isa<SourceOpInterface>(op) &&
        variesOverTime(getLayout(op->getResult(0), mesh), mesh))
      return op->emitError("plan: a source cannot be stored in parts over "
                           "time");
    return success();
  }
};

} // namespace
