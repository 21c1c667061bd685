//===- Stages.cpp - cutting a sharded function into stages ----------------===//
#include "Stages.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

namespace {

/// A pair that is compared in order: what must be small first.
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

/// What a unit or a stage costs in a step, on one device.
struct Load {
  double compute[kParts] = {}, move[kParts] = {};
  cost::Int128 bytes = 0, total = 0, flops = 0;

  void add(Part part, const Graph::OpCost &cost) {
    compute[part] += cost.computeSeconds;
    move[part] += cost.moveSeconds;
    bytes += cost.bytesPerRank;
    total += cost.totalBytes;
    flops += cost.flops;
  }
  void add(const Load &other) {
    for (int part = 0; part < kParts; ++part) {
      compute[part] += other.compute[part];
      move[part] += other.move[part];
    }
    bytes += other.bytes;
    total += other.total;
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
  int64_t sources = 0; ///< bytes of what is stored for it
  int64_t kept = 0;    ///< bytes that its backward part takes from the forward
  int64_t live = 0;    ///< bytes of values that it makes
};

class Cutter {
public:
  Cutter(Graph &graph, const Solution &solution, func::FuncOp function,
         const PlanOptions &options)
      : graph(graph), solution(solution), function(function), options(options),
        batch(graph.getBatch()), candidate(graph.candidate),
        micro(candidate.microBatches) {}

