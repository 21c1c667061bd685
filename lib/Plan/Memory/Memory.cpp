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
  // What another function reads, or another stage, is left to it as the program
  // has it.
  auto isLeft = [&](OpOperand &use) {
    Operation *def = use.get().getDefiningOp(), *user = use.getOwner();
    return moves(use) || (def && !isa<SourceOpInterface>(def) &&
                          !isTerminator(user) && !areTogether(def, user));
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

void StageMemory::formGroups() {
  std::set<StageFunction> used;
  for (const StageRuns::Run &run : runs.all())
    used.insert(run.which);
  for (StageFunction which : used) {
    auto isInPart = [&](Operation *op) {
      return isHere(op) && functionOf(op) == which;
    };
    auto isKnown = [&](Operation *op) { return isConstant(op); };
    auto isMoved = [&](OpOperand &use) {
      return !isAssignTarget(use) && moves(use);
    };
    auto bytes = [&](Value value) { return heldBytes(value); };
    auto elements = [&](Value value) {
      return graph.sharedBytes(solution, value) /
             elementBytes(tensorType(value));
    };
    auto endsHere = [&](Value value) { return endsCall.contains(value); };
    auto isInSlot = [&](Value value) { return kept.contains(rootOf(value)); };
    orders[which].form(function.getBody().front(),
                       {isInPart, views, isKnown, isInSlot, isMoved, endsHere,
                        elements, bytes, graph.isMemoryBound(),
                        graph.hasFixedEpilogue(), graph.sumsByBlock()});
  }
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

/// Calls other than products read what is stored in 16 bits as the program has
/// it: from a copy in front of them.
void StageMemory::addWidened(Value value, OpOperand &use) {
  Operation *user = use.getOwner();
  if (!endsCall.contains(value) || !isLibraryCall(libraryWorkOf(user)) ||
      libraryWorkOf(user) == LibraryWork::Product)
    return;
  int64_t time = timeOf(user);
  scratch(functionOf(user), time - 1, time + 1,
          graph.sharedBytes(solution, value));
}

void StageMemory::addValue(Value value) {
  Operation *def = value.getDefiningOp();
  bool isSource = def && isa<SourceOpInterface>(def);
  bool madeHere = def && !isSource && isHere(def);
  if (def && !isSource &&
      (isView(def) || isWrittenInPlace(cast<OpResult>(value))))
    return;
  int64_t bytes = heldBytes(value);
  bool isGradient = false;
  SmallVector<int64_t, 4> first(functions.count()), last(functions.count());
  SmallVector<bool, 4> used(functions.count(), false), isCalled = used;
  auto note = [&](StageFunction which, int64_t time) {
    first[which] = used[which] ? std::min(first[which], time) : time;
    last[which] = used[which] ? std::max(last[which], time) : time;
    used[which] = true;
  };
  bool isSum = def && isa<dist::AccumulateOp>(def);
  if (madeHere && !isSum)
    note(functionOf(def), makeTime(def) + isGathered(value));
  SmallVector<Value> all = {value};
  llvm::append_range(all, aliases.lookup(value));
  bool isUsedHere = false, isOutput = false, isRead = false, isInParts = false;
  std::map<int64_t, StageFunction>
      receivers; // with the first function that reads it
  for (Value alias : all)
    for (OpOperand &use : alias.getUses()) {
      Operation *user = use.getOwner();
      isGradient |= isa<dist::AccumulateOp>(user);
      if (isTerminator(user)) {
        isOutput |= madeHere;
        continue;
      }
      if (!isHere(user)) {
        if (madeHere) {
          StageFunction reader = receivingFunction(user, def);
          auto [known, isNew] =
              receivers.insert({map.placeOf(user) % map.stages, reader});
          known->second = std::min(known->second, reader);
        }
        continue;
      }
      isUsedHere = true;
      if (madeHere && isSummedInChunks(use)) {
        isInParts = isRead = true;
        continue;
      }
      // Behind a collective its result is read, not the value.
      if (isBehindMove(alias) || isMadeBefore(use)) {
        isRead = true;
        continue;
      }
      if ((isView(user) && !moveOf.contains(&use)) ||
          isAddedInPlace(value, user))
        continue;
      addWidened(value, use);
      SmallVector<int64_t> times = readTimesOf(def, use);
      isRead |= !madeHere || !times.empty();
      llvm::append_range(times, copyTimes(user));
      for (int64_t time : times)
        note(functionOf(user), time);
      isCalled[functionOf(user)] |= orderOf(user).isCall(user);
    }
  bool isReceived = def && !isSource && !madeHere;
  if (madeHere ? !isRead && receivers.empty() && !isOutput && !kept.count(value)
               : !isUsedHere)
    return; // nobody else reads it
  int64_t lastRun = runs.last();
  if (isSum && madeHere && (map.microBatches > 1 || isWhole)) {
    memory.gradients += aligned(bytes); // a view where it is none
    return;
  }
  // With one micro-batch the sum is its operand, and that is what is kept for
  // the update.
  if (isSum && madeHere && !kept.count(value))
    return;
  // Partial sums over micro-batches are summed before they are sent.
  if (map.microBatches > 1 && partsOfSums.contains(value) &&
      (isReceived || isInParts || !receivers.empty())) {
    if (isReceived)
      addSlot(bytes, arrivalOf(value, lastRun), StageRuns::timeOf(lastRun));
    else
      memory.gradients += aligned(bytes);
    return;
  }
  auto forEachMicroBatch = [&](auto visit) {
    int64_t count = batch.isOfStep(value) ? 1 : map.microBatches;
    for (int64_t each = 0; each < count; ++each)
      visit(each);
  };
  // A function for which the value is kept may have no op that reads it, only
  // ops that read what the function computes from it.
  if (auto own = kept.find(value); own != kept.end())
    note(own->second.which, 0);
  // The first and last run that reads micro-batch `each`; of a value that each
  // micro-batch makes the update reads only the last.
  auto readRuns = [&](int64_t each) {
    std::pair<int64_t, int64_t> found = {lastRun, 0};
    for (StageFunction which = 0; which < functions.count(); ++which) {
      if (!used[which] ||
          (which == functions.update() && !batch.isOfStep(value) &&
           each != map.microBatches - 1))
        continue;
      int64_t run = runs.runOf(which, each);
      found = {std::min(found.first, run), std::max(found.second, run)};
      if (batch.isOfStep(value) && !functions.runsOnce(which))
        found.second =
            std::max(found.second, runs.runOf(which, map.microBatches - 1));
    }
    return found;
  };
  if (!def) { // an input: loaded for each run, or once for the whole step
    if (batch.isOfStep(value)) {
      auto [begin, end] = readRuns(0);
      addSlot(bytes, arrivalOf(value, begin), StageRuns::timeOf(end));
      return;
    }
    for (int64_t number = 0; number <= lastRun; ++number)
      if (used[runs.all()[number].which])
        addSlot(bytes, arrivalOf(value, number), StageRuns::timeOf(number));
    return;
  }
  if (isReceived || kept.count(value) || !receivers.empty() || isOutput) {
    StageFunction maker = madeHere ? functionOf(def) : functions.forward();
    // If a rounded copy is kept, other stages are still sent the value itself.
    int64_t rounded = kept.lookup(value).bytes;
    bool isRounded = rounded > 0 && rounded < bytes && !receivers.empty();
    forEachMicroBatch([&](int64_t each) {
      auto [from, to] = readRuns(each);
      if (madeHere) {
        from = runs.runOf(maker, each);
        if (!kept.count(value))
          to = from;
      }
      int64_t begin =
                  madeHere ? StageRuns::timeOf(from) : arrivalOf(value, from),
              end = std::max(begin, StageRuns::timeOf(to));
      if (isRounded) {
        addSlot(rounded, begin, end);
        end = begin;
      }
      for (auto [receiver, taker] : receivers)
        end = std::max(end, functions.runsOnce(maker)
                                ? StageRuns::timeOf(lastRun)
                                : runs.heldUntil(receiver, maker, taker, each));
      addSlot(bytes, begin, end);
    });
    return;
  }
  for (StageFunction which = 0; which < functions.count(); ++which) {
    if (!used[which])
      continue;
    bool isMaker = madeHere && functionOf(def) == which;
    if (isMaker)
      if (SmallVector<int64_t> copies = copyTimes(def); !copies.empty()) {
        for (int64_t time : copies)
          scratch(which, time - 1, time + 1, bytes, isGradient);
        continue;
      }
    int64_t begin = first[which], end = last[which] + 1;
    if (!isMaker && madeHere) {
      // Recomputed inside the kernels that read it.
      if (!isCalled[which])
        continue;
      --begin;
    } else if (isMaker && begin < last[which]) {
      if (Value over = overwritten(def, begin, bytes)) {
        if (kept.count(over) || inSlots.contains(over)) {
          inSlots.insert(value);
          continue; // the slot is there anyway
        }
        ++begin;
      }
    }
    scratch(which, begin, end, bytes, isGradient);
  }
}

void StageMemory::addAll() {
  listRuns();
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
  addLoops();
}
