//===- Stages.cpp - cutting a sharded function into stages ----------------===//
#include "Stages.h"

#include "../Report/Infeasible.h"

#include "StageBytes.h"
#include "kerf/Fusion/KeptValues.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

namespace {

/// A score compared lexicographically; smaller is better.
using Score = std::pair<double, double>;
constexpr double kNever = std::numeric_limits<double>::infinity();

/// Parts of a step whose seconds are told apart.
enum Part { Forward, Backward, Once, kParts };

Part partOf(dist::Phase phase) {
  switch (phase) {
  case dist::Phase::Forward:
    return Forward;
  case dist::Phase::BackwardInput:
  case dist::Phase::BackwardWeight:
    return Backward;
  case dist::Phase::Prologue:
  case dist::Phase::Update:
    break;
  }
  return Once;
}

Part partOf(StepPass pass) {
  return pass == StepPass::Forward ? Forward : Backward;
}

/// The cost of a unit or a stage in a step, on one device.
struct Load {
  double compute[kParts] = {}, move[kParts] = {};
  cost::Int128 shares = 0; ///< bytes of a rank, times Graph::getByteScale()
  cost::Int128 flops = 0;

  void add(Part part, const Graph::OpCost &cost) {
    compute[part] += cost.computeSeconds;
    move[part] += cost.moveSeconds;
    shares += cost.shares;
    flops += cost.flops;
  }
  void add(const Load &other) {
    for (int part = 0; part < kParts; ++part) {
      compute[part] += other.compute[part];
      move[part] += other.move[part];
    }
    shares += other.shares;
    flops += other.flops;
  }
  double seconds() const {
    return compute[0] + compute[1] + compute[2] + move[0] + move[1] + move[2];
  }
};

/// Ops that stay together.
struct Unit {
  SmallVector<Operation *> ops;
  Load load;
  int64_t sources = 0; ///< bytes of its sources
  int64_t kept = 0;    ///< bytes that its backward part takes from the forward
  int64_t live = 0;    ///< bytes of values that it makes
};

class Cutter {
public:
  Cutter(Graph &graph, const Solution &solution, func::FuncOp function,
         const PlanOptions &options,
         llvm::function_ref<int64_t(Operation *)> givenStage)
      : graph(graph), solution(solution), function(function), options(options),
        givenStage(givenStage), batch(graph.getBatch()),
        candidate(graph.candidate), micro(candidate.microBatches) {}

  StagePlan run();

private:
  void makeUnits();
  void collect();
  /// What is gathered for a pass of each micro-batch: the pass, the cost, and
  /// the units that read it, in order.
  void forEachPass(llvm::function_ref<void(StepPass, const Graph::OpCost &,
                                           ArrayRef<size_t>)>
                       visit);
  void collectCrossing();
  std::vector<size_t> placeCuts();
  /// The cuts of a given plan; empty if they are not between units.
  std::vector<size_t> givenCuts();
  void fillIn(const std::vector<size_t> &cuts);
  void chooseSchedule(const std::vector<Load> &loads,
                      std::vector<cost::StageTimes> &times);
  double sendSeconds(int64_t bytes) const;
  /// How often a value crosses.
  int64_t timesOf(Value value) const {
    return batch.isOfStep(value) ? 1 : micro;
  }
  size_t firstUnit(Value value) const {
    size_t first = units.size();
    for (Operation *user : value.getUsers())
      if (auto found = unitOf.find(user); found != unitOf.end())
        first = std::min(first, found->second);
    return first;
  }

  Graph &graph;
  const Solution &solution;
  func::FuncOp function;
  const PlanOptions &options;
  llvm::function_ref<int64_t(Operation *)> givenStage;
  const BatchAnalysis &batch;
  const MeshCandidate &candidate;
  int64_t micro;
  std::vector<Unit> units;
  llvm::DenseMap<Operation *, size_t> unitOf; ///< no sources, no return
  /// Bytes per rank and step over a cut before unit i, and seconds.
  std::vector<double> crossing, crossingSeconds;
  /// For `volume`: what a stage sends, exactly.
  std::optional<Crossings> crossings;
  StagePlan plan;
};

} // namespace

double Cutter::sendSeconds(int64_t bytes) const {
  if (bytes == 0)
    return 0;
  return cost::sendSeconds(options.machine, bytes,
                           cost::placePair(options.machine,
                                           candidate.mesh.numRanks(),
                                           candidate.devicesPerStage()));
}

