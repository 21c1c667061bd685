//===- PlanModule.cpp - candidates, solutions, the cheapest ---------------===//
#include "Planner.h"

#include "Recompute/Describe.h"
#include "Report/PriceGiven.h"
#include "WriteBack.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

static_assert(static_cast<int>(CostClass::Gather) ==
                  static_cast<int>(cost::ComputeClass::Gather),
              "cost classes of interfaces and machines must match");

StringRef kerf::plan::toString(Objective objective) {
  return objective == Objective::Time ? "time" : "volume";
}

/// Cheaper first; ties by bytes, then time, then order.
bool kerf::plan::isBetter(const CandidateSummary &a,
                          const CandidateSummary &b) {
  auto key = [](const CandidateSummary &s) {
    bool none = !s.reason.empty();
    return std::make_tuple(none, s.cost, double(s.totalBytes), s.seconds);
  };
  return key(a) < key(b);
}

/// Why a candidate has no plan whose choices keep all limits.
static constexpr const char *kNothingFits = "nothing fits";
static constexpr const char *kNothingFitsAndShares =
    "nothing fits and divides the work";

/// What a candidate of a small step gets of the time.
static constexpr double kSecondsOfSmall = 1;

void Planner::attempt(const MeshCandidate &candidate, double deadline) {
  if (isDismissed(candidate, 0))
    return;
  Look look = lookAt(candidate);
  Attempt attempt;
  attempt.allowance = allowance;
  attempt.graph = std::move(look.graph);
  if (look.minTotals && isTooLarge(candidate, look.minTotals->memory)) {
    attempt.summary = summaryOf(candidate);
    attempt.summary.reason = kNothingFits;
    attempt.solved.status = attempt.summary.status = Status::Infeasible;
    attempt.solved.minNeeded = {look.minTotals->memory, 0};
    attempt.isShort = true;
    attempts.push_back(std::move(attempt));
    return;
  }
  if (look.minTotals && isDismissed(candidate, look.minTotals->all()))
    return;
  attempt.graph->build([&] { return isOver(); });
  if (attempt.graph->isUnfinished()) {
    passOver(candidate, look.minTotals ? look.minTotals->all() : 0);
    return;
  }
  attempt.summary = summaryOf(candidate);
  if (!attempt.graph->getError().empty()) {
    attempt.summary.reason = attempt.graph->getError();
    attempts.push_back(std::move(attempt));
    return;
  }
  attempt.summary.reason =
      tooFewOps(numOps, candidate.stages, candidate.chunks.front().number);
  if (attempt.summary.reason.empty() && candidate.stages > 1 &&
      !candidate.isInterleaved() && options.solver == SolverKind::Auto &&
      options.objective == Objective::Volume &&
      stageBounds(candidate).isImpossible())
    attempt.summary.reason = "no cut into " + std::to_string(candidate.stages) +
                             " stages divides the work";
  if (!attempt.summary.reason.empty()) {
    attempt.isImpossible = true;
    attempt.solved.status = attempt.summary.status = Status::Infeasible;
    attempts.push_back(std::move(attempt));
    return;
  }
  // A random plan is not looked at twice: what it may take is estimated.
  if (auto limit = memoryLimitOf(options);
      limit && options.solver == SolverKind::Random)
    attempt.graph->limitEstimate(
        attempt.graph->problem.resources[Graph::Memory].limit);
  // Of a small step that is to keep a limit many kinds and meshes are looked
  // at, and nobody waits minutes for it.
  if (options.memoryLimitBytes && options.objective == Objective::Time &&
      options.deadlineSeconds <= 0 && deadline > 0 &&
      isSmall(attempt.graph->problem))
    deadline = std::min(deadline, kSecondsOfSmall);
  double begin = elapsed();
  solveAndCut(attempt, deadline);
  auto left = [&] {
    return deadline > 0 ? std::max(deadline - (elapsed() - begin), 0.01) : 0;
  };
  attempt.isPostponed = isWorthPostponing(attempt);
  attempt.isShort |= attempt.isPostponed;
  if (!attempt.isPostponed)
    makeFit(attempt, left());
  attempt.isShort =
      attempt.isShort || isOutOfReach() || isLimited(attempt, left());
  attempts.push_back(std::move(attempt));
}

