//===- Memory.cpp - predicted memory of each device -----------------------===//
//
// Problem: predict parameters, slots and scratch memory of every stage as
// lowering will lay them out, without lowering.
//
// Idea: the rules of lowering and partition are asked, not repeated: what is
// computed together and when (FunctionOrder.h), what is computed at load, over
// which input a kernel writes (kerf/Fusion/Groups.h), which values a later
// function of a stage gets in a slot and which it recomputes (KeptValues.h). A
// value that only its own kernel or library call reads is never stored. A value
// that is assigned is written over its source. Slots live from the run that
// makes them to the last run that reads them; a sent value until its receiver
// surely has it. Lowering gives exact figures (Compilation::refineMemory).
//
//===----------------------------------------------------------------------===//
#include "../Model/Terminator.h"
#include "../Stages/StageBytes.h"
#include "StageMemory.h"

#include "kerf/Fusion/Casts.h"
#include "kerf/Fusion/KeptValues.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallSet.h"

#include <map>
#include <set>

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

StageFunction StageMemory::functionOf(Operation *op) const {
  auto functionOfPhase = [&] {
    switch (dist::getPhase(op)) {
    case dist::Phase::Prologue:
      return StageFunctions::Prologue;
    case dist::Phase::Forward:
      return functions.forward(chunkOf(op));
    case dist::Phase::BackwardInput:
    case dist::Phase::BackwardWeight:
      return map.stages == 1 ? functions.forward()
                             : functions.backward(chunkOf(op));
    case dist::Phase::Update:
      return functions.update();
    }
    return functions.forward();
  };
  if (isWhole)
    return functions.forward();
  StageFunction which = functionOfPhase();
  return which == joined ? functions.update() : which;
}

CostClass StageMemory::classOf(Operation *op) const {
  if (isa<dist::AccumulateOp>(op))
    return map.microBatches == 1 ? CostClass::View : CostClass::Elementwise;
  return costClassOf(op);
}

void StageMemory::listRuns() {
  SmallVector<bool> has(functions.count(), false);
  for (Operation &op : function.getBody().front())
    if (!isa<SourceOpInterface>(op) && isHere(&op) && !isConstant(&op) &&
        !isTerminator(&op))
      has[functionOf(&op)] = true;
  runs = StageRuns(map.schedule, functions, stage, has);
}

void StageMemory::listLevels() {
  if (map.stages == 1)
    return;
  auto isOfUpdate = [](Operation *op) {
    return dist::getPhase(op) == dist::Phase::Update;
  };
  auto stageOf = [&](Operation *op) { return map.placeOf(op) % map.stages; };
  for (Operation &op : function.getBody().front()) {
    if (isa<SourceOpInterface>(op) || isTerminator(&op))
      continue;
    int64_t level = 0;
    for (Value operand : op.getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (!def || isa<SourceOpInterface>(def))
        continue;
      // Part of a sum over micro-batches is sent when it is complete.
      bool isSum = isOfUpdate(def) || isa<dist::AccumulateOp>(def) ||
                   partsOfSums.contains(operand);
      if (isSum || levelOf(def) > 0)
        level = std::max(level, levelOf(def) + (stageOf(def) != stageOf(&op)));
    }
    if (level > 0)
      levels[&op] = level;
  }
}

/// What is received or loaded comes in the order in which ops read it.
void StageMemory::listArrivals() {
  for (Operation &op : function.getBody().front()) {
    if (isa<SourceOpInterface>(op) || !isHere(&op) || isConstant(&op) ||
        isTerminator(&op))
      continue;
    auto &list = arrivals[functionOf(&op)];
    for (Value operand : op.getOperands()) {
      Operation *def = rootOf(operand).getDefiningOp();
      if (!def || (!isa<SourceOpInterface>(def) && !isHere(def)))
        list.try_emplace(rootOf(operand), list.size());
    }
  }
}

int64_t StageMemory::arrivalOf(Value value, int64_t run) const {
  return StageRuns::arrivalAt(run,
                              arrivals[runs.all()[run].which].lookup(value));
}

void StageMemory::addSlot(int64_t bytes, int64_t first, int64_t last) {
  slots.push_back({first, last, bytes});
}

void StageMemory::findViews() {
  auto areTogether = [&](Operation *a, Operation *b) {
    return isHere(a) && isHere(b) && functionOf(a) == functionOf(b);
  };
  auto isMoved = [&](OpOperand &use) { return moves(use); };
  // What another function reads, another stage or another device, is left to it
  // as the program has it.
  auto isLeft = [&](OpOperand &use) {
    Operation *def = use.get().getDefiningOp(), *user = use.getOwner();
    return (moves(use) && !isSliced(use)) ||
           (def && !isa<SourceOpInterface>(def) && !isTerminator(user) &&
            !areTogether(def, user));
  };
  if (graph.isMemoryBound())
    endsCall = findStoredNarrow(function, isLeft);
  auto isViewOp = [&](Operation *op) {
    if (isa<SourceOpInterface>(op) || op->getNumOperands() == 0)
      return false;
    return classOf(op) == CostClass::View
               ? isWhole || !isa<dist::AccumulateOp>(op)
               : roundsStored(op, isLeft);
  };
  Block &block = function.getBody().front();
  views = Views(block, {isViewOp, isMoved, areTogether});
  for (Operation &op : block)
    for (Value result : op.getResults())
      if (Value root = rootOf(result); root != result)
        aliases[root].push_back(result);
}

