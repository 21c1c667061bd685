//===- Memory.cpp - what each device of a plan holds ----------------------===//
//
// Problem: predict parameters, slots and scratch memory of every stage as
// lowering will lay them out, without lowering.
//
// Idea: the same rules (MemoryUnits.h). What one kernel or library call alone
// reads never exists. Views are their operand. A kernel writes over an input of
// the same size that dies with it. What is assigned is made where the source
// lies. What crosses from one function of the stage to another is a slot: of
// each micro-batch that is held, or of the step; inputs and outputs are slots
// too. What lowering really lays out is known when it has run
// (Compilation::refineMemory).
//
// Linear in the ops, times the stages, but for MemoryUnits.
//
//===----------------------------------------------------------------------===//
#include "MemoryUnits.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

namespace {

/// Every buffer starts where a cache line does.
int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

struct Buffer {
  int64_t begin, end, bytes; ///< [begin, end)
  bool isGradient;
};

/// The memory of one stage.
class StageMemory {
public:
  StageMemory(const Graph &graph, const Solution &solution,
              func::FuncOp function, const StageMap &map, int64_t stage)
      : graph(graph), batch(graph.getBatch()), solution(solution),
        function(function), map(map), stage(stage),
        isWhole(map.stages == 1 && map.microBatches == 1) {}

  PlanResult::Memory run();

private:
  enum Part { Prologue, Forward, Backward, Update, kParts };
  Part partOf(Operation *op) const;
  bool isHere(Operation *op) const { return map.stageOf(op) == stage; }
  CostClass classOf(Operation *op) const;
  bool isView(Operation *op) const;
  Value rootOf(Value value) const;
  bool moves(OpOperand &use) const;
  const MemoryUnits &unitsOf(Operation *op) const {
    return units[isWhole ? Forward : partOf(op)];
  }
  /// Even; what is gathered for an op is so in the instant before.
  int64_t timeOf(Operation *op) const { return 2 * unitsOf(op).timeOf(op); }
  int64_t gatheredBytes(LayoutId from, LayoutId to, Value value) const;
  int64_t gatheredFor(OpOperand &use) const;
  std::pair<int64_t, int64_t> readTimes(Operation *op) const;
  bool isAddedInPlace(Value value, Operation *user) const;
  Value overwritten(Operation *def, int64_t time, int64_t bytes) const;
  void number();
  void addSource(Operation *op);
  void addValue(Value value);
  void addMoves(Operation *op);
  void scratch(Part part, int64_t begin, int64_t end, int64_t bytes,
               bool isGradient = false) {
    buffers[isWhole ? Forward : part].push_back(
        {begin, end, aligned(bytes), isGradient});
  }

  const Graph &graph;
  const BatchAnalysis &batch;
  const Solution &solution;
  func::FuncOp function;
  const StageMap &map;
  int64_t stage;
  bool isWhole;                                      ///< all is one function
  llvm::DenseMap<Value, SmallVector<Value>> aliases; ///< root -> views of it
  MemoryUnits units[kParts];
  llvm::DenseSet<Value> given; ///< written over
  std::vector<Buffer> buffers[kParts];
  PlanResult::Memory memory;
  int64_t slots = 0;
};

} // namespace

StageMemory::Part StageMemory::partOf(Operation *op) const {
  switch (dist::getPhase(op)) {
  case dist::Phase::Prologue:
    return Prologue;
  case dist::Phase::Forward:
    return Forward;
  case dist::Phase::BackwardInput:
  case dist::Phase::BackwardWeight:
    return map.stages == 1 ? Forward : Backward;
  case dist::Phase::Update:
    return Update;
  }
  return Forward;
}

CostClass StageMemory::classOf(Operation *op) const {
  if (isa<dist::AccumulateOp>(op))
    return map.microBatches == 1 ? CostClass::View : CostClass::Elementwise;
  auto costed = dyn_cast<OpCostInterface>(op);
  return costed ? costed.getCostClass() : CostClass::Elementwise;
}

bool StageMemory::isView(Operation *op) const {
  return !isa<SourceOpInterface>(op) && op->getNumOperands() > 0 &&
         classOf(op) == CostClass::View &&
         (isWhole || !isa<dist::AccumulateOp>(op));
}

Value StageMemory::rootOf(Value value) const {
  while (Operation *def = value.getDefiningOp()) {
    if (!isView(def))
      break;
    value = def->getOperand(0);
  }
  return value;
}

/// Whether a collective or a slice stands between a value and its use.
bool StageMemory::moves(OpOperand &use) const {
  LayoutId made = graph.resultLayout(solution, use.get());
  return graph.sharedLayout(solution, use.get()).value_or(made) != made ||
         graph.operandLayout(solution, use) != made;
}