double kerf::plan::stepBound(const MeshCandidate &candidate,
                             const BatchAnalysis &batch, double seconds) {
  double micro = static_cast<double>(candidate.microBatches);
  double stages = static_cast<double>(candidate.stages);
  if (candidate.stages == 1 || batch.isTraining())
    return seconds; // training: the Problem is weighted, see partWeights()
  return seconds / micro * (1 + (micro - 1) / stages);
}

SmallVector<int64_t>
kerf::plan::otherStages(Value value, int64_t from,
                        llvm::function_ref<int64_t(Operation *)> stageOf) {
  SmallVector<int64_t> stages;
  for (OpOperand &use : value.getUses()) {
    int64_t stage = stageOf(use.getOwner());
    if (stage >= 0 && stage != from && !llvm::is_contained(stages, stage))
      stages.push_back(stage);
  }
  llvm::sort(stages);
  return stages;
}

void Cutter::makeUnits() {
  for (SmallVector<Operation *> &ops : unitsOf(function)) {
    for (Operation *op : ops)
      unitOf[op] = units.size();
    units.emplace_back().ops = std::move(ops);
  }
}

void Cutter::forEachPass(
    llvm::function_ref<void(StepPass, const Graph::OpCost &, ArrayRef<size_t>)>
        visit) {
  for (Operation &op : function.getBody().front())
    for (Value result : op.getResults())
      for (StepPass pass : graph.passesOf(result)) {
        SmallVector<size_t> readers;
        for (OpOperand &use : result.getUses())
          if (graph.getZero().passOf(use) == pass)
            if (auto unit = unitOf.find(use.getOwner()); unit != unitOf.end())
              readers.push_back(unit->second);
        llvm::sort(readers);
        if (!readers.empty())
          visit(pass, graph.passCostOf(solution, result, pass), readers);
      }
}

void Cutter::collect() {
  makeUnits();
  // Added up in program order, since sums of doubles depend on the order.
  for (Unit &unit : units)
    for (Operation *op : unit.ops) {
      unit.load.add(partOf(dist::getPhase(op)), graph.costOf(solution, op));
      for (Value result : op->getResults())
        unit.load.add(partOf(graph.sharedPhase(result)),
                      graph.sharedCostOf(solution, result));
    }
  // Arguments and sources belong to no unit: bringing them to a shared layout
  // counts at the first use.
  auto addShared = [&](Value value) {
    if (size_t first = firstUnit(value); first < units.size())
      units[first].load.add(partOf(graph.sharedPhase(value)),
                            graph.sharedCostOf(solution, value));
  };
  for (BlockArgument argument : function.getArguments())
    addShared(argument);
  for (Operation &op : function.getBody().front())
    if (isa<SourceOpInterface>(op))
      for (Value result : op.getResults()) {
        addShared(result);
        if (size_t first = firstUnit(result); first < units.size())
          units[first].sources += graph.localBytes(solution, result);
      }
  forEachPass(
      [&](StepPass pass, const Graph::OpCost &cost, ArrayRef<size_t> readers) {
        units[readers.front()].load.add(partOf(pass), cost);
      });
  // Moves for an output count in the unit that makes the output.
  Operation *end = function.getBody().front().getTerminator();
  for (OpOperand &output : end->getOpOperands()) {
    auto maker = unitOf.find(output.get().getDefiningOp());
    size_t unit = maker == unitOf.end() ? 0 : maker->second;
    if (!units.empty())
      units[unit].load.add(batch.isTraining() ? Once : Forward,
                           graph.moveCostOf(solution, output));
  }
  collectCrossing();
}

/// The value of which `value` is a copy, moved or of another type: repeating
/// that in the backward pass takes no memory. Null: one of sources alone.
static Value rootOf(Value value) {
  while (Operation *def = value.getDefiningOp()) {
    if (isa<SourceOpInterface>(def))
      return {};
    if (!movesOrCasts(def) || def->getNumOperands() != 1)
      break;
    value = def->getOperand(0);
  }
  return value;
}

