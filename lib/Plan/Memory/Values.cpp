//===- Values.cpp - where a value of a stage lies, and for how long -------===//
//
// addValue() gathers who reads a value (ValueUses), and gives it one of these:
//
//   nothing  a view, or read by nobody but the kernel or call that makes it;
//   a sum    over micro-batches, in memory for gradients from first to last;
//   slots    what other functions or stages read, inputs, and outputs: one for
//            each micro-batch, live at times of StageRuns;
//   scratch  what single functions read: live at instants of the function.
//
// O(uses) for each value, and for slots O(micro-batches x functions).
//
//===----------------------------------------------------------------------===//
#include "../Model/Terminator.h"
#include "StageMemory.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

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

void StageMemory::ValueUses::note(StageFunction which, int64_t time) {
  first[which] = used[which] ? std::min(first[which], time) : time;
  last[which] = used[which] ? std::max(last[which], time) : time;
  used[which] = true;
}

/// A use by an op of another stage, which is sent the value by the stage that
/// makes it.
void StageMemory::noteSent(ValueUses &uses, Operation *user) const {
  if (!uses.isMadeHere)
    return;
  StageFunction reader = receivingFunction(user, uses.def);
  auto [known, isNew] =
      uses.receivers.insert({map.placeOf(user) % map.stages, reader});
  known->second = std::min(known->second, reader);
}

/// A use of the value, or of a view of it, by an op of this stage.
void StageMemory::noteUse(ValueUses &uses, OpOperand &use) {
  Operation *user = use.getOwner();
  uses.isUsedHere = true;
  if (uses.isMadeHere && isSummedInChunks(use)) {
    uses.isSummedInChunks = uses.isRead = true;
    return;
  }
  // The buffer is that of what others share.
  if (readsAsMade(use) || isAsMade(use.get())) {
    uses.isRead = true;
    return;
  }
  // Behind a collective its result is read, not the value.
  if (isBehindMove(use.get()) || isMadeBefore(use)) {
    uses.isRead = true;
    return;
  }
  if ((isView(user) && !moveOf.contains(&use)) ||
      isAddedInPlace(uses.value, user))
    return;
  addWidened(uses.value, use);
  SmallVector<int64_t> times = readTimesOf(uses.def, use);
  uses.isRead |= !uses.isMadeHere || !times.empty();
  llvm::append_range(times, copyTimes(user));
  for (int64_t time : times)
    uses.note(functionOf(user), time);
  uses.isCalled[functionOf(user)] |= orderOf(user).isCall(user);
  if (functionOf(user) == functions.update()) {
    uses.firstLevel = std::min(uses.firstLevel, levelOf(user));
    uses.lastLevel = std::max(uses.lastLevel, levelOf(user));
  }
}

/// A concatenation's memory is held from its first part on.
void StageMemory::addParts(ValueUses &uses) {
  if (!uses.isMadeHere)
    return;
  StageFunction which = functionOf(uses.def);
  for (Value part : orderOf(uses.def).writtenIn(uses.value)) {
    ValueUses own = usesOf(part);
    uses.note(which, own.first[which]);
    uses.note(which, own.last[which]);
  }
}

StageMemory::ValueUses StageMemory::usesOf(Value value) {
  ValueUses uses;
  uses.value = value;
  uses.def = value.getDefiningOp();
  uses.bytes = heldBytes(value);
  bool isSource = isa_and_nonnull<SourceOpInterface>(uses.def);
  uses.isMadeHere = uses.def && !isSource && isHere(uses.def);
  uses.isReceived = uses.def && !isSource && !uses.isMadeHere;
  uses.first.resize(functions.count());
  uses.last.resize(functions.count());
  uses.used.resize(functions.count(), false);
  uses.isCalled.resize(functions.count(), false);
  if (uses.isMadeHere && !isa<dist::AccumulateOp>(uses.def))
    uses.note(functionOf(uses.def), makeTime(uses.def) + isGathered(value));
  SmallVector<Value> all = {value};
  llvm::append_range(all, aliases.lookup(value));
  addParts(uses);
  for (Value alias : all)
    for (OpOperand &use : alias.getUses()) {
      Operation *user = use.getOwner();
      uses.isGradient |= isa<dist::AccumulateOp>(user);
      if (isTerminator(user))
        uses.isOutput |= uses.isMadeHere;
      else if (!isHere(user))
        noteSent(uses, user);
      else
        noteUse(uses, use);
    }
  return uses;
}

