//===- Moves.cpp - what collectives read and write ------------------------===//
//
// A use may want a value in another layout than the one in which it is held.
// Both copies are in memory while the collective runs, and the copy in the new
// layout stays until its last use.
//
//===----------------------------------------------------------------------===//
#include "../Model/Terminator.h"
#include "StageMemory.h"

#include "kerf/Dist/MovePurpose.h"
#include "kerf/Fusion/Casts.h"
#include "kerf/Fusion/KeptValues.h"

#include "llvm/ADT/Sequence.h"

#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// Whether one all-gather leads from a layout to another.
static bool isOneGather(const dist::Layout &from, const dist::Layout &to) {
  if (from.isPartial() || to.isPartial() || !from.blocks.empty() ||
      !to.blocks.empty())
    return false;
  int64_t gathered = 0;
  for (auto [before, after] : llvm::zip_equal(from.dims, to.dims)) {
    if (before == after)
      continue;
    if (after.size() >= before.size() ||
        !std::equal(after.begin(), after.end(), before.begin()))
      return false;
    ++gathered;
  }
  return gathered == 1;
}

/// Whether a use reads the value as it was made, although others share it
/// gathered: a slice of what one all-gather brings together is what the device
/// had before (kerf-simplify-collectives).
bool StageMemory::readsAsMade(OpOperand &use) const {
  std::optional<LayoutId> shared = graph.sharedLayout(solution, use.get());
  Operation *def = use.get().getDefiningOp(), *user = use.getOwner();
  if (!shared || !def || isa<SourceOpInterface>(def) || isTerminator(user) ||
      isAssignTarget(use) || !isHere(def) || !isHere(user) ||
      functionOf(def) != functionOf(user))
    return false;
  LayoutId made = graph.resultLayout(solution, use.get());
  return graph.operandLayout(solution, use) == made &&
         isOneGather(graph.layouts[made], graph.layouts[*shared]);
}

bool StageMemory::isAsMade(Value view) const {
  while (Operation *def = view.getDefiningOp()) {
    OpOperand *behind = views.seenBy(def);
    if (!behind)
      return false;
    if (readsAsMade(*behind))
      return true;
    view = behind->get();
  }
  return false;
}

/// Whether a collective or a slice stands between a value and its use.
bool StageMemory::moves(OpOperand &use) const {
  if (graph.isFilledInPlace(use) || readsAsMade(use))
    return false;
  LayoutId made = graph.resultLayout(solution, use.get());
  return graph.sharedLayout(solution, use.get()).value_or(made) != made ||
         graph.operandLayout(solution, use) != made;
}

/// Whether the use reads a part of what the device has.
bool StageMemory::isSliced(OpOperand &use) const {
  LayoutId made = graph.resultLayout(solution, use.get());
  LayoutId read = graph.operandLayout(solution, use);
  const dist::Layout &from = graph.layouts[made], &to = graph.layouts[read];
  auto type = tensorType(use.get());
  return graph.sharedLayout(solution, use.get()).value_or(made) == made &&
         !from.isPartial() && !to.isPartial() &&
         sizeBytes(plan::localType(type, to)) <
             sizeBytes(plan::localType(type, from));
}

/// Bytes of the buffer that a collective gives where it does not work in place.
int64_t StageMemory::gatheredBytes(LayoutId from, LayoutId to,
                                   Value value) const {
  if (graph.layouts[from].dims == graph.layouts[to].dims &&
      graph.layouts[from].blocks == graph.layouts[to].blocks)
    return 0; // nothing, or an all-reduce
  auto type = tensorType(value);
  int64_t before = sizeBytes(plan::localType(type, graph.layouts[from]));
  int64_t after = sizeBytes(plan::localType(type, graph.layouts[to]));
  bool isSlice = !graph.layouts[from].isPartial() && after < before;
  return isSlice ? 0 : after; // a slice is read in place
}

/// Whether uses share the value in another layout, in a buffer of its own.
bool StageMemory::isGathered(Value value) const {
  auto shared = graph.sharedLayout(solution, value);
  return shared &&
         gatheredBytes(graph.resultLayout(solution, value), *shared, value) > 0;
}

/// Whether devices move data to bring a value to its shared layout.
bool StageMemory::isSharedByMoving(Value value) const {
  std::optional<LayoutId> shared = graph.sharedLayout(solution, value);
  LayoutId made = graph.resultLayout(solution, value);
  if (!shared || *shared == made)
    return false;
  const dist::Layout &from = graph.layouts[made];
  auto type = tensorType(value);
  bool isSlice = sizeBytes(plan::localType(type, graph.layouts[*shared])) <
                 sizeBytes(plan::localType(type, from));
  return from.isPartial() || !isSlice;
}