/// The sum of each node's cheapest choice: a lower bound if no edge has
/// negative cost.
static Sum minOfNodes(const Problem &problem) {
  Sum sum = 0;
  for (const Problem::Node &node : problem.nodes)
    sum += *llvm::min_element(node.costs.levels[0]);
  return sum;
}

SolveOptions Planner::solveOptionsFor(const Attempt &attempt, double deadline) {
  SolveOptions result;
  result.seed = options.seed;
  result.deadlineSeconds = deadline;
  result.effort = countedEffort();
  result.stop = options.stop;
  result.maxTableEntries = int64_t(1) << 23;
  result.cutoff = cutoffFor(attempt.graph->candidate);
  return result;
}

void Planner::solveAndCut(Attempt &attempt, double deadline, double gap) {
  const Problem &problem = attempt.graph->problem;
  SolveOptions solveOptions = solveOptionsFor(attempt, deadline);
  solveOptions.relativeGap = gap;
  if (gap > 0)
    solveOptions.maxLabels = size_t(1) << 20;
  switch (options.solver) {
  case SolverKind::Auto:
    if (Sum min = minOfNodes(problem); solveOptions.cutoff &&
                                       min >= *solveOptions.cutoff &&
                                       problem.nodes.size() > kQuickNodes) {
      attempt.solved = SolveResult();
      attempt.solved.lowerBound = min;
      attempt.solved.statistics.stoppedBy = "cutoff";
    } else {
      attempt.solved = solve(problem, solveOptions);
      // Behind a cutoff nobody asks how much more it is.
      if (attempt.solved.statistics.stoppedBy == "cutoff")
        attempt.solved.lowerBound = std::max(attempt.solved.lowerBound, min);
    }
    break;
  case SolverKind::BruteForce:
    attempt.solved = bruteForce(problem);
    break;
  case SolverKind::Random:
    attempt.solved = randomSolution(problem, options.seed);
    break;
  }
  summarize(attempt);
}

void Planner::solveAgain() {
  if (options.objective != Objective::Volume ||
      options.solver != SolverKind::Auto)
    return;
  std::vector<Attempt *> open;
  for (Attempt &attempt : attempts)
    if (attempt.solved.statistics.stoppedBy == "deadline" &&
        !attempt.isTightened && attempt.graph->getError().empty() &&
        attempt.summary.lowerBound < incumbent())
      open.push_back(&attempt);
  llvm::stable_sort(open, [](Attempt *a, Attempt *b) {
    return a->summary.lowerBound < b->summary.lowerBound;
  });
  double until = timeToLookBack();
  for (auto [number, attempt] : llvm::enumerate(open)) {
    double left = until - elapsed();
    if (left <= 0 || isStopped())
      return;
    const MeshCandidate &candidate = attempt->graph->candidate;
    SolveResult again =
        solve(attempt->graph->problem,
              solveOptionsFor(
                  *attempt, left / static_cast<double>(open.size() - number)));
    double bound =
        std::max(attempt->summary.lowerBound,
                 boundOf(candidate, static_cast<double>(again.lowerBound)));
    if (again.hasSolution()) {
      Attempt before;
      before.solved = std::move(attempt->solved);
      before.stages = std::move(attempt->stages);
      before.summary = attempt->summary;
      attempt->solved = std::move(again);
      summarize(*attempt);
      if (!isBetter(attempt->summary, before.summary)) {
        attempt->solved = std::move(before.solved);
        attempt->stages = std::move(before.stages);
        attempt->summary = before.summary;
      }
    }
    attempt->summary.lowerBound = bound;
    if (!attempt->summary.reason.empty() && bound >= incumbent())
      attempt->summary.reason = atLeast(options.objective, bound);
  }
}