/// Whether anybody reads the value where it lies: another function or stage,
/// or another op than those that are computed together with its maker.
bool StageMemory::isStored(const ValueUses &uses) const {
  return uses.isMadeHere ? uses.isRead || !uses.receivers.empty() ||
                               uses.isOutput || kept.contains(uses.value)
                         : uses.isUsedHere;
}

/// Sums over micro-batches; whether the value is one, so that all is done.
bool StageMemory::addSum(const ValueUses &uses) {
  if (uses.isMadeHere && isa<dist::AccumulateOp>(uses.def)) {
    if (map.microBatches > 1 || isWhole) {
      // A view where it is none; in its slot from the first addition on.
      memory.gradients += aligned(uses.bytes);
      int64_t first = runs.runOf(functionOf(uses.def), 0);
      addSlot(aligned(uses.bytes), StageRuns::timeOf(first),
              timeOfRun(runs.last(), uses.lastLevel));
      return true;
    }
    // With one micro-batch the sum is its operand, and that is what is kept
    // for the update.
    return !kept.contains(uses.value);
  }
  // Partial sums over micro-batches are summed before they are sent.
  if (map.microBatches == 1 || !partsOfSums.contains(uses.value) ||
      !(uses.isReceived || uses.isSummedInChunks || !uses.receivers.empty()))
    return false;
  if (uses.isReceived) {
    int64_t time = timeOfRun(runs.last(), 1);
    addSlot(uses.bytes, time, time);
  } else {
    memory.gradients += aligned(uses.bytes);
    addSlot(aligned(uses.bytes), 0, StageRuns::timeOf(runs.last()));
  }
  return true;
}

/// The first and last run that reads micro-batch `each`; of a value that each
/// micro-batch makes the update reads only the last.
std::pair<int64_t, int64_t> StageMemory::readRuns(const ValueUses &uses,
                                                  int64_t each) const {
  std::pair<int64_t, int64_t> found = {runs.last(), 0};
  bool isOfStep = batch.isOfStep(uses.value);
  for (StageFunction which = 0; which < functions.count(); ++which) {
    if (!uses.used[which] || (which == functions.update() && !isOfStep &&
                              each != map.microBatches - 1))
      continue;
    int64_t run = runs.runOf(which, each);
    found = {std::min(found.first, run), std::max(found.second, run)};
    if (isOfStep && !functions.runsOnce(which))
      found.second =
          std::max(found.second, runs.runOf(which, map.microBatches - 1));
  }
  return found;
}

/// An input is loaded for each run that reads it, or once for the whole step.
void StageMemory::addInput(const ValueUses &uses) {
  if (batch.isOfStep(uses.value)) {
    auto [begin, end] = readRuns(uses, 0);
    addSlot(uses.bytes, arrivalOf(uses.value, begin), StageRuns::timeOf(end));
    return;
  }
  for (int64_t number = 0; number <= runs.last(); ++number)
    if (uses.used[runs.all()[number].which])
      addSlot(uses.bytes, arrivalOf(uses.value, number),
              StageRuns::timeOf(number));
}