bool StageMemory::roundsStored(
    Operation *op, llvm::function_ref<bool(OpOperand &)> isLeft) const {
  if (!isFloatCast(op) ||
      elementBytes(tensorType(op->getResult(0))) != kNarrowBytes)
    return false;
  OpOperand *read = &op->getOpOperand(0);
  while (!isLeft(*read)) {
    if (endsCall.contains(read->get()))
      return elementBytes(tensorType(read->get())) > kNarrowBytes;
    Operation *def = read->get().getDefiningOp();
    if (!def || isa<SourceOpInterface>(def) || def->getNumOperands() == 0 ||
        classOf(def) != CostClass::View || isa<dist::AccumulateOp>(def))
      return false;
    read = &def->getOpOperand(0);
  }
  return false;
}

/// The questions about one function, under the solution.
class StageMemory::Questions : public FunctionQuestions {
public:
  Questions(const StageMemory &stage, StageFunction which)
      : FunctionQuestions(stage.views), stage(stage), which(which) {
    computesTwice = stage.graph.isMemoryBound();
    hasFixedEpilogue = stage.graph.hasFixedEpilogue();
    sumsByBlock = stage.graph.sumsByBlock();
  }

  bool isHere(Operation *op) const override {
    return stage.isHere(op) && stage.functionOf(op) == which;
  }
  bool isConstant(Operation *op) const override { return stage.isConstant(op); }
  bool isKept(Value value) const override {
    return stage.kept.contains(stage.rootOf(value));
  }
  bool isSummed(Value value) const override {
    return stage.map.microBatches > 1 && stage.partsOfSums.contains(value) &&
           llvm::any_of(value.getUsers(), [&](Operation *user) {
             return !isTerminator(user) && !stage.isHere(user);
           });
  }
  bool endsCall(Value value) const override {
    return stage.endsCall.contains(value);
  }
  bool moves(OpOperand &use) const override {
    return !isAssignTarget(use) && stage.moves(use);
  }
  FusionQuestions::Copy copyReadBy(OpOperand &use) const override {
    return stage.copyReadBy(use, which);
  }
  RankedTensorType localType(Value value) const override {
    return typeIn(value, stage.graph.resultLayout(stage.solution, value));
  }
  RankedTensorType typeRead(OpOperand &use) const override {
    return typeIn(use.get(), stage.graph.operandLayout(stage.solution, use));
  }
  int64_t bytes(Value value) const override {
    return stage.isGathered(value)
               ? stage.graph.localBytes(stage.solution, value)
               : stage.heldBytes(value);
  }
  int64_t bytesRead(Value value) const override {
    return stage.heldBytes(value);
  }

private:
  RankedTensorType typeIn(Value value, LayoutId layout) const {
    return plan::localType(tensorType(value), stage.graph.layouts[layout]);
  }

  const StageMemory &stage;
  StageFunction which;
};

void StageMemory::formGroups() {
  std::set<StageFunction> used;
  for (const StageRuns::Run &run : runs.all())
    used.insert(run.which);
  for (StageFunction which : used)
    orders[which].form(function.getBody().front(), Questions(*this, which));
}

/// As partition chooses the values that a function leaves for later ones.
void StageMemory::chooseKept() {
  if (isWhole)
    return;
  auto makerHere = [&](Value value) -> Operation * {
    Operation *def = value.getDefiningOp();
    return def && !isa<SourceOpInterface>(def) && isHere(def) ? def : nullptr;
  };
  auto isSum = [&](Operation *op) {
    return isa<dist::AccumulateOp>(op) && map.microBatches > 1;
  };
  std::vector<llvm::SetVector<Value>> needed(functions.count());
  for (Operation &op : function.getBody().front()) {
    if (isa<SourceOpInterface>(op) || !isHere(&op) || isConstant(&op) ||
        isTerminator(&op))
      continue;
    for (OpOperand &use : op.getOpOperands())
      if (Operation *def = makerHere(use.get());
          def && !isConstant(def) && !isSum(def) &&
          functionOf(def) != functionOf(&op) && !isMadeBefore(use) &&
          !isSummedInChunks(use))
        needed[functionOf(&op)].insert(use.get());
  }
  llvm::DenseSet<Value> known;
  for (StageFunction which = 0; which < functions.count(); ++which) {
    if (needed[which].empty())
      continue;
    auto isReceived = [&](Value value) {
      Operation *def = value.getDefiningOp();
      return def && !isa<SourceOpInterface>(def) && !isHere(def);
    };
    // A received value needs not be kept if ops of this function read it, too.
    auto isFree = [&](Value value) {
      Operation *def = value.getDefiningOp();
      if (isReceived(value))
        return llvm::any_of(value.getUsers(), [&](Operation *user) {
          return !isTerminator(user) && isHere(user) &&
                 functionOf(user) == which;
        });
      return !def || isa<SourceOpInterface>(def) || isConstant(def);
    };
    auto canRepeat = [&](Value value) {
      if (isReceived(value) || isSharedByMoving(value))
        return false;
      Operation *op = value.getDefiningOp();
      for (Value operand : op->getOperands()) {
        auto source = operand.getDefiningOp<SourceOpInterface>();
        if ((which == functions.update() && source && source.isMutable()) ||
            (functions.runsOnce(functionOf(op)) != functions.runsOnce(which) &&
             (isa<BlockArgument>(operand) || !batch.isOfStep(operand))))
          return false;
      }
      return isa<dist::AccumulateOp>(op) ? !isSum(op) : movesOrCasts(op);
    };
    auto bytes = [&](Value value) -> int64_t {
      return known.contains(value) ? 0 : heldBytes(value);
    };
    KeptProblem problem{SmallVector<Value>(needed[which].getArrayRef()), isFree,
                        canRepeat, bytes};
    for (Value value : chooseKeptValues(problem)) {
      Kept &own = kept[rootOf(value)];
      own.which = which;
      if (known.insert(value).second)
        own.bytes += heldBytes(value);
    }
  }
}

