//===- VerifyStep.cpp - checks phases and stages of a plan ----------------===//
//
// A step is prologue, forward, backward, update; forward and backward once per
// micro-batch. Values flow only along that order, forward to later stages,
// backward to earlier ones (of chunks: in the order of virtual stages), and out
// of the micro-batches through dist.accumulate alone. One scan over the uses.
//
//===----------------------------------------------------------------------===//
#include "VerifyStep.h"

#include "kerf/Dist/Phases.h"
#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Partition/OpSharding.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

AxisList timeOf(ArrayRef<AxisRef> axes, const Mesh &mesh) {
  AxisList result;
  for (const AxisRef &ref : axes)
    if (mesh.axes[ref.axis].isTime)
      result.push_back(ref);
  return result;
}

class StepVerifier {
public:
  StepVerifier(func::FuncOp function, const Mesh &mesh)
      : function(function), mesh(mesh),
        training(isTrainingStep(function.getBody().front())) {}

  LogicalResult run() {
    bool failed = false;
    for (Operation &op : function.getBody().front().without_terminator())
      failed |= mlir::failed(verify(&op));
    Operation *terminator = function.getBody().front().getTerminator();
    for (OpOperand &use : terminator->getOpOperands())
      failed |= mlir::failed(verifyTimeOfUse(use, Layout()));
    return failure(failed);
  }

private:
  LogicalResult verify(Operation *op) {
    if (isa<SourceOpInterface>(op))
      return success();
    if (failed(verifyColocation(op)) || failed(verifyTimeOfOp(op)))
      return failure();
    for (OpOperand &use : op->getOpOperands()) {
      if (failed(verifyFlow(op, use.get())))
        return failure();
      Layout wanted = layoutOf(use);
      if (failed(verifyTimeOfUse(use, wanted)))
        return failure();
    }
    if (auto accumulate = dyn_cast<AccumulateOp>(op))
      return verify(accumulate);
    if (auto assign = dyn_cast<AssignOp>(op))
      return verify(assign);
    return success();
  }

  /// A step of training assigns in its update, inference while it computes.
  LogicalResult verify(AssignOp op) {
    if (training && getPhase(op) != Phase::Update)
      return op.emitError("plan: assigns in phase ")
             << stringifyPhase(getPhase(op)) << ", expected update";
    if (training)
      return success();
    if (mesh.numMicroBatches() > 1)
      return op.emitError("plan: assigns in each of ")
             << mesh.numMicroBatches() << " micro-batches, expected one";
    for (Operation *user : op.getSource().getUsers())
      if (getStage(user) != getStage(op)) {
        auto diag = op.emitError("plan: assigns in stage ")
                    << getStage(op) << " what stage " << getStage(user)
                    << " reads, expected one stage";
        diag.attachNote(user->getLoc()) << "read here";
        return diag;
      }
    return success();
  }

  Layout layoutOf(OpOperand &use) {
    if (auto reshard = dyn_cast<ReshardOp>(use.getOwner()))
      return getLayout(reshard.getResult(), mesh);
    ArrayRef<ShardingAttr> list = getOperandShardings(use.getOwner());
    return llvm::cantFail(list[use.getOperandNumber()].toLayout(mesh));
  }

  LogicalResult verifyColocation(Operation *op) {
    std::optional<int64_t> number = getColocation(op);
    if (!number)
      return success();
    Operation *other = together.insert({*number, op}).first->second;
    if (getStage(other) == getStage(op)) {
      // Ops that run once per step belong to no chunk, but to the stage.
      if (runsOncePerStep(op))
        return success();
      other = inChunk.insert({*number, op}).first->second;
      if (getChunk(other) == getChunk(op))
        return success();
    }
    auto diag = op->emitError("plan: is in stage ")
                << stageText(op) << ", expected " << stageText(other)
                << " as an op of colocation " << *number;
    diag.attachNote(other->getLoc()) << "another op of it";
    return diag;
  }

  /// An op that runs once per step has no time axis.
  LogicalResult verifyTimeOfOp(Operation *op) {
    if (!runsOncePerStep(op))
      return success();
    auto check = [&](const Layout &layout, const Twine &what) -> LogicalResult {
      if (!variesOverTime(layout, mesh))
        return success();
      return op->emitError("plan: runs once per step but ")
             << what
             << " has an axis in time: " << dist::toString(layout, mesh);
    };
    for (OpOperand &use : op->getOpOperands())
      if (failed(
              check(layoutOf(use), "operand " + Twine(use.getOperandNumber()))))
        return failure();
    for (OpResult result : op->getResults())
      if (failed(check(getLayout(result, mesh),
                       "result " + Twine(result.getResultNumber()))))
        return failure();
    return success();
  }