void Cutter::collectCrossing() {
  crossing.assign(units.size() + 1, 0);
  crossingSeconds.assign(units.size() + 1, 0);
  crossings.emplace(units.size());
  llvm::DenseMap<Value, int64_t> summed = partsOfSums(function, batch);
  // Of all copies of a value one is held, the smallest at least.
  llvm::MapVector<Value, std::pair<size_t, int64_t>> held;
  for (auto [i, unit] : llvm::enumerate(units))
    for (Operation *op : unit.ops) {
      for (OpResult result : op->getResults()) {
        bool isKept = false;
        for (Operation *user : result.getUsers())
          isKept |= unitOf.contains(user) &&
                    partOf(dist::getPhase(op)) == Forward &&
                    partOf(dist::getPhase(user)) == Backward;
        int64_t bytes = graph.sharedBytes(solution, result);
        auto times =
            static_cast<double>(summed.contains(result) ? 1 : timesOf(result));
        Crossing whole =
            crossingOf(result, i, static_cast<double>(bytes) * times, unitOf);
        crossings->add(whole);
        double seconds =
            whole.first < whole.last ? sendSeconds(bytes) * times : 0;
        for (size_t cut = whole.first + 1; cut <= whole.last; ++cut) {
          crossing[cut] += whole.bytes;
          crossingSeconds[cut] += seconds;
        }
        unit.live += bytes;
        if (Value root = isKept ? rootOf(result) : Value()) {
          auto [entry, isNew] = held.insert({root, {i, bytes}});
          if (!isNew)
            entry->second.second = std::min(entry->second.second, bytes);
        }
      }
      if (auto assign = dyn_cast<dist::AssignOp>(op))
        crossings->add(crossingOf(
            assign.getSource(), i,
            static_cast<double>(graph.localBytes(solution, assign.getSource())),
            unitOf));
    }
  for (auto &[root, place] : held)
    units[place.first].kept += place.second;
}

std::vector<size_t> Cutter::placeCuts() {
  size_t n = units.size(), p = candidate.stages;
  std::vector<double> seconds(n + 1, 0), bytes(n + 1, 0), flops(n + 1, 0);
  auto scale = static_cast<double>(graph.getByteScale());
  double model = 0; // operations of the model, done once
  std::vector<int64_t> stored(n + 1, 0), kept(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    seconds[i + 1] = seconds[i] + units[i].load.seconds();
    bytes[i + 1] = bytes[i] + static_cast<double>(units[i].load.shares) / scale;
    for (Operation *op : units[i].ops)
      model += static_cast<double>(wholeFlops(op));
    flops[i + 1] = flops[i] + static_cast<double>(units[i].load.flops);
    stored[i + 1] = stored[i] + units[i].sources;
    kept[i + 1] = kept[i] + units[i].kept;
  }
  auto limit = static_cast<double>(
      memoryLimitOf(options).value_or(std::numeric_limits<int64_t>::max()));
  bool isVolume = options.objective == Objective::Volume;
  // Every device does at most 1.1/N of the work, unless the user fixed the
  // mesh.
  double devices = double(p) * double(candidate.devicesPerStage());
  double flopsLimit = isVolume && !isWorkWaived(options)
                          ? 1.1 * model / devices * (1 + 1e-12)
                          : kNever;
  std::vector<double> sent; // per begin, up to the current end
  auto stageScore = [&](size_t begin, size_t end) {
    if (flops[end] - flops[begin] > flopsLimit)
      return kNever;
    if (isVolume)
      return bytes[end] - bytes[begin] + sent[begin];
    // In a training step about as much is sent back over a cut as forward.
    double part = batch.isTraining() ? 0.5 : 1;
    double both = batch.isTraining() ? 0.5 : 0;
    return seconds[end] - seconds[begin] + part * crossingSeconds[end] +
           both * crossingSeconds[begin];
  };
  // best[k][i]: first i units in k stages, each with at least one.
  std::vector<std::vector<Score>> best(
      p + 1, std::vector<Score>(n + 1, {kNever, kNever}));
  std::vector<std::vector<size_t>> from(p + 1, std::vector<size_t>(n + 1, 0));
  best[0][0] = {0, 0};
  for (size_t i = 1; i <= n; ++i) {
    if (isVolume)
      sent = crossings->sentFrom(i);
    for (size_t k = 1; k <= std::min(p, i); ++k) {
      // The fewest micro-batches that a stage holds at once under any schedule.
      double held = batch.isTraining()
                        ? std::min<double>(double(micro), double(p - k + 1))
                        : 0;
      int64_t peak = 0; // of what a unit makes
      for (size_t j = i; j-- > k - 1;) {
        peak = std::max(peak, units[j].live);
        double needed = double(stored[i] - stored[j]) + double(peak) / 2 +
                        held * double(kept[i] - kept[j]);
        if (needed > limit)
          break; // a longer stage needs even more
        if (best[k - 1][j].first == kNever)
          continue;
        double stage = stageScore(j, i);
        if (stage == kNever)
          break; // a longer stage does even more
        Score score{std::max(best[k - 1][j].first, stage),
                    best[k - 1][j].second + (isVolume ? stage : crossing[i])};
        if (score < best[k][i]) {
          best[k][i] = score;
          from[k][i] = j;
        }
      }
    }
  }
  if (best[p][n].first == kNever)
    return {};
  std::vector<size_t> cuts(p + 1);
  cuts[p] = n;
  for (size_t k = p; k > 0; --k)
    cuts[k - 1] = from[k][cuts[k]];
  return cuts;
}

