//===- Stages.cpp - cutting a sharded function into stages ----------------===//
#include "Cutter.h"

#include "../Report/Infeasible.h"

#include "kerf/Fusion/KeptValues.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;
using namespace kerf::plan::cutter;

/// A score compared lexicographically; smaller is better.
using Score = std::pair<double, double>;
constexpr double kNever = std::numeric_limits<double>::infinity();

double Cutter::sendSeconds(int64_t bytes) const {
  if (bytes == 0)
    return 0;
  return cost::sendSeconds(options.machine, bytes,
                           cost::placePair(options.machine,
                                           candidate.mesh.numRanks(),
                                           candidate.devicesPerStage()));
}

int64_t kerf::plan::peakOf(const StagePlan &stages) {
  int64_t peak = 0;
  for (const PlanResult::Memory &memory : stages.memory)
    peak = std::max(peak, memory.peak);
  return peak;
}

double kerf::plan::stepBound(const MeshCandidate &candidate,
                             const BatchAnalysis &batch, double seconds) {
  double micro = static_cast<double>(candidate.microBatches);
  double stages = static_cast<double>(candidate.stages);
  if (candidate.stages == 1 || batch.isTraining())
    return seconds; // training: the Problem is weighted, see stepWeights()
  return seconds / micro * (1 + (micro - 1) / stages);
}

SmallVector<int64_t>
kerf::plan::otherPlaces(Value value, int64_t from,
                        llvm::function_ref<int64_t(Operation *)> placeOf) {
  SmallVector<int64_t> places;
  for (OpOperand &use : value.getUses()) {
    int64_t place = placeOf(use.getOwner());
    if (place >= 0 && place != from && !llvm::is_contained(places, place))
      places.push_back(place);
  }
  llvm::sort(places);
  return places;
}

void Cutter::makeGroups() {
  for (SmallVector<Operation *> &ops : colocationGroupsOf(function)) {
    for (Operation *op : ops)
      groupOf[op] = groups.size();
    groups.emplace_back().ops = std::move(ops);
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
            if (auto group = groupOf.find(use.getOwner());
                group != groupOf.end())
              readers.push_back(group->second);
        llvm::sort(readers);
        if (!readers.empty())
          visit(pass, graph.passCostOf(solution, result, pass), readers);
      }
}