int64_t StageMemory::gatheredFor(OpOperand &use) const {
  if (isAssignTarget(use) || isTerminator(use.getOwner()))
    return 0;
  return gatheredBytes(graph.sharedLayout(solution, use.get())
                           .value_or(graph.resultLayout(solution, use.get())),
                       graph.operandLayout(solution, use), use.get());
}

/// Bytes of the copy whose padding is filled for a product that adds over it,
/// where shards do not divide a dimension (partition's localize). Kernels fill
/// while they read.
int64_t StageMemory::filledFor(OpOperand &use) const {
  auto ruled = dyn_cast<ShardingRuleInterface>(use.getOwner());
  if (!ruled || !isLibraryCall(libraryWorkOf(use.getOwner())) ||
      isa_and_nonnull<SourceOpInterface>(use.get().getDefiningOp()))
    return 0;
  auto type = tensorType(use.get());
  const dist::Layout &layout =
      graph.layouts[graph.operandLayout(solution, use)];
  auto isUneven = [&](size_t dim) {
    return layout.isUneven(dim, type.getDimSize(dim));
  };
  auto dims = llvm::seq<size_t>(0, type.getRank());
  if (llvm::none_of(dims, isUneven))
    return 0;
  ShardingRule rule = ruled.getShardingRule();
  const TensorFactors &factors = rule.operands[use.getOperandNumber()];
  bool isFilled = llvm::any_of(dims, [&](size_t dim) {
    return !factors[dim].empty() && isUneven(dim) &&
           rule.factors[factors[dim][0]].kind == FactorKind::Reduction &&
           !rule.factors[factors[dim][0]].masksItself;
  });
  return isFilled ? sizeBytes(plan::localType(type, layout)) : 0;
}

/// When the ops of the same function read what an op makes, views seen through.
std::pair<int64_t, int64_t> StageMemory::readTimes(Operation *op) const {
  if (!isView(op)) {
    std::pair<int64_t, int64_t> times = {timeOf(op), timeOf(op)};
    for (int64_t time : orderOf(op).readTimesOf(nullptr, op)) {
      times.first = std::min(times.first, kTicks * time);
      times.second = std::max(times.second, kTicks * time);
    }
    for (int64_t time : copyTimes(op))
      times.second = std::max(times.second, time);
    return times;
  }
  std::pair<int64_t, int64_t> times = {INT64_MAX, -1};
  for (Operation *user : op->getUsers()) {
    if (isTerminator(user) || !isHere(user) ||
        functionOf(user) != functionOf(op))
      continue;
    auto [first, last] = readTimes(user);
    times = {std::min(times.first, first), std::max(times.second, last)};
  }
  return times;
}

/// As partition's kerf-insert-reshards: what a parameter becomes is the same
/// for all micro-batches, so it is made in front of them.
StageFunction StageMemory::functionOfMove(OpOperand &use) const {
  Operation *op = use.getOwner();
  bool isSource = isa_and_nonnull<SourceOpInterface>(use.get().getDefiningOp());
  if (isSource && batch.isTraining() && map.microBatches > 1 &&
      !graph.isOfPass(use) && !dist::runsOncePerStep(dist::getPhase(op)))
    return StageFunctions::Prologue;
  return functionOf(op);
}