std::vector<size_t> Cutter::givenCuts() {
  std::vector<size_t> cuts = {0};
  for (auto [i, unit] : llvm::enumerate(units))
    for (Operation *op : unit.ops) {
      auto stage = static_cast<size_t>(std::max<int64_t>(givenStage(op), 0));
      if (stage == cuts.size() && i > 0)
        cuts.push_back(i);
      if (stage + 1 != cuts.size())
        return {};
    }
  cuts.push_back(units.size());
  if (cuts.size() != static_cast<size_t>(candidate.stages) + 1)
    return {};
  return cuts;
}

void Cutter::fillIn(const std::vector<size_t> &cuts) {
  size_t p = candidate.stages;
  std::vector<Load> loads(p);
  for (size_t stage = 0; stage < p; ++stage)
    for (size_t i = cuts[stage]; i < cuts[stage + 1]; ++i) {
      loads[stage].add(units[i].load);
      for (Operation *op : units[i].ops)
        plan.stageOf[op] = static_cast<int64_t>(stage);
    }
  auto stageOf = [&](Operation *op) {
    auto found = plan.stageOf.find(op);
    return found == plan.stageOf.end() ? int64_t(-1) : found->second;
  };
  // Each stage brings a source or argument to its shared layout by itself.
  auto repeat = [&](Value value) {
    size_t first = firstUnit(value);
    if (first == units.size())
      return;
    for (int64_t stage :
         otherStages(value, stageOf(units[first].ops.front()), stageOf))
      loads[stage].add(partOf(graph.sharedPhase(value)),
                       graph.sharedCostOf(solution, value));
  };
  std::vector<cost::StageTimes> times(p);
  for (BlockArgument argument : function.getArguments())
    repeat(argument);
  for (Operation &op : function.getBody().front())
    if (isa<SourceOpInterface>(op))
      for (Value result : op.getResults())
        repeat(result);
  forEachPass([&](StepPass pass, const Graph::OpCost &cost,
                  ArrayRef<size_t> readers) {
    auto stageOfUnit = [&](size_t unit) {
      return stageOf(units[unit].ops.front());
    };
    // Units are in the order of stages.
    for (auto [before, reader] : llvm::zip(readers, llvm::drop_begin(readers)))
      if (stageOfUnit(before) != stageOfUnit(reader))
        loads[stageOfUnit(reader)].add(partOf(pass), cost);
  });
  StageTraffic traffic = trafficOf(graph, solution, function, stageOf);
  for (const StageTraffic::Send &send : traffic.sends) {
    double seconds = sendSeconds(send.bytes);
    if (send.times != micro ||
        (batch.isTraining() && batch.isOfStep(send.value)))
      loads[send.from].move[Once] += seconds * static_cast<double>(send.times);
    else if (send.to > send.from)
      times[send.from].sendForward += cost::toPicoseconds(seconds);
    else
      times[send.from - 1].sendBackward += cost::toPicoseconds(seconds);
  }
  for (size_t stage = 0; stage < p; ++stage) {
    const Load &load = loads[stage];
    StageSummary summary;
    summary.index = static_cast<int64_t>(stage);
    for (size_t i = cuts[stage]; i < cuts[stage + 1]; ++i)
      summary.nodes += static_cast<int64_t>(units[i].ops.size());
    summary.flops = cost::saturate(load.flops * candidate.devicesPerStage());
    summary.seconds = load.seconds();
    double compute = load.compute[0] + load.compute[1] + load.compute[2];
    plan.computeSeconds = std::max(plan.computeSeconds, compute);
    plan.communicationSeconds = std::max(
        plan.communicationSeconds, load.move[0] + load.move[1] + load.move[2]);
    plan.bytesPerRank = std::max(
        plan.bytesPerRank, cost::saturate(cost::ceilDivide(
                               traffic.shares[stage], graph.getByteScale())));
    plan.totalBytes =
        cost::saturate(cost::Int128(plan.totalBytes) + traffic.total[stage]);
    plan.stages.push_back(summary);
  }
  chooseSchedule(loads, times);
}