void Cutter::collect() {
  countWork(
      request.effort, WorkPiece::OpOfStage,
      3 * static_cast<double>(llvm::range_size(function.getBody().front())));
  makeGroups();
  // Added up in program order, since sums of doubles depend on the order.
  for (ColocationGroup &group : groups)
    for (Operation *op : group.ops) {
      group.load.add(stepPhaseOf(dist::getPhase(op)),
                     graph.costOf(solution, op));
      for (Value result : op->getResults())
        group.load.add(stepPhaseOf(graph.sharedPhase(result)),
                       graph.sharedCostOf(solution, result));
    }
  // Arguments and sources belong to no group: bringing them to a shared layout
  // counts at the first use.
  auto addShared = [&](Value value) {
    if (size_t first = firstGroup(value); first < groups.size())
      groups[first].load.add(stepPhaseOf(graph.sharedPhase(value)),
                             graph.sharedCostOf(solution, value));
  };
  for (BlockArgument argument : function.getArguments())
    addShared(argument);
  for (Operation &op : function.getBody().front())
    if (isa<SourceOpInterface>(op))
      for (Value result : op.getResults()) {
        addShared(result);
        if (size_t first = firstGroup(result); first < groups.size())
          groups[first].sources += graph.localBytes(solution, result);
      }
  forEachPass(
      [&](StepPass pass, const Graph::OpCost &cost, ArrayRef<size_t> readers) {
        groups[readers.front()].load.add(stepPhaseOf(pass), cost);
      });
  // Moves for an output count in the group that makes the output.
  Operation *end = function.getBody().front().getTerminator();
  for (OpOperand &output : end->getOpOperands()) {
    auto maker = groupOf.find(output.get().getDefiningOp());
    size_t group = maker == groupOf.end() ? 0 : maker->second;
    if (!groups.empty())
      groups[group].load.add(batch.isTraining() ? Once : Forward,
                             graph.moveCostOf(solution, output));
  }
  for (auto [value, stage] : graph.getWantedStages()) {
    auto maker = groupOf.find(value.getDefiningOp());
    size_t group = maker == groupOf.end() ? firstGroup(value) : maker->second;
    if (group < groups.size())
      groups[group].wanted.push_back(stage);
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
  crossing.assign(groups.size() + 1, 0);
  crossingSeconds.assign(groups.size() + 1, 0);
  crossings.emplace(groups.size());
  llvm::DenseMap<Value, int64_t> summed = partsOfSums(function, batch);
  // Of all copies of a value one is held, the smallest at least.
  llvm::MapVector<Value, std::pair<size_t, int64_t>> held;
  for (auto [i, group] : llvm::enumerate(groups))
    for (Operation *op : group.ops) {
      for (OpResult result : op->getResults()) {
        bool isKept = false;
        for (Operation *user : result.getUsers())
          isKept |= groupOf.contains(user) &&
                    stepPhaseOf(dist::getPhase(op)) == Forward &&
                    stepPhaseOf(dist::getPhase(user)) == Backward;
        int64_t bytes = graph.sharedBytes(solution, result);
        auto times =
            static_cast<double>(summed.contains(result) ? 1 : timesOf(result));
        Crossing whole =
            crossingOf(result, i, static_cast<double>(bytes) * times, groupOf);
        crossings->add(whole);
        double seconds =
            whole.first < whole.last ? sendSeconds(bytes) * times : 0;
        for (size_t cut = whole.first + 1; cut <= whole.last; ++cut) {
          crossing[cut] += whole.bytes;
          crossingSeconds[cut] += seconds;
        }
        group.live += bytes;
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
            groupOf));
    }
  for (auto &[root, place] : held)
    groups[place.first].kept += place.second;
}

std::vector<double> Cutter::heldMicroBatches() const {
  std::vector<double> held(places, 0);
  if (!batch.isTraining())
    return held;
  if (plan.chunks == 1) {
    for (size_t place = 0; place < places; ++place)
      held[place] = std::min<double>(double(micro), double(places - place));
    return held;
  }
  std::vector<double> now(places, 0);
  cost::Schedule schedule = cost::buildSchedule(
      cost::ScheduleKind::Interleaved, candidate.stages, micro, plan.chunks);
  for (auto [stage, list] : llvm::enumerate(schedule))
    for (const cost::Instruction &each : list) {
      size_t place = each.chunk * candidate.stages + stage;
      now[place] += each.phase == cost::Phase::Forward ? 1 : -1;
      held[place] = std::max(held[place], now[place]);
    }
  return held;
}