void StageMemory::listMoves() {
  // Forward and backward share what they want alike, as do prologue and update
  // (partition's kerf-insert-reshards), but for what a pass gathers for itself.
  // Each chunk moves for its micro-batches, each function fills padding by
  // itself.
  std::map<std::tuple<void *, LayoutId, int, int64_t>, size_t> known;
  for (Operation &op : function.getBody().front()) {
    if (isa<SourceOpInterface>(op) || !isHere(&op) || isConstant(&op) ||
        isTerminator(&op))
      continue;
    for (OpOperand &use : op.getOpOperands()) {
      // What uses share of a view, they share of what it shows.
      LayoutId layout = graph.operandLayout(solution, use);
      int64_t bytes = gatheredFor(use);
      Operation *def = use.get().getDefiningOp();
      if (bytes == 0 && def && isView(def) && isGathered(use.get()) &&
          !readsAsMade(use)) {
        layout = *graph.sharedLayout(solution, use.get());
        bytes = graph.sharedBytes(solution, use.get());
      }
      bool isFilled = bytes == 0;
      if (isFilled)
        bytes = filledFor(use);
      if (bytes == 0)
        continue;
      StageFunction which = isFilled ? functionOf(&op) : functionOfMove(use);
      bool isOnce = functions.runsOnce(which) ||
                    dist::runsOncePerStep(dist::getPhase(&op));
      std::optional<StepPass> pass = graph.getZero().passOf(use);
      int readers = isFilled ? 4 + which
                    : pass   ? 2 + static_cast<int>(*pass)
                             : isOnce;
      auto [entry, isNew] =
          known.try_emplace({use.get().getAsOpaquePointer(), layout, readers,
                             isOnce ? 0 : chunkOf(&op)},
                            moved.size());
      if (isNew)
        moved.push_back(
            {bytes, which, which, batch.isOfStep(use.get()) && !pass,
             isFilled ? rootOf(use.get()).getDefiningOp() : nullptr});
      Move &move = moved[entry->second];
      move.readIn = std::max(move.readIn, functionOf(&op));
      moveOf[&use] = entry->second;
    }
  }
  for (Operation &op : function.getBody().front())
    if (!isa<SourceOpInterface>(op) && isHere(&op) && !isConstant(&op))
      for (Value result : op.getResults())
        if (isGathered(result))
          gatheredNumbers.insert(
              {result, moved.size() + gatheredNumbers.size()});
}

FusionQuestions::Copy StageMemory::copyReadBy(OpOperand &use,
                                              StageFunction which) const {
  for (OpOperand *operand = &use; operand;) {
    Value value = operand->get();
    if (auto move = moveOf.find(operand); move != moveOf.end()) {
      const Move &own = moved[move->second];
      if (own.which != which || own.readIn != which)
        return {};
      // Sums of gradients start as soon as they can; what is moved for a view
      // has the view's place in the program, right behind the value.
      dist::PurposeAttr purpose =
          dist::movePurpose(value.getDefiningOp(), operand->getOwner());
      bool isGradient =
          purpose && purpose.getValue() == dist::Purpose::Gradient;
      return {static_cast<int64_t>(move->second), own.bytes,
              isGradient || movesOrCasts(operand->getOwner())};
    }
    Operation *def = value.getDefiningOp();
    if (!def)
      return {};
    if (auto gathered = gatheredNumbers.find(value);
        gathered != gatheredNumbers.end() && !readsAsMade(*operand))
      return functionOf(def) == which
                 ? FusionQuestions::Copy{static_cast<int64_t>(gathered->second),
                                         graph.sharedBytes(solution, value),
                                         /*isMadeAtOnce=*/true}
                 : FusionQuestions::Copy();
    operand = views.seenBy(def);
  }
  return {};
}

bool StageMemory::isFilledByMaker(const Move &move) const {
  Operation *maker = move.filledBy;
  if (!maker || !isHere(maker) || isConstant(maker) ||
      isa<SourceOpInterface>(maker))
    return false;
  // What another function has not left is made again, and filled at once.
  if (functionOf(maker) != move.which)
    return llvm::none_of(maker->getResults(),
                         [&](Value result) { return kept.contains(result); });
  return !orderOf(maker).togetherWith(maker).empty() &&
         !orderOf(maker).isCall(maker);
}

void StageMemory::timeMoves() {
  for (Operation &op : function.getBody().front())
    for (OpOperand &use : op.getOpOperands()) {
      auto found = moveOf.find(&use);
      if (found == moveOf.end() ||
          moved[found->second].which != functionOf(&op))
        continue;
      auto [first, last] = readTimes(&op);
      Move &move = moved[found->second];
      move.first = std::min(move.first, first);
      move.last = std::max(move.last, last);
    }
  // Of several for one op the last is made right before it.
  std::map<std::pair<int, int64_t>, int64_t> behind;
  for (Move &move : llvm::reverse(moved)) {
    if (isFilledByMaker(move) && functionOf(move.filledBy) == move.which) {
      move.made = timeOf(move.filledBy);
      continue;
    }
    int64_t &count = behind[{move.which, move.first}];
    move.made = move.first - 1 - count;
    count = std::min(count + 2, kTicks - 4);
  }
}

SmallVector<int64_t> StageMemory::readTimesOf(Operation *maker,
                                              OpOperand &use) const {
  if (auto move = moveOf.find(&use); move != moveOf.end()) {
    const Move &own = moved[move->second];
    if (isFilledByMaker(own))
      return {};
    return {own.made};
  }
  Operation *user = use.getOwner();
  SmallVector<int64_t> times;
  for (int64_t time : orderOf(user).readTimesOf(maker, user))
    times.push_back(kTicks * time);
  return times;
}