/// Whether the op that makes the value adds it to the sum over micro-batches
/// itself. Convolutions cannot.
bool StageMemory::isAddedInPlace(Value value, Operation *user) const {
  Operation *def = value.getDefiningOp();
  if (!isa<dist::AccumulateOp>(user) || isView(user) || !def || !isHere(def) ||
      functionOf(def) != functionOf(user) ||
      classOf(def) == CostClass::Convolution)
    return false;
  return llvm::none_of(orderOf(def).togetherWith(def), [&](Operation *op) {
    return classOf(op) == CostClass::Convolution;
  });
}

/// The function of another stage that takes the value of `def` for a use.
StageFunction StageMemory::receivingFunction(Operation *user,
                                             Operation *def) const {
  if (map.chunks == 1) // it goes on in the phase in which it was made
    return dist::getPhase(def) == dist::Phase::Forward ? functions.forward()
                                                       : functions.backward();
  switch (dist::getPhase(user)) {
  case dist::Phase::Forward:
    return functions.forward(chunkOf(user));
  case dist::Phase::BackwardInput:
  case dist::Phase::BackwardWeight:
    return functions.backward(chunkOf(user));
  case dist::Phase::Prologue:
  case dist::Phase::Update:
    break;
  }
  return functions.update();
}

void StageMemory::addSource(Operation *op) {
  auto source = cast<SourceOpInterface>(op);
  for (Value result : op->getResults()) {
    bool isUsed = false, isState = source.isMutable();
    llvm::SmallSet<LayoutId, 4> cuts; // slices that are made at load
    for (OpOperand &use : result.getUses()) {
      isState &= batch.runsOnce(use.getOwner());
      // An operand of an op that is computed at load is freed after load.
      if (!isHere(use.getOwner()) || isConstant(use.getOwner()))
        continue;
      if (!source.isMutable() && moves(use) && gatheredFor(use) == 0)
        cuts.insert(graph.operandLayout(solution, use));
      else
        isUsed = true;
    }
    auto type = tensorType(result);
    for (LayoutId layout : cuts)
      memory.parameters +=
          sizeBytes(plan::localType(type, graph.layouts[layout]));
    int64_t bytes = graph.localBytes(solution, result);
    bool isInline = !source.isParameter() &&
                    (source.isUniform() || bytes <= kMaxInlineConstantBytes);
    if (!isUsed || isInline)
      continue;
    (isState ? memory.optimizer : memory.parameters) += bytes;
    if (graph.sharedLayout(solution, result) &&
        *graph.sharedLayout(solution, result) !=
            graph.resultLayout(solution, result))
      addValue(result);
  }
}

/// A result that is computed at load and read by steps is a parameter.
void StageMemory::addConstant(Operation *op) {
  for (Value result : op->getResults()) {
    bool isRead = llvm::any_of(result.getUsers(), [&](Operation *user) {
      return isHere(user) && !isConstant(user);
    });
    if (isRead && op->getNumOperands() > 0)
      memory.parameters += graph.sharedBytes(solution, result);
  }
}

void StageMemory::addAll() {
  listRuns();
  listLevels();
  findViews();
  listArrivals();
  listMoves();
  chooseKept();
  formGroups();
  timeMoves();
  for (BlockArgument argument : function.getArguments())
    addValue(argument);
  for (Operation &op : function.getBody().front()) {
    if (isa<SourceOpInterface>(op)) {
      addSource(&op);
    } else if (isConstant(&op)) {
      addConstant(&op);
    } else {
      for (Value result : op.getResults())
        addValue(result);
    }
  }
  addMoves();
  addBuckets();
  addLoops();
}