void Cutter::chooseSchedule(const std::vector<Load> &loads,
                            std::vector<cost::StageTimes> &times) {
  double once = 0;
  for (auto [load, time] : llvm::zip(loads, times)) {
    auto perMicroBatch = [&, &load = load](Part part) {
      return cost::toPicoseconds((load.compute[part] + load.move[part]) /
                                 static_cast<double>(micro));
    };
    time.forward = perMicroBatch(Forward);
    time.backward = perMicroBatch(Backward);
    once = std::max(once, load.compute[Once] + load.move[Once]);
  }
  std::vector<cost::ScheduleKind> kinds = {cost::ScheduleKind::Forward};
  if (batch.isTraining()) {
    kinds = {cost::ScheduleKind::OneFOneB, cost::ScheduleKind::GPipe};
    if (options.schedule)
      kinds = {*options.schedule};
  }
  std::optional<cost::ScheduleResult> best;
  for (cost::ScheduleKind kind : kinds) {
    auto simulated = cost::simulate(
        cost::buildSchedule(kind, candidate.stages, micro), times);
    if (!simulated) {
      plan.reason = llvm::toString(simulated.takeError());
      return;
    }
    if (best && best->makespan <= simulated->makespan)
      continue;
    best = std::move(*simulated);
    plan.schedule = kind;
  }
  plan.stepSeconds = cost::fromPicoseconds(best->makespan) + once;
  plan.bubbleFraction = best->bubbleFraction;
  plan.feasible = true;
  StageMap map;
  map.stages = candidate.stages;
  map.microBatches = micro;
  map.schedule = cost::buildSchedule(plan.schedule, candidate.stages, micro);
  for (auto [summary, list, spans] :
       llvm::zip(plan.stages, map.schedule, best->spans))
    for (auto [run, span] : llvm::zip(list, spans))
      summary.runs.push_back({run.phase, run.microBatch,
                              cost::fromPicoseconds(span.begin),
                              cost::fromPicoseconds(span.end)});
  auto stageOf = [&](Operation *op) {
    auto found = plan.stageOf.find(op);
    return found == plan.stageOf.end() ? candidate.stages - 1 : found->second;
  };
  map.stageOf = stageOf;
  plan.memory = stageMemory(graph, solution, function, map);
}

std::string kerf::plan::tooFewOps(size_t ops, int64_t stages) {
  if (stages == 1 || ops >= static_cast<size_t>(stages))
    return "";
  return std::to_string(ops) + (ops == 1 ? " op" : " ops") + " cannot make " +
         std::to_string(stages) + " stages";
}

StagePlan Cutter::run() {
  collect();
  plan.reason = tooFewOps(units.size(), candidate.stages);
  if (!plan.reason.empty())
    return std::move(plan);
  std::vector<size_t> cuts = candidate.stages == 1
                                 ? std::vector<size_t>{0, units.size()}
                             : givenStage ? givenCuts()
                                          : placeCuts();
  if (cuts.empty()) {
    plan.reason = "no cut into " + std::to_string(candidate.stages) +
                  " stages divides the work and fits in memory";
    return std::move(plan);
  }
  fillIn(cuts);
  return std::move(plan);
}

StagePlan
kerf::plan::cutStages(Graph &graph, const Solution &solution,
                      func::FuncOp function, const PlanOptions &options,
                      llvm::function_ref<int64_t(Operation *)> stageOf) {
  return Cutter(graph, solution, function, options, stageOf).run();
}
