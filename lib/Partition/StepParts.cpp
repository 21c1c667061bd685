//===- StepParts.cpp - the functions that a step falls into ---------------===//
//
// One scan in program order for the levels; a second one for assignments, which
// wait for the last reader of the old value in their stage. Linear in the uses.
//
//===----------------------------------------------------------------------===//
#include "StepParts.h"

#include "kerf/Partition/OpSharding.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

Part::Kind StepParts::kindOf(Operation *op) const {
  if (oneFunction)
    return Part::Forward;
  switch (getPhase(op)) {
  case Phase::Prologue:
    return Part::Prologue;
  case Phase::Forward:
    return Part::Forward;
  case Phase::BackwardInput:
  case Phase::BackwardWeight:
    return mergedBackward ? Part::Forward : Part::Backward;
  case Phase::Update:
    return Part::Update;
  }
  llvm_unreachable("bad Phase");
}

Part StepParts::senderOf(Value value) const {
  Operation *op = value.getDefiningOp();
  Part part = partOf(op);
  if (auto accumulate = dyn_cast<AccumulateOp>(op);
      accumulate && isSum(accumulate))
    return {part.stage, Part::Update, 0};
  return part;
}

StepParts::StepParts(func::FuncOp main, const Mesh &mesh) {
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
    Part part = {getStage(&op), kindOf(&op), 0};
    if (auto accumulate = dyn_cast<AccumulateOp>(op);
        accumulate && !oneFunction) {
      if (mesh.numMicroBatches() > 1 && varies(accumulate.getX()))
        sums.insert(&op);
      else
        part.kind = Part::Update;
    }
    if (part.runsOncePerStep() && !isa<AccumulateOp>(op))
      for (Value operand : op.getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (!producer || isa<SourceOpInterface>(producer))
          continue;
        Part from = senderOf(operand);
        if (from.kind == part.kind)
          part.level =
              std::max(part.level, from.level + (from.stage != part.stage));
      }
    if (!part.runsOncePerStep())
      part.chunk = getChunk(&op);
    parts[&op] = part;
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
    Part &part = parts[assign];
    for (Operation *user : assign.getSource().getUsers())
      if (Part other = parts.lookup(user); !isa<AssignOp>(user) &&
                                           other.stage == part.stage &&
                                           other.kind == Part::Update)
        part.level = std::max(part.level, other.level);
  }
}

std::string StepParts::nameOf(const Part &part) const {
  std::string name = "stage" + std::to_string(part.stage) + "_";
  if (oneFunction)
    return name + "step";
  if (chunks > 1 && !part.runsOncePerStep())
    name += "chunk" + std::to_string(part.chunk) + "_";
  switch (part.kind) {
  case Part::Prologue:
    return name + "prologue" +
           (part.level ? std::to_string(part.level) : std::string());
  case Part::Forward:
    return name + (training && mergedBackward ? "forward_backward" : "forward");
  case Part::Backward:
    return name + "backward";
  case Part::Update:
    return name + "update" + std::to_string(part.level);
  }
  llvm_unreachable("bad Kind");
}

Phase StepParts::phaseOf(const Part &part) const {
  switch (part.kind) {
  case Part::Prologue:
    return Phase::Prologue;
  case Part::Forward:
    return Phase::Forward;
  case Part::Backward:
    return Phase::BackwardInput;
  case Part::Update:
    return Phase::Update;
  }
  llvm_unreachable("bad Kind");
}
