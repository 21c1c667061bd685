//===- StageFunctions.cpp - the functions of a step -----------------------===//
//
// One scan in program order for the levels; a second one for assignments, which
// wait for the last reader of the old value in their stage. Linear in the uses.
//
//===----------------------------------------------------------------------===//
#include "StageFunctions.h"

#include "kerf/Partition/OpSharding.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

StageFunction::Kind StageFunctions::kindOf(Operation *op) const {
  if (oneFunction)
    return StageFunction::Forward;
  switch (getPhase(op)) {
  case Phase::Prologue:
    return StageFunction::Prologue;
  case Phase::Forward:
    return StageFunction::Forward;
  case Phase::BackwardInput:
  case Phase::BackwardWeight:
    return mergedBackward ? StageFunction::Forward : StageFunction::Backward;
  case Phase::Update:
    return StageFunction::Update;
  }
  llvm_unreachable("bad Phase");
}

StageFunction StageFunctions::senderOf(Value value) const {
  Operation *op = value.getDefiningOp();
  StageFunction which = functionOf(op);
  if (auto accumulate = dyn_cast<AccumulateOp>(op);
      accumulate && isSum(accumulate))
    return {which.stage, StageFunction::Update, 0};
  return which;
}

StageFunctions::StageFunctions(func::FuncOp main, const Mesh &mesh) {
  Block &block = main.getBody().front();
  stages = getNumStages(mesh);
  chunks = getNumChunks(main->getParentOp());
  training = isTrainingStep(block);
  oneFunction = training && stages == 1 && mesh.numMicroBatches() == 1;
  mergedBackward = stages == 1;
  for (BlockArgument argument : block.getArguments())
    if (variesOverTime(getLayout(argument, mesh), mesh))
      varying.insert(argument);

  for (Operation &op : block.without_terminator()) {
    if (isa<SourceOpInterface>(op))
      continue;
    StageFunction which = {getStage(&op), kindOf(&op), 0};
    if (auto accumulate = dyn_cast<AccumulateOp>(op);
        accumulate && !oneFunction) {
      if (mesh.numMicroBatches() > 1 && varies(accumulate.getX()))
        sums.insert(&op);
      else
        which.kind = StageFunction::Update;
    }
    if (which.runsOncePerStep() && !isa<AccumulateOp>(op))
      for (Value operand : op.getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (!producer || isa<SourceOpInterface>(producer))
          continue;
        StageFunction from = senderOf(operand);
        if (from.kind == which.kind)
          which.level =
              std::max(which.level, from.level + (from.stage != which.stage));
      }
    if (!which.runsOncePerStep())
      which.chunk = getChunk(&op);
    functions[&op] = which;
    bool isVarying = llvm::any_of(
        op.getOperands(), [&](Value operand) { return varies(operand); });
    for (Value result : op.getResults())
      if (!runsOncePerStep(&op) && !isa<AccumulateOp>(op) &&
          (isVarying || variesOverTime(getLayout(result, mesh), mesh)))
        varying.insert(result);
  }
  if (oneFunction)
    return;
  for (auto assign : block.getOps<AssignOp>()) {
    StageFunction &which = functions[assign];
    for (Operation *user : assign.getSource().getUsers())
      if (StageFunction other = functions.lookup(user);
          !isa<AssignOp>(user) && other.stage == which.stage &&
          other.kind == StageFunction::Update)
        which.level = std::max(which.level, other.level);
  }
}

std::string StageFunctions::nameOf(const StageFunction &which) const {
  std::string name = "stage" + std::to_string(which.stage) + "_";
  if (oneFunction)
    return name + "step";
  if (chunks > 1 && !which.runsOncePerStep())
    name += "chunk" + std::to_string(which.chunk) + "_";
  switch (which.kind) {
  case StageFunction::Prologue:
    return name + "prologue" +
           (which.level ? std::to_string(which.level) : std::string());
  case StageFunction::Forward:
    return name + (training && mergedBackward ? "forward_backward" : "forward");
  case StageFunction::Backward:
    return name + "backward";
  case StageFunction::Update:
    return name + "update" + std::to_string(which.level);
  }
  llvm_unreachable("bad Kind");
}

Phase StageFunctions::phaseOf(const StageFunction &which) const {
  switch (which.kind) {
  case StageFunction::Prologue:
    return Phase::Prologue;
  case StageFunction::Forward:
    return Phase::Forward;
  case StageFunction::Backward:
    return Phase::BackwardInput;
  case StageFunction::Update:
    return Phase::Update;
  }
  llvm_unreachable("bad Kind");
}