std::vector<size_t> Cutter::placeCuts(bool isLimited) {
  size_t n = groups.size(), p = places;
  std::vector<double> heldAt = heldMicroBatches();
  std::vector<double> seconds(n + 1, 0), bytes(n + 1, 0), flops(n + 1, 0);
  auto scale = static_cast<double>(graph.getByteScale());
  double model = 0; // operations of the model, done once
  std::vector<int64_t> stored(n + 1, 0), kept(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    seconds[i + 1] = seconds[i] + groups[i].load.seconds();
    bytes[i + 1] =
        bytes[i] + static_cast<double>(groups[i].load.scaledBytes) / scale;
    for (Operation *op : groups[i].ops)
      model += static_cast<double>(wholeFlops(op));
    flops[i + 1] = flops[i] + static_cast<double>(groups[i].load.flops);
    stored[i + 1] = stored[i] + groups[i].sources;
    kept[i + 1] = kept[i] + groups[i].kept;
  }
  double limit = kNever;
  if (std::optional<int64_t> bytes = memoryLimitOf(options); bytes && isLimited)
    limit = static_cast<double>(*bytes);
  bool isVolume = options.objective == Objective::Volume;
  // Every device does at most 1.1/N of the work, unless the user fixed the
  // mesh.
  double devices = double(p) * double(candidate.devicesPerStage());
  double flopsLimit = isVolume && !isWorkWaived(options)
                          ? 1.1 * model / devices * (1 + 1e-12)
                          : kNever;
  std::vector<double> sent; // per begin, up to the current end
  // In a training step about as much is sent back over a cut as forward.
  double part = batch.isTraining() ? 0.5 : 1;
  double both = batch.isTraining() ? 0.5 : 0;
  auto stageScore = [&](size_t begin, size_t end) {
    if (flops[end] - flops[begin] > flopsLimit)
      return kNever;
    if (isVolume)
      return bytes[end] - bytes[begin] + sent[begin];
    return seconds[end] - seconds[begin] + part * crossingSeconds[end] +
           both * crossingSeconds[begin];
  };
  // best[k][i]: first i groups in k stages, each with at least one.
  std::vector<std::vector<Score>> best(
      p + 1, std::vector<Score>(n + 1, {kNever, kNever}));
  std::vector<std::vector<size_t>> from(p + 1, std::vector<size_t>(n + 1, 0));
  best[0][0] = {0, 0};
  for (size_t i = 1; i <= n; ++i) {
    if (isVolume)
      sent = crossings->sentFrom(i);
    for (size_t k = 1; k <= std::min(p, i); ++k) {
      double held = heldAt[k - 1];
      int64_t peak = 0; // of what a group makes
      countWork(request.effort, WorkPiece::Entry, 4 * static_cast<double>(i));
      for (size_t j = i; j-- > k - 1;) {
        if (!mayBeIn(groups[j], k - 1))
          break; // nor in a longer stage
        peak = std::max(peak, groups[j].live);
        if (!isVolume && seconds[i] - seconds[j] + part * crossingSeconds[i] >
                             best[k][i].first)
          break; // a longer stage takes even longer
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
  for (auto [i, group] : llvm::enumerate(groups))
    for (Operation *op : group.ops) {
      auto place = static_cast<size_t>(std::max<int64_t>(givenPlace(op), 0));
      if (place == cuts.size() && i > 0)
        cuts.push_back(i);
      if (place + 1 != cuts.size())
        return {};
    }
  cuts.push_back(groups.size());
  if (cuts.size() != places + 1)
    return {};
  return cuts;
}

/// "4 stages", "4 stages of 2 chunks".
static std::string stagesText(int64_t stages, int64_t chunks) {
  return std::to_string(stages) + (stages == 1 ? " stage" : " stages") +
         (chunks > 1 ? " of " + std::to_string(chunks) + " chunks" : "");
}

std::string kerf::plan::tooFewOps(size_t ops, int64_t stages, int64_t chunks) {
  if (stages == 1 || ops >= static_cast<size_t>(stages * chunks))
    return "";
  return std::to_string(ops) + (ops == 1 ? " op" : " ops") + " cannot make " +
         stagesText(stages, chunks);
}

double Cutter::minSeconds(const ChunkChoice &choice) const {
  double perMicroBatch = 0, once = 0;
  for (const ColocationGroup &group : groups) {
    const Load &load = group.load;
    perMicroBatch += load.compute[Forward] + load.compute[Backward] +
                     load.move[Forward] + load.move[Backward];
    once += load.compute[Once] + load.move[Once];
  }
  return choice.weights.perMicroBatch * perMicroBatch /
             static_cast<double>(micro) +
         choice.weights.perStep * once;
}

double Cutter::excessOf(const StagePlan &each) const {
  std::optional<int64_t> limit = memoryLimitOf(options);
  double allowed =
      limit ? request.allowance * static_cast<double>(*limit) : kNever;
  return std::max(static_cast<double>(peakOf(each)) - allowed, 0.0);
}

/// First what keeps the memory limit, or is less above it, then what the
/// objective is about.
bool Cutter::isBetter(const StagePlan &a, const StagePlan &b) const {
  auto key = [&](const StagePlan &each) {
    bool isVolume = options.objective == Objective::Volume;
    return std::make_tuple(!each.feasible, excessOf(each),
                           isVolume ? static_cast<double>(each.bytesPerRank)
                                    : each.stepSeconds);
  };
  return key(a) < key(b);
}

/// An estimate that is made while cuts are moved may be this factor above what
/// the plan takes, since a link carries each value that crosses by itself.
static constexpr double kEstimate = 1.05;

void Cutter::takeBetter(StagePlan other) {
  auto isFaster = [](const StagePlan &a, const StagePlan &b) {
    return b.feasible && (!a.feasible || b.stepSeconds < a.stepSeconds);
  };
  if (isFaster(plan, other))
    std::swap(plan, other);
  addMemory();
  if (excessOf(plan) == 0)
    return;
  std::swap(plan, other);
  addMemory();
  if (isBetter(other, plan))
    std::swap(plan, other);
}

void Cutter::cutInto(int64_t chunks, const StagePlan *rival) {
  plan = StagePlan();
  plan.chunks = chunks;
  places = candidate.stages * chunks;
  plan.reason = tooFewOps(groups.size(), candidate.stages, chunks);
  if (!plan.reason.empty())
    return;
  // A wish for another stage cannot be kept by one.
  bool isWhole =
      candidate.stages == 1 &&
      llvm::all_of(groups, [&](auto &group) { return mayBeIn(group, 0); });
  std::vector<size_t> cuts = isWhole ? std::vector<size_t>{0, groups.size()}
                             : givenPlace ? givenCuts()
                                          : placeCuts(/*isLimited=*/true);
  // placeCuts() only estimates what a stage holds; the prediction comes later.
  if (cuts.empty() && !givenPlace && options.objective == Objective::Time)
    cuts = placeCuts(/*isLimited=*/false);
  if (cuts.empty()) {
    plan.reason = "no cut into " + stagesText(candidate.stages, chunks) +
                  (graph.getWantedStages().empty() ? "" : " keeps the hints,") +
                  " divides the work and fits in memory";
    return;
  }
  bool isBalanced = candidate.stages > 1 && batch.isTraining() && !givenPlace &&
                    options.objective == Objective::Time &&
                    graph.getWantedStages().empty();
  std::optional<StagePlan> moved;
  if (isBalanced) {
    auto [balanced, seconds] = balance(cuts);
    if (rival && seconds > kEstimate * rival->stepSeconds) {
      plan.reason = "fewer chunks are faster";
      return;
    }
    if (balanced != cuts) {
      fillIn(balanced);
      moved = std::exchange(plan, StagePlan());
      plan.chunks = chunks;
    }
  }
  fillIn(cuts);
  if (moved)
    takeBetter(std::move(*moved));
  else
    addMemory();
}

StagePlan Cutter::run() {
  collect();
  std::optional<StagePlan> best;
  double fastest = kNever; // of those that take too much memory
  for (const ChunkChoice &choice : candidate.chunks) {
    if (request.chunks && choice.number != *request.chunks)
      continue;
    // More chunks hold more, and most plans are no faster with any, which costs
    // less to know than to try.
    const StagePlan *rival = best && best->feasible ? &*best : nullptr;
    if (rival && options.objective == Objective::Time &&
        (excessOf(*rival) > 0 ||
         minSeconds(choice) >=
             std::min(rival->stepSeconds, request.worthSeconds)))
      continue;
    cutInto(choice.number, rival);
    if (plan.feasible && excessOf(plan) > 0)
      fastest = std::min(fastest, plan.stepSeconds);
    if (!best || isBetter(plan, *best))
      best = std::move(plan);
  }
  best->isShort = best->feasible && fastest < best->stepSeconds;
  return std::move(*best);
}

StagePlan kerf::plan::cutStages(Graph &graph, const Solution &solution,
                                func::FuncOp function,
                                const PlanOptions &options,
                                const CutRequest &request) {
  return Cutter(graph, solution, function, options, request).run();
}