  StagePlan run();

private:
  void makeUnits();
  void collect();
  void collectCrossing();
  std::vector<size_t> placeCuts();
  void fillIn(const std::vector<size_t> &cuts);
  void chooseSchedule(const std::vector<Load> &loads,
                      std::vector<cost::StageTimes> &times);
  double sendSeconds(int64_t bytes) const;
  std::optional<int64_t> memoryLimit() const;
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
  const BatchAnalysis &batch;
  const MeshCandidate &candidate;
  int64_t micro;
  std::vector<Unit> units;
  llvm::DenseMap<Operation *, size_t> unitOf; ///< no sources, no return
  /// Bytes per rank and step over a cut before unit i, and seconds.
  std::vector<double> crossing, crossingSeconds;
  StagePlan plan;
};

} // namespace

double Cutter::sendSeconds(int64_t bytes) const {
  if (bytes == 0)
    return 0;
  return cost::collectiveSeconds(options.machine, cost::Collective::Send, bytes,
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

/// Units of a function: what must stay together, in order.
static std::vector<SmallVector<Operation *>> unitsOf(func::FuncOp function) {
  std::map<int64_t, SmallVector<Operation *>> byNumber;
  int64_t next = 0;
  for (Operation &op : function.getBody().front()) {
    if (isa<SourceOpInterface>(op) || op.hasTrait<OpTrait::IsTerminator>())
      continue;
    auto number = op.getAttrOfType<IntegerAttr>(dist::kColocation);
    // Without numbers: program order.
    byNumber[number ? number.getInt() : next++].push_back(&op);
  }
  std::vector<SmallVector<Operation *>> units;
  for (auto &entry : byNumber)
    units.push_back(std::move(entry.second));
  return units;
}

/// Whether plans need not divide the work: a mesh that was asked for.
static bool isWorkWaived(const PlanOptions &options) {
  int64_t asked = 1;
  for (const auto &axis : options.mesh)
    asked *= axis.second;
  return !options.mesh.empty() && asked == options.devices;
}

LeastSent kerf::plan::leastSent(func::FuncOp function,
                                const MeshCandidate &candidate,
                                const PlanOptions &options) {
  std::vector<SmallVector<Operation *>> units = unitsOf(function);
  llvm::DenseMap<Operation *, size_t> unitOf;
  for (auto [i, unit] : llvm::enumerate(units))
    for (Operation *op : unit)
      unitOf[op] = i;
  std::vector<double> forward(units.size() + 1, 0), backward = forward;
  std::vector<double> flops(units.size() + 1, 0);
  auto typesOf = [](auto values) {
    SmallVector<RankedTensorType> types;
    for (Value value : values)
      types.push_back(cast<RankedTensorType>(value.getType()));
    return types;
  };
  for (auto [i, unit] : llvm::enumerate(units)) {
    flops[i + 1] = flops[i];
    for (Operation *op : unit) {
      if (auto costed = dyn_cast<OpCostInterface>(op))
        flops[i + 1] += static_cast<double>(costed.getFlops(
            typesOf(op->getOperands()), typesOf(op->getResults())));
      for (OpResult result : op->getResults()) {
        size_t least = i, most = i;
        for (Operation *user : result.getUsers())
          if (auto found = unitOf.find(user); found != unitOf.end()) {
            least = std::min(least, found->second);
            most = std::max(most, found->second);
          }
        // At best every device of the stage holds another part of it.
        int64_t part = sizeBytes(cast<RankedTensorType>(result.getType())) /
                       candidate.devicesPerStage();
        for (size_t cut = i + 1; cut <= most; ++cut)
          forward[cut] += static_cast<double>(part);
        for (size_t cut = least + 1; cut <= i; ++cut)
          backward[cut] += static_cast<double>(part);
      }
    }
  }
  LeastSent sent;
  bool waived = isWorkWaived(options) || options.objective != Objective::Volume;
  double whole = flops.back() * 1.1 / static_cast<double>(candidate.stages);
  for (int64_t k = 1; k < candidate.stages; ++k) {
    double there = kNever, back = kNever, both = kNever;
    for (size_t cut = 1; cut < units.size(); ++cut) {
      if (!waived && (flops[cut] > whole * static_cast<double>(k) ||
                      flops.back() - flops[cut] >
                          whole * static_cast<double>(candidate.stages - k)))
        continue;
      there = std::min(there, forward[cut]);
      back = std::min(back, backward[cut]);
      both = std::min(both, forward[cut] + backward[cut]);
    }
    if (both == kNever)
      continue; // there is no such cut, so no such plan
    sent.all += both;
    sent.most = std::max({sent.most, there, back});
  }
  return sent;
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

void Cutter::collect() {
  makeUnits();
  for (auto [op, unit] : unitOf) {
    units[unit].load.add(partOf(dist::getPhase(op)),
                         graph.costOf(solution, op));
    for (Value result : op->getResults())
      units[unit].load.add(partOf(graph.sharedPhase(result)),
                           graph.sharedCostOf(solution, result));
  }
  // Arguments and sources have no op here: what brings them to a layout that
  // several uses share counts at the first use.
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
  // What is left to move for the outputs counts where the output is made.
  Operation *end = function.getBody().front().getTerminator();
  if (!units.empty())
    units.back().load.add(batch.isTraining() ? Once : Forward,
                          graph.costOf(solution, end));
  collectCrossing();
}

void Cutter::collectCrossing() {
  crossing.assign(units.size() + 1, 0);
  crossingSeconds.assign(units.size() + 1, 0);
  for (auto [i, unit] : llvm::enumerate(units))
    for (Operation *op : unit.ops)
      for (OpResult result : op->getResults()) {
        size_t least = i, most = i;
        bool isKept = false;
        for (Operation *user : result.getUsers())
          if (auto found = unitOf.find(user); found != unitOf.end()) {
            least = std::min(least, found->second);
            most = std::max(most, found->second);
            isKept |= partOf(dist::getPhase(op)) == Forward &&
                      partOf(dist::getPhase(user)) == Backward;
          }
        int64_t bytes = graph.sharedBytes(solution, result);
        double times = static_cast<double>(timesOf(result));
        double seconds = least < most ? sendSeconds(bytes) * times : 0;
        for (size_t cut = least + 1; cut <= most; ++cut) {
          crossing[cut] += static_cast<double>(bytes) * times;
          crossingSeconds[cut] += seconds;
        }
        unit.live += bytes;
        if (isKept)
          unit.kept += bytes;
      }
}

std::optional<int64_t> Cutter::memoryLimit() const {
  if (options.memoryLimitBytes)
    return options.memoryLimitBytes;
  if (options.machine.memoryBytesPerDevice > 0)
    return options.machine.memoryBytesPerDevice;
  return std::nullopt;
}

std::vector<size_t> Cutter::placeCuts() {
  size_t n = units.size(), p = candidate.stages;
  std::vector<double> seconds(n + 1, 0), bytes(n + 1, 0), flops(n + 1, 0);
  std::vector<int64_t> stored(n + 1, 0), kept(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    seconds[i + 1] = seconds[i] + units[i].load.seconds();
    bytes[i + 1] = bytes[i] + static_cast<double>(units[i].load.bytes);
    flops[i + 1] = flops[i] + static_cast<double>(units[i].load.flops);
    stored[i + 1] = stored[i] + units[i].sources;
    kept[i + 1] = kept[i] + units[i].kept;
  }
  auto limit = static_cast<double>(
      memoryLimit().value_or(std::numeric_limits<int64_t>::max()));
  bool isVolume = options.objective == Objective::Volume;
  // Every device at most 1.1/N of the work, waived for a mesh that was asked
  // for.
  double flopsLimit =
      isVolume && !isWorkWaived(options) ? 1.1 * flops[n] / double(p) : kNever;
  auto stageScore = [&](size_t begin, size_t end) {
    if (flops[end] - flops[begin] > flopsLimit)
      return kNever;
    // A training step hands back over a cut about what it hands on.
    double part = batch.isTraining() ? 0.5 : 1;
    double both = batch.isTraining() ? 0.5 : 0;
    if (isVolume)
      return bytes[end] - bytes[begin] + part * crossing[end] +
             both * crossing[begin];
    return seconds[end] - seconds[begin] + part * crossingSeconds[end] +
           both * crossingSeconds[begin];
  };
  // best[k][i]: first i units in k stages, each with at least one.
  std::vector<std::vector<Score>> best(
      p + 1, std::vector<Score>(n + 1, {kNever, kNever}));
  std::vector<std::vector<size_t>> from(p + 1, std::vector<size_t>(n + 1, 0));
  best[0][0] = {0, 0};
  for (size_t k = 1; k <= p; ++k) {
    // The fewest micro-batches that any schedule holds here.
    double held = batch.isTraining()
                      ? std::min<double>(double(micro), double(p - k + 1))
                      : 0;
    for (size_t i = k; i <= n; ++i) {
      int64_t peak = 0; // of what a unit makes
      for (size_t j = i; j-- > k - 1;) {
        peak = std::max(peak, units[j].live);
        double needed = double(stored[i] - stored[j]) + double(peak) / 2 +
                        held * double(kept[i] - kept[j]);
        if (needed > limit)
          break; // a longer stage needs more
        if (best[k - 1][j].first == kNever)
          continue;
        double stage = stageScore(j, i);
        if (stage == kNever)
          continue;
        Score score{std::max(best[k - 1][j].first, stage),
                    best[k - 1][j].second + crossing[i]};
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
  // A source or argument is brought to its shared layout in each stage anew.
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
  // A value is sent once to each other stage that uses it.
  auto send = [&](Value value, int64_t from, int64_t bytes, int64_t times_) {
    SmallVector<int64_t> targets = otherStages(value, from, stageOf);
    for (int64_t to : targets) {
      cost::Int128 all = cost::Int128(bytes) * times_;
      loads[from].bytes += all;
      loads[from].total += all * candidate.devicesPerStage();
      double seconds = sendSeconds(bytes);
      if (times_ != micro || (batch.isTraining() && batch.isOfStep(value)))
        loads[from].move[Once] += seconds * static_cast<double>(times_);
      else if (to > from)
        times[from].sendForward += cost::toPicoseconds(seconds);
      else
        times[from - 1].sendBackward += cost::toPicoseconds(seconds);
    }
  };
  for (BlockArgument argument : function.getArguments())
    repeat(argument);
  for (Operation &op : function.getBody().front()) {
    if (isa<SourceOpInterface>(op)) {
      for (Value result : op.getResults())
        repeat(result);
      continue;
    }
    if (auto assign = dyn_cast<dist::AssignOp>(op)) // tied across stages
      send(assign.getSource(), stageOf(&op),
           graph.localBytes(solution, assign.getSource()), 1);
    if (int64_t stage = stageOf(&op); stage >= 0)
      for (Value result : op.getResults())
        send(result, stage, graph.sharedBytes(solution, result),
             timesOf(result));
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
    plan.communicationSeconds =
        std::max(plan.communicationSeconds, load.seconds() - compute);
    plan.bytesPerRank = std::max(plan.bytesPerRank, cost::saturate(load.bytes));
    plan.totalBytes =
        cost::saturate(cost::Int128(plan.totalBytes) + load.total);
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
  map.held = best->activationsHeld;
  auto stageOf = [&](Operation *op) {
    auto found = plan.stageOf.find(op);
    return found == plan.stageOf.end() ? candidate.stages - 1 : found->second;
  };
  map.stageOf = stageOf;
  plan.memory = stageMemory(graph, solution, function, map);
}

StagePlan Cutter::run() {
  collect();
  if (units.size() < static_cast<size_t>(candidate.stages)) {
    plan.reason = std::to_string(units.size()) + " ops cannot make " +
                  std::to_string(candidate.stages) + " stages";
    return std::move(plan);
  }
  std::vector<size_t> cuts = candidate.stages == 1
                                 ? std::vector<size_t>{0, units.size()}
                                 : placeCuts();
  if (cuts.empty()) {
    plan.reason = "no cut into " + std::to_string(candidate.stages) +
                  " stages divides the work and fits in memory";
    return std::move(plan);
  }
  fillIn(cuts);
  std::optional<int64_t> limit = memoryLimit();
  for (const PlanResult::Memory &memory : plan.memory)
    if (plan.feasible && limit && candidate.stages > 1 &&
        memory.peak > *limit) {
      plan.feasible = false;
      plan.reason = "a stage needs " + std::to_string(memory.peak) +
                    " bytes, the limit is " + std::to_string(*limit);
    }
  return std::move(plan);
}

StagePlan kerf::plan::cutStages(Graph &graph, const Solution &solution,
                                func::FuncOp function,
                                const PlanOptions &options) {
  return Cutter(graph, solution, function, options).run();
}