/// What is received, sent, kept for a later function or an output: a slot for
/// each micro-batch.
void StageMemory::addSlots(const ValueUses &uses) {
  Value value = uses.value;
  StageFunction maker =
      uses.isMadeHere ? functionOf(uses.def) : functions.forward();
  // If a rounded copy is kept, other stages are still sent the value itself.
  int64_t rounded = kept.lookup(value).bytes;
  bool isRounded =
      rounded > 0 && rounded < uses.bytes && !uses.receivers.empty();
  int64_t count = batch.isOfStep(value) ? 1 : map.microBatches;
  for (int64_t each = 0; each < count; ++each) {
    auto [from, to] = readRuns(uses, each);
    if (uses.isMadeHere) {
      from = runs.runOf(maker, each);
      if (!kept.contains(value))
        to = from;
    }
    bool isLate = uses.isReceived &&
                  runs.all()[from].which == functions.update() &&
                  uses.firstLevel > 0;
    int64_t begin = uses.isMadeHere ? timeOfRun(from, levelOf(uses.def))
                    : isLate        ? timeOfRun(from, uses.firstLevel)
                                    : arrivalOf(value, from);
    int64_t end = std::max(begin, timeOfRun(to, uses.lastLevel));
    if (isRounded) {
      addSlot(rounded, begin, end);
      end = begin;
    }
    for (auto [receiver, taker] : uses.receivers)
      end = std::max(end, functions.runsOnce(maker)
                              ? timeOfRun(runs.last(), 0)
                              : runs.heldUntil(receiver, maker, taker, each));
    addSlot(uses.bytes, begin, end);
  }
}

/// What one function makes and reads, or makes again where it is read.
void StageMemory::addScratch(const ValueUses &uses, StageFunction which) {
  bool isMaker = uses.isMadeHere && functionOf(uses.def) == which;
  if (isMaker && orderOf(uses.def).placeOf(uses.value))
    return; // in the memory of a concatenation
  if (isMaker)
    if (SmallVector<int64_t> copies = copyTimes(uses.def); !copies.empty()) {
      for (int64_t time : copies)
        scratch(which, time - 1, time + 1, uses.bytes, uses.isGradient);
      return;
    }
  int64_t begin = uses.first[which], end = uses.last[which] + 1;
  if (!isMaker && uses.isMadeHere) {
    // Recomputed inside the kernels that read it.
    if (!uses.isCalled[which])
      return;
    --begin;
  } else if (isMaker && begin < uses.last[which]) {
    if (Value over = overwritten(uses.def, begin, uses.bytes)) {
      if (kept.contains(over) || inSlots.contains(over)) {
        inSlots.insert(uses.value);
        return; // the slot is there anyway
      }
      ++begin;
    }
  }
  scratch(which, begin, end, uses.bytes, uses.isGradient);
}

/// What is assigned to a parameter that another stage has, too, is sent there.
void StageMemory::addSentState(Value value) {
  Operation *def = value.getDefiningOp();
  bool isSent = !isView(def) && isHere(def) &&
                llvm::any_of(value.getUsers(), [&](Operation *user) {
                  return isa<dist::AssignOp>(user) && !isHere(user);
                });
  if (!isSent)
    return;
  int64_t time = timeOfRun(runs.last(), levelOf(def));
  addSlot(graph.localBytes(solution, value), time, time);
}

void StageMemory::addValue(Value value) {
  Operation *def = value.getDefiningOp();
  if (def && !isa<SourceOpInterface>(def) &&
      (isView(def) || isWrittenInPlace(cast<OpResult>(value)))) {
    addSentState(value);
    return;
  }
  ValueUses uses = usesOf(value);
  if (!isStored(uses) || addSum(uses))
    return;
  // A function for which the value is kept may have no op that reads it, only
  // ops that read what the function computes from it.
  if (auto own = kept.find(value); own != kept.end())
    uses.note(own->second.which, 0);
  if (!def)
    addInput(uses);
  else if (uses.isReceived || kept.contains(value) || !uses.receivers.empty() ||
           uses.isOutput)
    addSlots(uses);
  else
    for (StageFunction which = 0; which < functions.count(); ++which)
      if (uses.used[which])
        addScratch(uses, which);
}
