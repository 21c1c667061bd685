//===- StageBytes.cpp - bytes that each stage sends -----------------------===//
#include "StageBytes.h"
#include "../Model/Terminator.h"

#include "kerf/Interfaces/ShardingRule.h"
#include "kerf/Interfaces/TransferCast.h"

#include <set>

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

static bool isSource(Operation *op) {
  return isa_and_nonnull<SourceOpInterface>(op);
}

/// Whether an op is linear in all operands together and each operand is made
/// for every micro-batch.
static bool isSumOfSums(Operation *sum, const BatchAnalysis &batch) {
  auto sharded = dyn_cast_or_null<ShardingRuleInterface>(sum);
  if (!sharded || sum->getNumResults() != 1 || sum->getNumOperands() < 2)
    return false;
  for (Value operand : sum->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (!producer || isSource(producer) || batch.runsOnce(producer))
      return false;
  }
  SmallVector<unsigned> all(sum->getNumOperands());
  std::iota(all.begin(), all.end(), 0);
  return llvm::is_contained(sharded.getShardingRule().linearGroups, all);
}

static int64_t bytesOfElement(Value value) {
  return elementBytes(tensorType(value));
}

/// Bytes of one element of the sum of `accumulate` when it is sent: of the type
/// of the cast behind it if another cast restores its type
/// (kerf-sum-before-crossing).
static int64_t sentBytesOf(dist::AccumulateOp accumulate) {
  auto onlyUser = [](Value value) -> Operation * {
    return value.hasOneUse() ? *value.user_begin() : nullptr;
  };
  Operation *there = onlyUser(accumulate.getResult());
  if (!there || !isTransferCast(there))
    return bytesOfElement(accumulate.getX());
  Operation *back = onlyUser(there->getResult(0));
  if (!back || back->getNumOperands() != 1 ||
      back->getResultTypes() != accumulate->getResultTypes())
    return bytesOfElement(accumulate.getX());
  return bytesOfElement(there->getResult(0));
}

/// Walks up from each dist.accumulate through sums of sums (isSumOfSums) that
/// `isWanted` accepts. `take` gets each operand and the bytes in which an
/// element of the sum is sent, and returns those for the operand.
static void walkSums(func::FuncOp function, const BatchAnalysis &batch,
                     llvm::function_ref<bool(Operation *)> isWanted,
                     llvm::function_ref<int64_t(OpOperand &, int64_t)> take) {
  SmallVector<std::pair<Value, int64_t>> work;
  for (auto accumulate :
       function.getBody().front().getOps<dist::AccumulateOp>())
    work.push_back({accumulate.getX(), sentBytesOf(accumulate)});
  while (!work.empty()) {
    auto [value, bytes] = work.pop_back_val();
    Operation *sum = value.getDefiningOp();
    if (!value.hasOneUse() || !isSumOfSums(sum, batch) || !isWanted(sum))
      continue;
    for (OpOperand &part : sum->getOpOperands())
      work.push_back({part.get(), take(part, bytes)});
  }
}

DenseMap<Value, int64_t> kerf::plan::partsOfSums(func::FuncOp function,
                                                 const BatchAnalysis &batch) {
  DenseMap<Value, int64_t> parts;
  walkSums(
      function, batch, [](Operation *) { return true; },
      [&](OpOperand &part, int64_t bytes) {
        parts[part.get()] = std::min(bytes, bytesOfElement(part.get()));
        return bytes;
      });
  return parts;
}

namespace {

class Counter {
public:
  Counter(Graph &graph, const Solution &solution, func::FuncOp function,
          llvm::function_ref<int64_t(Operation *)> placeOf)
      : graph(graph), solution(solution), function(function), placeOf(placeOf),
        batch(graph.getBatch()), mesh(graph.candidate.mesh),
        micro(graph.candidate.microBatches) {
    traffic.scaledBytes.assign(graph.candidate.stages, 0);
    traffic.total.assign(graph.candidate.stages, 0);
  }

  StageTraffic run() {
    int64_t position = 0;
    for (Operation &op : function.getBody().front())
      positions[&op] = position++;
    if (micro > 1)
      findSummedUses();
    for (BlockArgument argument : function.getArguments())
      count(argument);
    for (Operation &op : function.getBody().front()) {
      for (Value result : op.getResults())
        count(result);
      if (auto assign = dyn_cast<dist::AssignOp>(op)) {
        std::set<int64_t> others;
        for (Operation *user : assign.getSource().getUsers())
          if (int64_t stage = stageOf(user);
              stage >= 0 && stage != stageOf(assign))
            others.insert(stage);
        for (int64_t to : others)
          send(assign.getSource(), stageOf(assign), to,
               graph.localBytes(solution, assign.getSource()), 1);
      }
    }
    return std::move(traffic);
  }

private:
  int64_t stageOf(int64_t place) const {
    return place < 0 ? place : place % graph.candidate.stages;
  }
  int64_t stageOf(Operation *op) const { return stageOf(placeOf(op)); }
  /// What runs once per step is shared by all chunks of a stage.
  int64_t placeFor(int64_t place, dist::Phase phase) const {
    return batch.isTraining() && dist::runsOncePerStep(phase) ? stageOf(place)
                                                              : place;
  }