void StageMemory::number() {
  for (Operation &op : function.getBody().front())
    for (Value result : op.getResults())
      if (Value root = rootOf(result); root != result)
        aliases[root].push_back(result);
  for (int part = 0; part < kParts; ++part) {
    if (isWhole && part != Forward)
      continue;
    auto isInPart = [&](Operation *op) {
      return isHere(op) && (isWhole || partOf(op) == part);
    };
    auto isViewOp = [&](Operation *op) { return isView(op); };
    auto isMoved = [&](OpOperand &use) {
      return !isAssignTarget(use) && moves(use);
    };
    auto elements = [&](Value value) {
      auto type = cast<RankedTensorType>(value.getType());
      return graph.sharedBytes(solution, value) / elementBytes(type);
    };
    units[part].form(function.getBody().front(),
                     {isInPart, isViewOp, isMoved, elements});
  }
}

/// Whether what makes the value adds it to the sum over micro-batches itself.
/// Convolutions cannot.
bool StageMemory::isAddedInPlace(Value value, Operation *user) const {
  Operation *def = value.getDefiningOp();
  return isa<dist::AccumulateOp>(user) && !isView(user) && def && isHere(def) &&
         partOf(def) == partOf(user) && classOf(def) != CostClass::Convolution;
}

/// An input of what `def` is computed with that has the size and dies with it.
Value StageMemory::overwritten(Operation *def, int64_t time,
                               int64_t bytes) const {
  CostClass kind = classOf(def);
  if (unitsOf(def).isCall(def) ||
      (kind != CostClass::Elementwise && kind != CostClass::Row))
    return {};
  for (Operation *op : unitsOf(def).togetherWith(def))
    for (Value operand : op->getOperands()) {
      Value root = rootOf(operand);
      Operation *maker = root.getDefiningOp();
      if (!maker || isa<SourceOpInterface>(maker) || given.contains(root) ||
          unitsOf(def).isTogether(def, maker) || !isHere(maker) ||
          graph.sharedBytes(solution, root) != bytes)
        continue;
      auto dies = [&](Value value) {
        return llvm::all_of(value.getUsers(), [&](Operation *user) {
          return !user->hasTrait<OpTrait::IsTerminator>() && isHere(user) &&
                 (isView(user) || timeOf(user) <= time);
        });
      };
      if (dies(root) && (!aliases.count(root) ||
                         llvm::all_of(aliases.find(root)->second, dies)))
        return root;
    }
  return {};
}

void StageMemory::addSource(Operation *op) {
  auto source = cast<SourceOpInterface>(op);
  for (Value result : op->getResults()) {
    bool isUsed = false, isState = source.isMutable();
    for (OpOperand &use : result.getUses()) {
      isUsed |= isHere(use.getOwner());
      isState &= batch.runsOnce(use.getOwner());
    }
    if (!isUsed)
      continue;
    int64_t bytes = graph.localBytes(solution, result);
    (isState ? memory.optimizer : memory.parameters) += bytes;
    // Gathered for its uses.
    if (graph.sharedLayout(solution, result) &&
        *graph.sharedLayout(solution, result) !=
            graph.resultLayout(solution, result))
      addValue(result);
  }
}

void StageMemory::addValue(Value value) {
  Operation *def = value.getDefiningOp();
  bool isSource = def && isa<SourceOpInterface>(def);
  bool madeHere = def && !isSource && isHere(def);
  if (def && !isSource) {
    if (isView(def))
      return;
    if (isWrittenInPlace(cast<OpResult>(value)))
      return;
  }
  int64_t bytes = graph.sharedBytes(solution, value);
  bool isGradient = false;
  // Lives by function.
  int64_t first[kParts], last[kParts];
  bool used[kParts] = {};
  auto note = [&](Part part, int64_t time) {
    if (isWhole)
      part = Forward;
    first[part] = used[part] ? std::min(first[part], time) : time;
    last[part] = used[part] ? std::max(last[part], time) : time;
    used[part] = true;
  };
  if (madeHere && !isa<dist::AccumulateOp>(def))
    note(partOf(def), timeOf(def));
  SmallVector<Value> all = {value};
  if (auto found = aliases.find(value); found != aliases.end())
    all.append(found->second);
  bool isSent = false, isUsedHere = false, isOutput = false, isKept = false;
  for (Value alias : all)
    for (OpOperand &use : alias.getUses()) {
      Operation *user = use.getOwner();
      isGradient |= isa<dist::AccumulateOp>(user);
      if (user->hasTrait<OpTrait::IsTerminator>()) {
        isOutput |= madeHere;
        continue;
      }
      if (!isHere(user)) {
        isSent |= madeHere;
        continue;
      }
      isUsedHere = true;
      if (isView(user) || isAddedInPlace(value, user))
        continue;
      note(partOf(user), timeOf(user) - (gatheredFor(use) > 0));
      isKept |= !madeHere || !unitsOf(def).isTogether(def, user);
    }
  if (madeHere && !isKept && !isSent && !isOutput)
    return; // nobody else reads it
  if (!madeHere && !isUsedHere)
    return;
  int64_t parts = llvm::count(used, true);
  bool isReceived = def && !isSource && !madeHere;
  if (def && isa<dist::AccumulateOp>(def) && madeHere) {
    memory.gradients += aligned(bytes); // the sum; a view where it is none
    return;
  }
  if (parts > 1) { // from function to function
    bool perMicroBatch = !batch.isOfStep(value);
    slots += aligned(bytes) * (perMicroBatch ? map.held[stage] : 1);
    return;
  }
  if (!def || isReceived || isSent || isOutput) {
    slots += aligned(bytes);
    return;
  }
  for (int part = 0; part < kParts; ++part) {
    if (!used[part])
      continue;
    int64_t begin = first[part], end = last[part] + 1;
    if (madeHere && begin < last[part])
      if (Value over = overwritten(def, begin, bytes)) {
        given.insert(over);
        ++begin;
      }
    scratch(static_cast<Part>(part), begin, end, bytes, isGradient);
  }
}