void Planner::summarize(Attempt &attempt, std::optional<int64_t> chunks) {
  CandidateSummary &summary = attempt.summary;
  const MeshCandidate &candidate = attempt.graph->candidate;
  summary.reason.clear();
  summary.peakMemoryBytes = 0;
  summary.status = attempt.solved.status;
  bool isTime = options.objective == Objective::Time;
  bool bounded = options.solver != SolverKind::Random;
  double bound = bounded ? static_cast<double>(attempt.solved.lowerBound) : 0;
  summary.lowerBound = boundOf(candidate, bound);
  if (!attempt.solved.hasSolution()) {
    bool sharesWork = options.objective == Objective::Volume &&
                      !isWorkWaived(options) && !options.anyShareOfWork;
    summary.reason = attempt.solved.status == Status::Infeasible
                         ? (sharesWork ? kNothingFitsAndShares : kNothingFits)
                     : attempt.solved.statistics.stoppedBy == "cutoff"
                         ? atLeast(options.objective, summary.lowerBound)
                         : "none found";
    return;
  }
  if (attempt.isFlat)
    chunks = candidate.chunks.front().number;
  attempt.stages = cutStages(
      *attempt.graph, attempt.solved.solution, function, options,
      {chunks, incumbent(), attempt.allowance, nullptr, &spent.effort()});
  summary.chunks = attempt.stages.chunks;
  attempt.isShort |= attempt.stages.isShort;
  if (!attempt.stages.feasible) {
    summary.status = Status::Unknown;
    summary.reason = attempt.stages.reason;
    return;
  }
  summary.seconds = attempt.stages.stepSeconds;
  summary.bytesPerRank = attempt.stages.bytesPerRank;
  summary.totalBytes = attempt.stages.totalBytes;
  summary.peakMemoryBytes = peakOf(attempt.stages);
  if (summary.peakMemoryBytes < smallestSeen.bytes)
    smallestSeen = {summary.peakMemoryBytes, summary};
  if (!fits(attempt)) {
    summary.status = Status::Unknown;
    summary.reason = whyTooLarge(summary.peakMemoryBytes);
  }
  // For bytes the cost is what the plan sends. For seconds it is the minimised
  // cost with one stage, and the cost of the cut with several.
  if (!isTime)
    summary.cost = static_cast<double>(summary.bytesPerRank);
  else if (candidate.stages == 1)
    summary.cost = static_cast<double>(attempt.solved.cost()) * 1e-12;
  else
    summary.cost = summary.seconds;
  // Proven of the Problem is not proven of its cut into stages.
  constexpr double kRounding = 1e-9;
  if (summary.status == Status::Optimal &&
      summary.lowerBound < summary.cost * (1 - kRounding))
    summary.status = Status::Feasible;
}

std::vector<CandidateSummary> Planner::allSummaries() const {
  std::vector<CandidateSummary> all = summaries();
  llvm::append_range(all, unsearched);
  for (const Dismissed &noted : dismissed)
    all.push_back(noted.summary);
  return all;
}

PlanResult Planner::describe(Attempt &best) {
  PlanResult result = describeCut(*best.graph, best.stages, function, options);
  result.recomputed =
      describeRecomputed(function, best.graph.get(), best.solved.solution);
  result.cost = best.summary.cost;
  result.lowerBound = std::min(result.cost, lowerBound());
  result.candidates = allSummaries();
  result.isCutShort = isCutShort();
  // The sort is stable, so the plan that is taken comes before plans of equal
  // cost if it is the first in front of the sort.
  std::rotate(result.candidates.begin(),
              result.candidates.begin() + (&best - attempts.data()),
              result.candidates.begin() + (&best - attempts.data()) + 1);
  llvm::stable_sort(result.candidates, isBetter);
  result.solver = options.solver == SolverKind::Random       ? "random"
                  : options.solver == SolverKind::BruteForce ? "brute-force"
                                                             : "auto";
  return result;
}

Attempt *Planner::best() {
  if (attempts.empty())
    return nullptr;
  return &*llvm::min_element(attempts, [](const Attempt &a, const Attempt &b) {
    return isBetter(a.summary, b.summary);
  });
}