  bool varies(LayoutId id) const {
    auto isTime = [&](const dist::AxisRef &ref) {
      return mesh.axes[ref.axis].isTime;
    };
    const dist::Layout &layout = graph.layouts[id];
    return llvm::any_of(layout.partial, isTime) ||
           llvm::any_of(layout.dims, [&](const dist::AxisList &axes) {
             return llvm::any_of(axes, isTime);
           });
  }
  LayoutId heldBy(Value value) const {
    return graph.sharedLayout(solution, value)
        .value_or(graph.resultLayout(solution, value));
  }
  bool isMoved(Value value) const {
    return heldBy(value) != graph.resultLayout(solution, value);
  }

  /// As kerf-sum-before-crossing does.
  void findSummedUses() {
    auto sends = [&](OpOperand &part) {
      return stageOf(part.get().getDefiningOp()) != stageOf(part.getOwner());
    };
    auto crosses = [&](OpOperand &part) {
      return placeOf(part.get().getDefiningOp()) != placeOf(part.getOwner());
    };
    auto isWanted = [&](Operation *sum) {
      return llvm::any_of(sum->getOpOperands(), crosses) &&
             llvm::all_of(sum->getOperands(), [&](Value operand) {
               return varies(heldBy(operand));
             });
    };
    walkSums(function, batch, isWanted, [&](OpOperand &part, int64_t bytes) {
      return summed[&part] = sends(part) ? bytes : bytesOfElement(part.get());
    });
  }

  /// `stage`: or a place.
  void add(int64_t stage, const Graph::OpCost &cost, int64_t counted,
           int64_t executed) {
    stage = std::clamp<int64_t>(stageOf(stage), 0, graph.candidate.stages - 1);
    traffic.scaledBytes[stage] +=
        cost::Int128(cost.scaledBytes) / counted * executed;
    traffic.total[stage] += cost::Int128(cost.totalBytes) / counted * executed;
  }

  void send(Value value, int64_t from, int64_t to, int64_t bytes,
            int64_t times) {
    traffic.sends.push_back({value, from, to, bytes, times});
    cost::Int128 all = cost::Int128(bytes) * times;
    traffic.scaledBytes[from] += all * graph.getByteScale();
    traffic.total[from] += all * graph.candidate.devicesPerStage();
  }

  void count(Value value) {
    Operation *def = value.getDefiningOp();
    bool isEverywhere = !def || isSource(def);
    int64_t made = isEverywhere ? -1 : placeOf(def);
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : value.getUses())
      if (!isAssignTarget(use))
        uses.push_back(&use);
    llvm::sort(uses, [&](OpOperand *a, OpOperand *b) {
      return std::make_pair(positions.at(a->getOwner()),
                            a->getOperandNumber()) <
             std::make_pair(positions.at(b->getOwner()), b->getOperandNumber());
    });
    std::set<int64_t> places;
    for (OpOperand *use : uses)
      places.insert(isEverywhere ? placeFor(placeOf(use->getOwner()),
                                            graph.sharedPhase(value))
                                 : made);
    if (places.size() > 1)
      places.erase(-1); // what the program gives out has no stage
    if (isMoved(value)) {
      Graph::OpCost cost = graph.sharedCostOf(solution, value);
      for (int64_t place : places)
        add(place, cost, 1, 1);
    }
    for (StepPass pass : graph.passesOf(value)) {
      std::set<int64_t> readers;
      for (OpOperand *use : uses)
        if (graph.getZero().passOf(*use) == pass)
          readers.insert(placeOf(use->getOwner()));
      for (int64_t place : readers)
        add(place, graph.passCostOf(solution, value, pass), 1, 1);
    }
    // The stage that gives out a source or input: with a shared layout the last
    // stage that brings it there, else the first stage that uses a source, and
    // stage 0 for an input.
    int64_t out = made;
    if (isEverywhere && !places.empty())
      out = isMoved(value) ? *places.rbegin() : def ? *places.begin() : 0;
    auto source = dyn_cast_or_null<SourceOpInterface>(def);
    bool isSplat = source && source.isUniform() && !isMoved(value);
    std::set<std::tuple<LayoutId, int64_t, dist::Phase>> known;
    for (OpOperand *use : uses)
      if (!isSplat)
        bring(*use, out, known);
    if (isEverywhere)
      return;
    std::set<int64_t> each;
    int64_t bytes = graph.sharedBytes(solution, value);
    for (OpOperand *use : uses) {
      int64_t to = stageOf(use->getOwner());
      if (to < 0 || to == stageOf(made))
        continue;
      if (auto once = summed.find(use); once != summed.end())
        send(value, stageOf(made), to,
             bytes / bytesOfElement(value) * once->second, 1);
      else
        each.insert(to);
    }
    for (int64_t to : each)
      send(value, stageOf(made), to, bytes, batch.isOfStep(value) ? 1 : micro);
  }