int64_t StageMemory::makeTime(Operation *def) const {
  // What moves elements for a collective does so right before it, as for any
  // other reader (lowering's kerf-sink-shape-ops).
  if (def->getNumResults() == 1 && def->hasOneUse() && movesOrCasts(def) &&
      !isFloatCast(def))
    if (auto move = moveOf.find(&*def->use_begin()); move != moveOf.end())
      return moved[move->second].made - 1;
  return timeOf(def);
}

/// If several ops of its function read an op that only moves elements, each has
/// a copy of it (lowering's kerf-sink-shape-ops): when each copy is made. Empty
/// for all other ops.
SmallVector<int64_t> StageMemory::copyTimes(Operation *op) const {
  auto isMove = [&](Operation *each) {
    return !isView(each) && each->getNumOperands() == 1 && movesOrCasts(each) &&
           !isFloatCast(each);
  };
  if (!isMove(op) || !llvm::all_of(orderOf(op).togetherWith(op), isMove))
    return {};
  llvm::SmallSetVector<int64_t, 4> times;
  SmallVector<Operation *> stack = {op};
  while (!stack.empty())
    for (OpOperand &use : stack.pop_back_val()->getUses()) {
      Operation *user = use.getOwner();
      if (isTerminator(user) || !isHere(user) ||
          functionOf(user) != functionOf(op) || moves(use))
        return {};
      if (isView(user) || orderOf(op).isTogether(op, user))
        stack.push_back(user);
      else
        times.insert(timeOf(user));
    }
  if (times.size() < 2)
    return {};
  return SmallVector<int64_t>(times.begin(), times.end());
}

bool StageMemory::isBehindMove(Value view) const {
  while (Operation *def = view.getDefiningOp()) {
    OpOperand *behind = views.seenBy(def);
    if (!behind)
      return false;
    if (moveOf.contains(behind))
      return true;
    view = behind->get();
  }
  return false;
}

int64_t StageMemory::lastAsMade(Value value) const {
  int64_t last = -1;
  for (OpOperand &use : value.getUses())
    if (readsAsMade(use))
      last = std::max(last, readTimes(use.getOwner()).second);
  return last;
}

void StageMemory::addMoves() {
  for (const Move &move : moved) {
    if (move.which == move.readIn) {
      if (move.last >= 0)
        scratch(move.which, move.made, move.last + 1, move.bytes);
      continue;
    }
    int64_t count = move.isOfStep ? 1 : map.microBatches;
    for (int64_t each = 0; each < count; ++each) {
      bool isToEnd = move.isOfStep && move.readIn != functions.update();
      addSlot(move.bytes, StageRuns::timeOf(runs.runOf(move.which, each)),
              StageRuns::timeOf(runs.runOf(
                  move.readIn, isToEnd ? map.microBatches - 1 : each)));
    }
  }
  // A value whose uses share another layout exists in its own layout first.
  for (Operation &op : function.getBody().front()) {
    if (isa<SourceOpInterface>(op) || !isHere(&op) || isConstant(&op) ||
        isView(&op))
      continue;
    for (Value result : op.getResults())
      if (isGathered(result))
        scratch(functionOf(&op), timeOf(&op),
                std::max(timeOf(&op) + 1, lastAsMade(result)) + 1,
                graph.localBytes(solution, result));
  }
}

/// Small sums over micro-batches are copied into buckets before they are summed
/// over devices: in the update, when nothing else is in memory.
void StageMemory::addBuckets() {
  if (isWhole)
    return;
  int64_t bytes = 0;
  auto isSummed = [&](OpOperand &use) {
    LayoutId made = graph.resultLayout(solution, use.get());
    LayoutId read = graph.sharedLayout(solution, use.get()).value_or(made);
    if (read == made)
      read = graph.operandLayout(solution, use);
    const dist::Layout &from = graph.layouts[made], &to = graph.layouts[read];
    return from.isPartial() && !to.isPartial() && from.dims == to.dims;
  };
  for (auto sum : function.getBody().front().getOps<dist::AccumulateOp>()) {
    if (!isHere(sum))
      continue;
    int64_t own = graph.localBytes(solution, sum.getResult());
    if (graph.joinsBucket(own) &&
        llvm::any_of(sum->getUses(), [&](OpOperand &use) {
          return !isTerminator(use.getOwner()) && isSummed(use);
        }))
      bytes += own;
  }
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max() / 2;
  if (bytes > 0)
    scratch(functions.update(), kEnd, kEnd + 1, bytes);
}