/// Whether every mesh with the same axes in space and fewer micro-batches, of
/// which there is one at least, is short of memory: where one is not, more
/// micro-batches cannot be cheaper.
bool Planner::isShortOfMemory(const MeshCandidate &candidate) const {
  auto inSpace = [](const MeshCandidate &candidate) {
    auto axes = candidate.mesh.axes;
    llvm::erase_if(axes,
                   [](const dist::MeshAxis &axis) { return axis.isTime; });
    return axes;
  };
  auto isAlike = [](const dist::MeshAxis &a, const dist::MeshAxis &b) {
    return a.name == b.name && a.size == b.size;
  };
  bool found = false;
  for (const Attempt &attempt : attempts) {
    const MeshCandidate &other = attempt.graph->candidate;
    if (other.microBatches >= candidate.microBatches ||
        !llvm::equal(inSpace(other), inSpace(candidate), isAlike))
      continue;
    if (!attempt.isShort)
      return false;
    found = true;
  }
  return found;
}

/// Whether a candidate is to be searched now: more micro-batches only where
/// others have shown that it makes sense.
bool Planner::isWanted(size_t number) const {
  return number < numFirst ||
         (number < numBeforeFurther && isShortOfMemory(candidates[number]));
}

std::string Planner::whyNoMicroBatches() const {
  if (batch.breaks().empty())
    return "";
  const BatchAnalysis::Break &first = batch.breaks().front();
  StringRef name = first.op->getNumResults() ? names[first.op->getResult(0)]
                                             : StringRef("the end");
  return (name + " (" + first.op->getName().getStringRef() + ") " +
          first.reason)
      .str();
}

size_t Planner::countPostponed() const {
  return static_cast<size_t>(llvm::count_if(
      attempts, [](const Attempt &attempt) { return attempt.isPostponed; }));
}

bool Planner::mayAskForMicroBatches() const {
  if (batch.breaks().empty())
    return false;
  // Autodiff has made the statistics in front of the op that reads them, at
  // its place in the source.
  Operation *first = batch.breaks().front().op;
  Location place = first->getLoc();
  for (Operation &op : *first->getBlock()) {
    auto reader = dyn_cast<OperandRoleInterface>(op);
    if (!reader || op.getLoc() != place)
      continue;
    for (OpOperand &operand : op.getOpOperands())
      if (reader.getOperandRole(operand.getOperandNumber()) ==
              OperandRole::Statistic &&
          !operand.get().getDefiningOp<SourceOpInterface>())
        return true;
  }
  return false;
}