  /// As kerf-insert-reshards does.
  void bring(OpOperand &use, int64_t out,
             std::set<std::tuple<LayoutId, int64_t, dist::Phase>> &known) {
    Graph::OpCost cost = graph.moveCostOf(solution, use);
    if (auto once = summed.find(&use); once != summed.end()) {
      int64_t wide = bytesOfElement(use.get());
      cost.scaledBytes = cost.scaledBytes * once->second / wide;
      cost.totalBytes = cost.totalBytes * once->second / wide;
    }
    if (cost.scaledBytes == 0 && cost.totalBytes == 0)
      return;
    bool isReturn = isTerminator(use.getOwner());
    LayoutId to = graph.operandLayout(solution, use);
    dist::Phase phase = phaseOf(use, isReturn, to);
    int64_t place = placeFor(isReturn ? out : placeOf(use.getOwner()), phase);
    if (phase == dist::Phase::BackwardWeight)
      phase = dist::Phase::BackwardInput;
    auto isKnown = [&](dist::Phase other) {
      return known.count({to, place, other}) != 0;
    };
    bool isThere =
        isKnown(phase) ||
        (phase == dist::Phase::BackwardInput &&
         isKnown(dist::Phase::Forward)) ||
        (phase == dist::Phase::Update && isKnown(dist::Phase::Prologue));
    if (isThere)
      return;
    known.insert({to, place, phase});
    bool isOnce = batch.isTraining() && dist::runsOncePerStep(phase);
    add(place, cost, graph.moveTimes(use), isOnce ? 1 : micro);
  }

  dist::Phase phaseOf(OpOperand &use, bool isReturn, LayoutId to) {
    Value value = use.get();
    Operation *op = use.getOwner(), *producer = value.getDefiningOp();
    // Behind the reshard that brings a value to its shared layout.
    if (summed.contains(&use)) // the sum is made once, of sums
      return dist::Phase::Update;
    // And so is what follows from it.
    if (isa<dist::AccumulateOp>(op) && producer &&
        llvm::any_of(producer->getOpOperands(),
                     [&](OpOperand &part) { return summed.contains(&part); }))
      return dist::Phase::Update;
    bool isShared = isMoved(value);
    dist::Phase made = isShared   ? graph.sharedPhase(value)
                       : producer ? dist::getPhase(producer)
                                  : dist::Phase::Forward;
    if (!isShared && isa_and_nonnull<dist::AccumulateOp>(producer))
      return dist::Phase::Update;
    bool fromSource = !isShared && (!producer || isSource(producer));
    if (isReturn)
      return fromSource ? dist::Phase::Forward : made;
    if (batch.runsOnce(op) || varies(to))
      return dist::getPhase(op);
    if (!fromSource && made == dist::Phase::Prologue)
      return dist::Phase::Prologue;
    if (batch.isTraining() && micro > 1 && fromSource && producer)
      return dist::Phase::Prologue;
    return dist::getPhase(op);
  }

  Graph &graph;
  const Solution &solution;
  func::FuncOp function;
  llvm::function_ref<int64_t(Operation *)> placeOf;
  const BatchAnalysis &batch;
  const dist::Mesh &mesh;
  int64_t micro;
  llvm::DenseMap<Operation *, int64_t> positions;
  /// Uses in sums of sums, with the bytes in which one element is sent.
  llvm::DenseMap<OpOperand *, int64_t> summed;
  StageTraffic traffic;
};

} // namespace

StageTraffic
kerf::plan::trafficOf(Graph &graph, const Solution &solution,
                      func::FuncOp function,
                      llvm::function_ref<int64_t(Operation *)> placeOf) {
  return Counter(graph, solution, function, placeOf).run();
}