/// Bytes of the buffer that a collective gives where it does not work in place.
int64_t StageMemory::gatheredBytes(LayoutId from, LayoutId to,
                                   Value value) const {
  if (graph.layouts[from].dims == graph.layouts[to].dims &&
      graph.layouts[from].blocks == graph.layouts[to].blocks)
    return 0; // nothing, or an all-reduce
  auto type = cast<RankedTensorType>(value.getType());
  int64_t before = sizeBytes(plan::localType(type, graph.layouts[from]));
  int64_t after = sizeBytes(plan::localType(type, graph.layouts[to]));
  bool isSlice = !graph.layouts[from].isPartial() && after < before;
  return isSlice ? 0 : after; // a slice is read in place
}

int64_t StageMemory::gatheredFor(OpOperand &use) const {
  if (isAssignTarget(use) || use.getOwner()->hasTrait<OpTrait::IsTerminator>())
    return 0;
  return gatheredBytes(graph.sharedLayout(solution, use.get())
                           .value_or(graph.resultLayout(solution, use.get())),
                       graph.operandLayout(solution, use), use.get());
}

/// When the ops of the same function read what an op makes, views seen through.
std::pair<int64_t, int64_t> StageMemory::readTimes(Operation *op) const {
  if (!isView(op))
    return {timeOf(op), timeOf(op)};
  std::pair<int64_t, int64_t> times = {INT64_MAX, -1};
  for (Operation *user : op->getUsers()) {
    if (user->hasTrait<OpTrait::IsTerminator>() || !isHere(user) ||
        partOf(user) != partOf(op))
      continue;
    auto [first, last] = readTimes(user);
    times = {std::min(times.first, first), std::max(times.second, last)};
  }
  return times;
}

void StageMemory::addMoves(Operation *op) {
  for (OpOperand &operand : op->getOpOperands())
    if (int64_t bytes = gatheredFor(operand)) {
      auto [first, last] = readTimes(op);
      if (last >= 0)
        scratch(partOf(op), first - 1, last + 1, bytes);
    }
  // What is shared in another layout is made in its own first.
  for (Value result : op->getResults())
    if (auto shared = graph.sharedLayout(solution, result);
        shared && !isView(op) &&
        gatheredBytes(graph.resultLayout(solution, result), *shared, result))
      scratch(partOf(op), timeOf(op), timeOf(op) + 1,
              graph.localBytes(solution, result));
}

PlanResult::Memory StageMemory::run() {
  number();
  for (BlockArgument argument : function.getArguments())
    addValue(argument);
  for (Operation &op : function.getBody().front()) {
    if (isa<SourceOpInterface>(op)) {
      addSource(&op);
      continue;
    }
    for (Value result : op.getResults())
      addValue(result);
    if (isHere(&op))
      addMoves(&op);
  }
  int64_t max = 0, gradients = 0;
  for (std::vector<Buffer> &list : buffers) {
    std::vector<std::tuple<int64_t, int64_t, int64_t>> events;
    for (const Buffer &buffer : list) {
      if (buffer.begin >= buffer.end)
        continue;
      int64_t gradient = buffer.isGradient ? buffer.bytes : 0;
      events.push_back({buffer.begin, buffer.bytes, gradient});
      events.push_back({buffer.end, -buffer.bytes, -gradient});
    }
    llvm::sort(events);
    int64_t now = 0, gradient = 0;
    for (auto [time, bytes, part] : events) {
      now += bytes;
      gradient += part;
      if (now > max) {
        max = now;
        gradients = gradient;
      }
    }
  }
  memory.gradients += gradients;
  memory.activations = slots + max - gradients;
  memory.peak = memory.parameters + memory.gradients + memory.optimizer +
                memory.activations + memory.workspace;
  return memory;
}

std::vector<PlanResult::Memory>
kerf::plan::stageMemory(const Graph &graph, const Solution &solution,
                        func::FuncOp function, const StageMap &map) {
  std::vector<PlanResult::Memory> memory;
  for (int64_t stage = 0; stage < map.stages; ++stage)
    memory.push_back(StageMemory(graph, solution, function, map, stage).run());
  return memory;
}
