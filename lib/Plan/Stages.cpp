//===- Stages.cpp - cutting a sharded function into stages ----------------===//
#include "Stages.h"

#include "kerf/Cost/Schedule.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

namespace {

/// A pair that is compared in order: what must be small first.
using Score = std::pair<double, double>;
constexpr double kNever = std::numeric_limits<double>::infinity();

class Cutter {
public:
  Cutter(Graph &graph, const Solution &solution, func::FuncOp function,
         const PlanOptions &options)
      : graph(graph), solution(solution), function(function), options(options),
        candidate(graph.candidate) {}

  StagePlan run();

private:
  void collect();
  std::vector<size_t> placeCuts();
  void fillIn(const std::vector<size_t> &cuts);
  void fillMemory();
  double sendSeconds(int64_t bytes) const;
  std::optional<int64_t> memoryLimit() const;

  Graph &graph;
  const Solution &solution;
  func::FuncOp function;
  const PlanOptions &options;
  const MeshCandidate &candidate;
  std::vector<Operation *> ops; ///< in order, without sources and return
  std::vector<Graph::OpCost> costs;
  std::vector<int64_t> crossing;   ///< bytes per rank over a cut before op i
  std::vector<int64_t> live;       ///< bytes per rank of values while op i runs
  std::vector<int64_t> parameters; ///< bytes per rank of sources op i reads
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

void Cutter::collect() {
  llvm::DenseMap<Operation *, size_t> index;
  for (Operation &op : function.getBody().front()) {
    if (isa<SourceOpInterface>(op) || op.hasTrait<OpTrait::IsTerminator>())
      continue;
    index[&op] = ops.size();
    ops.push_back(&op);
    costs.push_back(graph.costOf(solution, &op));
  }
  // Arguments and sources have no op here: what brings them to a layout that
  // several uses share counts at the first use.
  auto addShared = [&](Value value) {
    Graph::OpCost move = graph.sharedCostOf(solution, value);
    size_t first = ops.size();
    for (Operation *user : value.getUsers())
      if (auto found = index.find(user); found != index.end())
        first = std::min(first, found->second);
    if (first == ops.size())
      return;
    costs[first].moveSeconds += move.moveSeconds;
    costs[first].bytesPerRank += move.bytesPerRank;
    costs[first].totalBytes += move.totalBytes;
  };
  for (BlockArgument argument : function.getArguments())
    addShared(argument);
  for (Operation &op : function.getBody().front())
    if (isa<SourceOpInterface>(op))
      for (Value result : op.getResults())
        addShared(result);
  // What is left to move for the outputs counts where the output is made.
  Operation *end = function.getBody().front().getTerminator();
  if (!ops.empty()) {
    Graph::OpCost last = graph.costOf(solution, end);
    costs.back().moveSeconds += last.moveSeconds;
    costs.back().bytesPerRank += last.bytesPerRank;
    costs.back().totalBytes += last.totalBytes;
  }
  crossing.assign(ops.size() + 1, 0);
  live.assign(ops.size(), 0);
  parameters.assign(ops.size(), 0);
  for (auto [i, op] : llvm::enumerate(ops)) {
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && isa<SourceOpInterface>(def))
        parameters[i] += graph.localBytes(solution, operand);
    for (Value result : op->getResults()) {
      size_t last = i;
      for (Operation *user : result.getUsers())
        if (auto found = index.find(user); found != index.end())
          last = std::max(last, found->second);
      int64_t bytes = graph.localBytes(solution, result);
      for (size_t cut = i + 1; cut <= last; ++cut)
        crossing[cut] += bytes;
      live[i] += bytes;
    }
  }
  for (size_t i = 0; i < ops.size(); ++i)
    live[i] += crossing[i];
}

std::optional<int64_t> Cutter::memoryLimit() const {
  if (options.memoryLimitBytes)
    return options.memoryLimitBytes;
  if (options.machine.memoryBytesPerDevice > 0)
    return options.machine.memoryBytesPerDevice;
  return std::nullopt;
}

std::vector<size_t> Cutter::placeCuts() {
  size_t n = ops.size(), p = candidate.stages;
  std::vector<double> seconds(n + 1, 0), bytes(n + 1, 0), flops(n + 1, 0);
  std::vector<int64_t> held(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    seconds[i + 1] =
        seconds[i] + costs[i].computeSeconds + costs[i].moveSeconds;
    bytes[i + 1] = bytes[i] + double(costs[i].bytesPerRank);
    flops[i + 1] = flops[i] + double(costs[i].flops);
    held[i + 1] = held[i] + parameters[i];
  }
  int64_t limit = memoryLimit().value_or(std::numeric_limits<int64_t>::max());
  bool isVolume = options.objective == Objective::Volume;
  // Every device at most 1.1/N of the work, waived for a mesh that was asked
  // for.
  int64_t asked = 1;
  for (const auto &axis : options.mesh)
    asked *= axis.second;
  bool waived = !options.mesh.empty() && asked == options.devices;
  double flopsLimit = isVolume && !waived ? 1.1 * flops[n] / double(p) : kNever;
  auto stageScore = [&](size_t begin, size_t end) {
    if (flops[end] - flops[begin] > flopsLimit)
      return kNever;
    double sent = end < n ? double(crossing[end]) : 0;
    return isVolume ? bytes[end] - bytes[begin] + sent
                    : seconds[end] - seconds[begin] +
                          (end < n ? sendSeconds(crossing[end]) : 0);
  };
  // best[k][i]: first i ops in k stages, each with at least one op.
  std::vector<std::vector<Score>> best(
      p + 1, std::vector<Score>(n + 1, {kNever, kNever}));
  std::vector<std::vector<size_t>> from(p + 1, std::vector<size_t>(n + 1, 0));
  best[0][0] = {0, 0};
  for (size_t k = 1; k <= p; ++k)
    for (size_t i = k; i <= n; ++i) {
      int64_t peak = 0; // of what is live inside the stage
      for (size_t j = i; j-- > k - 1;) {
        peak = std::max(peak, live[j]);
        if (held[i] - held[j] + peak > limit)
          break; // a longer stage needs more
        if (best[k - 1][j].first == kNever)
          continue;
        double stage = stageScore(j, i);
        if (stage == kNever)
          continue;
        Score score{std::max(best[k - 1][j].first, stage),
                    best[k - 1][j].second + (i < n ? double(crossing[i]) : 0)};
        if (score < best[k][i]) {
          best[k][i] = score;
          from[k][i] = j;
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
  int64_t micro = candidate.microBatches;
  std::vector<cost::StageTimes> times(p);
  std::vector<int64_t> sent(p, 0);
  cost::Int128 total = 0;
  for (size_t stage = 0; stage < p; ++stage) {
    StageSummary summary;
    summary.index = static_cast<int64_t>(stage);
    double compute = 0, move = 0;
    cost::Int128 bytes = 0;
    for (size_t i = cuts[stage]; i < cuts[stage + 1]; ++i) {
      plan.stageOf[ops[i]] = summary.index;
      ++summary.nodes;
      summary.flops += costs[i].flops * micro * candidate.devicesPerStage();
      compute += costs[i].computeSeconds;
      move += costs[i].moveSeconds;
      bytes += costs[i].bytesPerRank;
      total += cost::Int128(costs[i].totalBytes) * micro;
    }
    summary.seconds = (compute + move) * double(micro);
    plan.computeSeconds = std::max(plan.computeSeconds, compute * micro);
    plan.communicationSeconds =
        std::max(plan.communicationSeconds, move * micro);
    times[stage].forward = cost::toPicoseconds(compute + move);
    sent[stage] = cost::saturate(bytes * micro);
    plan.stages.push_back(summary);
  }
  // A value is sent once to each later stage that uses it.
  for (Operation *op : ops)
    for (Value result : op->getResults()) {
      llvm::SmallDenseSet<int64_t> targets;
      for (Operation *user : result.getUsers())
        if (auto found = plan.stageOf.find(user);
            found != plan.stageOf.end() && found->second != plan.stageOf[op])
          targets.insert(found->second);
      int64_t bytes = graph.localBytes(solution, result);
      int64_t stage = plan.stageOf[op];
      cost::Int128 all = cost::Int128(bytes) * micro * targets.size();
      sent[stage] = cost::saturate(sent[stage] + all);
      total += all * candidate.devicesPerStage();
      if (!targets.empty())
        times[stage].sendForward += cost::toPicoseconds(
            sendSeconds(bytes * static_cast<int64_t>(targets.size())));
    }
  plan.totalBytes = cost::saturate(total);
  plan.bytesPerRank = *llvm::max_element(sent);
  auto simulated = cost::simulate(
      cost::buildSchedule(cost::ScheduleKind::Forward, candidate.stages, micro),
      times);
  if (!simulated) {
    plan.reason = llvm::toString(simulated.takeError());
    return;
  }
  plan.stepSeconds = cost::fromPicoseconds(simulated->makespan);
  plan.bubbleFraction = simulated->bubbleFraction;
  plan.feasible = true;
}

void Cutter::fillMemory() {
  plan.memory.assign(candidate.stages, {});
  auto stageOf = [&](Operation *op) {
    auto found = plan.stageOf.find(op);
    return found == plan.stageOf.end() ? candidate.stages - 1 : found->second;
  };
  // Parameters stand in every stage that uses them.
  std::vector<int64_t> position(candidate.stages, 0);
  std::vector<std::vector<std::pair<int64_t, int64_t>>> events(
      candidate.stages);
  llvm::DenseMap<Operation *, int64_t> order;
  int64_t count = 0;
  for (Operation &op : function.getBody().front())
    order[&op] = count++;
  auto live = [&](Value value, int64_t begin) {
    int64_t bytes = graph.localBytes(solution, value);
    for (int64_t stage = 0; stage < candidate.stages; ++stage) {
      int64_t last = -1;
      for (Operation *user : value.getUsers())
        if (stageOf(user) == stage)
          last = std::max(last, order[user]);
      Operation *def = value.getDefiningOp();
      bool here = def && stageOf(def) == stage;
      if (last < 0 && !here)
        continue;
      if (def && isa<SourceOpInterface>(def)) {
        if (last >= 0)
          plan.memory[stage].parameters += bytes;
        continue;
      }
      events[stage].push_back({begin, bytes});
      events[stage].push_back({std::max(last, begin) + 1, -bytes});
    }
  };
  for (BlockArgument argument : function.getArguments())
    live(argument, 0);
  for (Operation &op : function.getBody().front()) {
    auto costed = dyn_cast<OpCostInterface>(&op);
    if (costed && costed.getCostClass() == CostClass::View &&
        !isa<SourceOpInterface>(op))
      continue;
    for (Value result : op.getResults())
      live(result, order[&op]);
  }
  for (int64_t stage = 0; stage < candidate.stages; ++stage) {
    llvm::sort(events[stage]);
    int64_t now = 0, peak = 0;
    for (auto [time, bytes] : events[stage]) {
      now += bytes;
      peak = std::max(peak, now);
    }
    plan.memory[stage].activations = peak;
    plan.memory[stage].peak = plan.memory[stage].parameters + peak;
  }
}

StagePlan Cutter::run() {
  collect();
  if (ops.size() < static_cast<size_t>(candidate.stages)) {
    plan.reason = std::to_string(ops.size()) + " ops cannot make " +
                  std::to_string(candidate.stages) + " stages";
    return std::move(plan);
  }
  std::vector<size_t> cuts =
      candidate.stages == 1 ? std::vector<size_t>{0, ops.size()} : placeCuts();
  if (cuts.empty()) {
    plan.reason = "no cut into " + std::to_string(candidate.stages) +
                  " stages divides the work and fits in memory";
    return std::move(plan);
  }
  fillIn(cuts);
  fillMemory();
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