Attempt *Planner::search(PlanError &error, std::string &message) {
  message = checkBatchDims(names, options.batchDims);
  if (message.empty())
    message = checkHints(function, names, options.hints);
  if (!message.empty()) {
    error = PlanError::BadRequest;
    return nullptr;
  }
  bool canMicroBatch = batch.batchSize() > 1 && batch.breaks().empty();
  MeshSet set = enumerateMeshes(options, {batch.batchSize(), canMicroBatch,
                                          whyNoMicroBatches(),
                                          batch.isTraining(), numOps});
  if (!set.error.empty()) {
    error = PlanError::BadRequest;
    message = set.error;
    return nullptr;
  }
  if (message = checkHintAxes(options.hints, set.candidates);
      !message.empty()) {
    error = PlanError::BadRequest;
    return nullptr;
  }
  candidates = std::move(set.candidates);
  candidateSet = std::move(set.description);
  if (options.solver == SolverKind::Random && candidates.size() > 1) {
    // The seed picks a mesh; if that has no plan, the next one is tried.
    uint64_t pick = (options.seed * 0x9E3779B97F4A7C15ull) >> 33;
    std::rotate(candidates.begin(),
                candidates.begin() +
                    static_cast<int64_t>(pick % candidates.size()),
                candidates.end());
  }
  // Stages of one device send only values that cross stages. They are solved
  // fast and often send little, which gives a cutoff for the others.
  if (options.objective == Objective::Volume &&
      options.solver == SolverKind::Auto)
    std::stable_partition(candidates.begin(), candidates.end(),
                          [](const MeshCandidate &candidate) {
                            return candidate.stages > 1 &&
                                   candidate.devicesPerStage() == 1;
                          });
  // One candidate stands for all that cannot be.
  bool isHopeless = isOutOfReach();
  if (isHopeless)
    candidates.erase(candidates.begin() + 1, candidates.end());
  numFirst = candidates.size();
  // Without a limit one micro-batch fits.
  if (memoryLimitOf(options) && !isHopeless)
    llvm::append_range(candidates, set.accumulations);
  numBeforeFurther = candidates.size();
  if (memoryLimitOf(options) && !isHopeless)
    llvm::append_range(candidates, set.further);
  for (const MeshCandidate &candidate : candidates)
    maxMicroBatches = std::max(maxMicroBatches, candidate.microBatches);
  tried.assign(candidates.size(), false);
  for (const auto &[number, candidate] : llvm::enumerate(candidates)) {
    if (!isWanted(number))
      continue;
    tried[number] = true;
    report();
    double left = 0;
    if (options.deadlineSeconds > 0 || isStopped()) {
      left = isStopped() ? 0 : budget() - elapsed();
      if (left <= 0 && (!attempts.empty() || isStopped())) {
        passOver(candidate);
        continue;
      }
      // No candidate may use up the time of those behind it.
      auto others =
          static_cast<double>(candidates.size() - number + countPostponed());
      left = std::max(std::min(left, 2 * left / others), 0.01);
    } else {
      // A training step has three times the ops, and limits: without a deadline
      // its search must still end within seconds.
      left = secondsOfCandidate();
    }
    double begin = elapsed();
    attempt(candidate, left);
    if (options.deadlineSeconds > 0)
      overrun = std::max(overrun, elapsed() - begin - left);
    if (options.solver == SolverKind::Random && !attempts.empty() &&
        attempts.back().summary.reason.empty())
      break;
  }
  if (llvm::any_of(attempts, [](const Attempt &attempt) {
        return attempt.solved.statistics.stoppedBy == kTooManyCombinations;
      })) {
    // What was not counted is not known: there is neither a plan nor a verdict.
    error = PlanError::BadRequest;
    message = "option solver=brute-force: a mesh has more combinations of "
              "choices than are counted, option solver=auto searches them";
    return nullptr;
  }
  solveAgain();
  sharpenBounds();
  report();
  return best();
}

Tried Planner::tryOut() {
  allowance = kSafeAllowance; // nothing is laid out
  PlanError error = PlanError::None;
  std::string message;
  Attempt *found = search(error, message);
  if (found) {
    fitPostponed();
    found = best();
    if (!found->summary.reason.empty() &&
        searchFurther(FitTime(elapsed(), 0, options.deadlineSeconds > 0))) {
      fitPostponed();
      found = best();
    }
  }
  return {verdict(found), smallestSeen};
}

Trial Planner::verdict(const Attempt *best) const {
  if (!best)
    return isStopped() ? Trial::Unknown : Trial::None;
  if (best->summary.reason.empty())
    return Trial::Found;
  bool isProven = !isStopped() && unsearched.empty() && dismissed.empty() &&
                  llvm::all_of(attempts, [](const Attempt &attempt) {
                    return attempt.cannotBe();
                  });
  return isProven ? Trial::None : Trial::Unknown;
}

std::optional<std::string> Planner::wrongRequest() const {
  if (llvm::any_of(attempts, [](const Attempt &attempt) {
        return attempt.graph->getError().empty();
      }))
    return std::nullopt;
  return attempts[0].graph->getError();
}

std::vector<CandidateSummary> Planner::summaries() const {
  std::vector<CandidateSummary> found;
  for (const Attempt &attempt : attempts)
    found.push_back(attempt.summary);
  return found;
}

void Planner::write(Attempt &best, ModuleOp target) {
  writeBack(target, function, *best.graph, best.solved.solution, best.stages);
  written = &best;
}