  LogicalResult verifyFlow(Operation *op, Value operand) {
    Operation *producer = operand.getDefiningOp();
    if (!producer || isa<SourceOpInterface>(producer))
      return success();
    auto noted = [&](InFlightDiagnostic diag) -> LogicalResult {
      diag.attachNote(producer->getLoc()) << "produced here";
      return diag;
    };
    Phase to = getPhase(op), from = getPhase(producer);
    bool sum = isa<AccumulateOp>(producer);
    if (sum && to != Phase::Update)
      return noted(op->emitError("plan: is in phase ")
                   << stringifyPhase(to)
                   << " but uses a sum over micro-batches, expected update");
    if (sum)
      return success();
    if (orderOf(from) > orderOf(to))
      return noted(op->emitError("plan: is in phase ")
                   << stringifyPhase(to) << " but uses a value of phase "
                   << stringifyPhase(from));
    if (dist::runsOncePerStep(to) && !dist::runsOncePerStep(from))
      return noted(
          op->emitError("plan: runs once per step but uses a value of each "
                        "micro-batch, expected a dist.accumulate between"));
    bool crosses = dist::runsOncePerStep(to)
                       ? getStage(op) != getStage(producer)
                       : virtualStage(op) != virtualStage(producer);
    if (!canBeCut(operand.getType()) && crosses)
      return noted(op->emitError("plan: is in stage ")
                   << stageText(op) << " but uses " << operand.getType()
                   << " of stage " << stageText(producer)
                   << ": only tensors are sent");
    if (dist::runsOncePerStep(from))
      return success();
    int64_t here = virtualStage(op), there = virtualStage(producer);
    if (from == Phase::Forward ? there > here : there < here)
      return noted(op->emitError("plan: is in stage ")
                   << stageText(op) << " but uses a value of stage "
                   << stageText(producer));
    return success();
  }

  int64_t virtualStage(Operation *op) { return getVirtualStage(op, mesh); }

  /// "1", with several chunks "1, chunk 0".
  std::string stageText(Operation *op) {
    std::string text = std::to_string(getStage(op));
    if (getNumChunks(function->getParentOp()) > 1)
      text += ", chunk " + std::to_string(getChunk(op));
    return text;
  }

  /// A sum over time stays partial until dist.accumulate.
  LogicalResult verifyTimeOfUse(OpOperand &use, const Layout &wanted) {
    if (isa<BlockArgument>(use.get()))
      return success();
    AxisList held = timeOf(getLayout(use.get(), mesh).partial, mesh);
    if (held == timeOf(wanted.partial, mesh))
      return success();
    return use.getOwner()->emitError("plan: operand ")
           << use.getOperandNumber() << " is partial over "
           << dist::toString(held, mesh)
           << ", which is in time, until a dist.accumulate";
  }

  LogicalResult verify(AccumulateOp op) {
    if (runsOncePerStep(op))
      return op.emitError("plan: sums over micro-batches in phase ")
             << stringifyPhase(getPhase(op)) << ", which runs once per step";
    Layout x = layoutOf(op.getXMutable());
    for (auto [dim, axes] : llvm::enumerate(x.dims))
      if (!timeOf(axes, mesh).empty())
        return op.emitError("plan: sums over micro-batches, but dimension ")
               << dim << " is cut into them";
    AxisList partial = timeOf(x.partial, mesh);
    if (!partial.empty() && numShards(partial) != mesh.numMicroBatches())
      return op.emitError("plan: operand is partial over ")
             << numShards(partial) << " micro-batches, expected all "
             << mesh.numMicroBatches();
    Layout expected = withoutTime(x, mesh);
    Layout result = getLayout(op.getResult(), mesh);
    if (result != expected)
      return op.emitError("plan: result is ")
             << dist::toString(result, mesh) << ", expected "
             << dist::toString(expected, mesh);
    return success();
  }

  func::FuncOp function;
  const Mesh &mesh;
  bool training;
  /// By colocation: an op of it, and one that runs for each micro-batch.
  llvm::DenseMap<int64_t, Operation *> together, inChunk;
};

} // namespace

LogicalResult kerf::verifyStep(func::FuncOp function, const Mesh &mesh) {
  return StepVerifier(function, mesh).run();
}
