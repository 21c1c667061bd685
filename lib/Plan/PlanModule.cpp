//===- PlanModule.cpp - candidates, solutions, the cheapest ---------------===//
#include "kerf/Plan/Plan.h"

#include "Model/Meshes.h"
#include "Report/Infeasible.h"
#include "Report/PriceGiven.h"
#include "Stages/StageBounds.h"
#include "WriteBack.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/Regex.h"

#include <chrono>

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

static_assert(static_cast<int>(CostClass::Gather) ==
                  static_cast<int>(cost::ComputeClass::Gather),
              "cost classes of interfaces and machines must match");

StringRef kerf::plan::toString(Objective objective) {
  return objective == Objective::Time ? "time" : "volume";
}

namespace {

/// A candidate mesh with what became of it.
struct Attempt {
  std::unique_ptr<Graph> graph;
  SolveResult solved;
  StagePlan stages;
  CandidateSummary summary;
  bool isImpossible = false; ///< too few ops, or no cut divides the work
  bool isTightened = false;  ///< what was solved is less than the candidate

  /// The stages cannot be, whatever the memory.
  bool cannotBeCut() const {
    return isImpossible ||
           (solved.hasSolution() && !stages.feasible && stages.memory.empty());
  }
  /// There is no plan, which is proven.
  bool cannotBe() const {
    return !graph->getError().empty() || cannotBeCut() ||
           solved.status == Status::Infeasible;
  }
};

class Planner {
public:
  Planner(ModuleOp module, func::FuncOp function, const PlanOptions &options)
      : module(module), function(function), options(options),
        batch(function, options.batchDims), dimBlocks(function),
        names(function), numOps(unitsOf(function).size()),
        start(std::chrono::steady_clock::now()) {}

  FailureOr<PlanResult> run(PlanError &error, std::string &message);
  /// The same, and nothing is written.
  Trial tryOut();

private:
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  }
  void attempt(const MeshCandidate &candidate, double deadline);
  void solveAndCut(Attempt &attempt, double deadline);
  void summarize(Attempt &attempt);
  /// The bound on a candidate that follows from what its Problem costs.
  double boundOf(const MeshCandidate &candidate, double problemCost);
  /// What a Problem must cost less than to be of interest.
  std::optional<Sum> cutoffFor(const MeshCandidate &candidate);
  /// What any cut into stages must send; the same for like meshes.
  StageBounds &stageBounds(const MeshCandidate &candidate);
  /// Candidates whose time was over are solved again: now that another plan is
  /// known, much less has to be searched.
  void solveAgain();
  /// Bounds below the best plan's cost are looked at once more, closer.
  void sharpenBounds();
  /// Seconds for searching: being set up, and the result, are not cut short.
  double budget() const { return 0.95 * options.deadlineSeconds - overrun; }
  /// Until when a look back may take.
  double timeToLookBack() const {
    return options.deadlineSeconds > 0 ? budget()
                                       : std::max(30.0, elapsed() + 10);
  }
  /// The cheapest plan so far; infinity without one.
  double incumbent() const {
    double best = std::numeric_limits<double>::infinity();
    for (const Attempt &attempt : attempts)
      if (attempt.summary.reason.empty())
        best = std::min(best, attempt.summary.cost);
    return best;
  }
  bool isStopped() const { return options.stop && *options.stop; }
  void report(size_t searched) const;
  PlanResult describe(const Attempt &best, StringRef candidateSet);
  int64_t minMemory() const;
  const Attempt *search(PlanError &error, std::string &message);

  ModuleOp module;
  func::FuncOp function;
  const PlanOptions &options;
  BatchAnalysis batch;
  DimBlocks dimBlocks;
  ValueNames names;
  size_t numOps; ///< groups of ops that one stage computes
  std::chrono::steady_clock::time_point start;
  std::vector<MeshCandidate> candidates; ///< graphs refer to them
  std::string candidateSet;              ///< in words
  /// The deadline came before these.
  std::vector<CandidateSummary> unsearched;
  /// By stages and devices of a stage.
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<StageBounds>> bounds;
  std::vector<Attempt> attempts;
  double overrun = 0; ///< the most that a candidate took beyond its time
};

} // namespace

/// Cheaper first; ties by bytes, then time, then order.
static bool isBetter(const CandidateSummary &a, const CandidateSummary &b) {
  auto key = [](const CandidateSummary &s) {
    bool none = !s.reason.empty();
    return std::make_tuple(none, s.cost, double(s.totalBytes), s.seconds);
  };
  return key(a) < key(b);
}

void Planner::attempt(const MeshCandidate &candidate, double deadline) {
  Attempt attempt;
  attempt.graph = std::make_unique<Graph>(function, candidate, options, batch,
                                          dimBlocks, names);
  for (const dist::MeshAxis &axis : candidate.mesh.axes)
    if (!axis.isTime)
      attempt.summary.mesh.push_back({axis.name, axis.size});
  attempt.summary.microBatches = candidate.microBatches;
  if (!attempt.graph->getError().empty()) {
    attempt.summary.reason = attempt.graph->getError();
    attempts.push_back(std::move(attempt));
    return;
  }
  attempt.summary.reason = tooFewOps(numOps, candidate.stages);
  if (attempt.summary.reason.empty() && candidate.stages > 1 &&
      options.solver == SolverKind::Auto &&
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
  solveAndCut(attempt, deadline);
  // Stages of unequal weight may need sharper shardings than the whole does:
  // tighten what all stages together may hold until a cut fits. The bound of
  // the first solution stays valid.
  double bound = attempt.summary.lowerBound;
  for (double share : {0.75, 0.6, 0.5, 0.4})
    if (candidate.stages > 1 && attempt.solved.hasSolution() &&
        !attempt.stages.feasible && options.solver == SolverKind::Auto &&
        bound <= incumbent()) {
      attempt.graph = std::make_unique<Graph>(function, candidate, options,
                                              batch, dimBlocks, names, share);
      solveAndCut(attempt, deadline);
      attempt.summary.lowerBound = bound;
      attempt.isTightened = true;
    }
  attempts.push_back(std::move(attempt));
}

/// Problems up to this size are solved even if another plan is known to be
/// cheaper: it is nice to know what they would have cost.
static constexpr size_t kQuickNodes = 1500;

/// What the nodes cost by themselves, each at its cheapest: a bound where edges
/// cost nothing or more.
static Sum minOfNodes(const Problem &problem) {
  Sum sum = 0;
  for (const Problem::Node &node : problem.nodes)
    sum += *llvm::min_element(node.costs.levels[0]);
  return sum;
}

void Planner::solveAndCut(Attempt &attempt, double deadline) {
  const Problem &problem = attempt.graph->problem;
  SolveOptions solveOptions;
  solveOptions.seed = options.seed;
  solveOptions.deadlineSeconds = deadline;
  solveOptions.stop = options.stop;
  solveOptions.maxTableEntries = int64_t(1) << 23;
  switch (options.solver) {
  case SolverKind::Auto:
    solveOptions.cutoff = cutoffFor(attempt.graph->candidate);
    if (Sum min = minOfNodes(problem); solveOptions.cutoff &&
                                       min >= *solveOptions.cutoff &&
                                       problem.nodes.size() > kQuickNodes) {
      attempt.solved = SolveResult();
      attempt.solved.lowerBound = min;
      attempt.solved.statistics.stoppedBy = "cutoff";
    } else {
      attempt.solved = solve(problem, solveOptions);
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

StageBounds &Planner::stageBounds(const MeshCandidate &candidate) {
  auto &known = bounds[{candidate.stages, candidate.devicesPerStage()}];
  if (!known)
    known = std::make_unique<StageBounds>(function, candidate, options, batch);
  return *known;
}

double Planner::boundOf(const MeshCandidate &candidate, double problemCost) {
  if (options.objective == Objective::Time)
    return stepBound(candidate, batch, problemCost * 1e-12);
  if (options.solver == SolverKind::Random)
    return 0;
  double bytes =
      problemCost / static_cast<double>(byteScaleOf(function, candidate));
  return candidate.stages == 1 ? bytes : stageBounds(candidate).minBytes(bytes);
}

std::optional<Sum> Planner::cutoffFor(const MeshCandidate &candidate) {
  double best = incumbent();
  if (std::isinf(best))
    return std::nullopt;
  if (boundOf(candidate, 0) > best)
    return 0;
  double max;
  if (options.objective == Objective::Time) {
    max = best / stepBound(candidate, batch, 1) * 1e12;
  } else {
    max = best;
    if (candidate.stages > 1)
      max = stageBounds(candidate).maxWithin(best);
    max *= static_cast<double>(byteScaleOf(function, candidate));
  }
  max = max * (1 + 1e-12) + 1; // as cheap is still of interest
  if (max > 9e17)
    return std::nullopt;
  return static_cast<Sum>(max) + 1;
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
    SolveOptions solveOptions;
    solveOptions.seed = options.seed;
    solveOptions.deadlineSeconds =
        left / static_cast<double>(open.size() - number);
    solveOptions.stop = options.stop;
    solveOptions.maxTableEntries = int64_t(1) << 23;
    solveOptions.cutoff = cutoffFor(candidate);
    SolveResult again = solve(attempt->graph->problem, solveOptions);
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

void Planner::sharpenBounds() {
  if (options.objective != Objective::Volume ||
      options.solver != SolverKind::Auto)
    return;
  double best = incumbent(), until = timeToLookBack();
  auto left = [&] { return until - elapsed(); };
  // Bounds on stages hold for all meshes and micro-batches that a Problem's
  // choices can express; each candidate has its own.
  for (Attempt &attempt : attempts) {
    const MeshCandidate &candidate = attempt.graph->candidate;
    if (candidate.stages == 1 || attempt.isImpossible ||
        candidate.devicesPerStage() == 1 ||
        attempt.solved.status == Status::Infeasible ||
        !attempt.graph->getError().empty() ||
        attempt.summary.lowerBound >= best || left() <= 0 || isStopped())
      continue;
    StageBounds closer(function, candidate, options, batch);
    closer.sharpen(*attempt.graph,
                   left() / static_cast<double>(candidate.stages));
    attempt.summary.lowerBound =
        std::max(attempt.summary.lowerBound, closer.minBytes(0));
  }
}

void Planner::report(size_t searched) const {
  if (!options.progress)
    return;
  PlanProgress progress;
  progress.searched = searched;
  progress.candidates = candidates.size();
  double best = incumbent();
  if (!std::isinf(best)) {
    progress.best = progress.lowerBound = best;
    for (const Attempt &attempt : attempts)
      if (!attempt.cannotBe())
        progress.lowerBound =
            std::min(progress.lowerBound, attempt.summary.lowerBound);
  }
  options.progress(progress);
}

void Planner::summarize(Attempt &attempt) {
  CandidateSummary &summary = attempt.summary;
  const MeshCandidate &candidate = attempt.graph->candidate;
  summary.reason.clear();
  summary.status = attempt.solved.status;
  bool isTime = options.objective == Objective::Time;
  bool bounded = options.solver != SolverKind::Random;
  double bound = bounded ? static_cast<double>(attempt.solved.lowerBound) : 0;
  summary.lowerBound = boundOf(candidate, bound);
  if (!attempt.solved.hasSolution()) {
    summary.reason = attempt.solved.status == Status::Infeasible
                         ? "nothing fits"
                     : attempt.solved.statistics.stoppedBy == "cutoff"
                         ? atLeast(options.objective, summary.lowerBound)
                         : "none found";
    return;
  }
  attempt.stages =
      cutStages(*attempt.graph, attempt.solved.solution, function, options);
  if (!attempt.stages.feasible) {
    summary.status = Status::Unknown;
    summary.reason = attempt.stages.reason;
    return;
  }
  summary.seconds = attempt.stages.stepSeconds;
  summary.bytesPerRank = attempt.stages.bytesPerRank;
  summary.totalBytes = attempt.stages.totalBytes;
  for (const PlanResult::Memory &memory : attempt.stages.memory)
    summary.peakMemoryBytes = std::max(summary.peakMemoryBytes, memory.peak);
  // Bytes are what the plan sends. Seconds of one stage: exactly what was
  // minimised; of several what the cut makes of it.
  if (!isTime)
    summary.cost = static_cast<double>(summary.bytesPerRank);
  else if (candidate.stages == 1)
    summary.cost = static_cast<double>(attempt.solved.cost()) * 1e-12;
  else
    summary.cost = summary.seconds;
}

/// What any device needs at least, as far as it was found out; 0: it was not.
int64_t Planner::minMemory() const {
  std::optional<Sum> min;
  for (const Attempt &attempt : attempts) {
    if (!attempt.graph || attempt.solved.minNeeded.empty() ||
        attempt.cannotBeCut())
      continue;
    Sum needed = attempt.solved.minFound.empty() || !attempt.solved.minFound[0]
                     ? attempt.solved.minNeeded[0]
                     : *attempt.solved.minFound[0];
    needed = (needed + attempt.graph->candidate.stages - 1) /
             attempt.graph->candidate.stages;
    if (!min || needed < *min)
      min = needed;
  }
  return min ? cost::saturate(*min) : 0;
}

PlanResult Planner::describe(const Attempt &best, StringRef candidateSet) {
  PlanResult result = describeCut(*best.graph, best.stages, function, options);
  result.cost = best.summary.cost;
  result.lowerBound = result.cost;
  // Bytes are integers.
  auto whole = [&](double bound) {
    return options.objective == Objective::Time ? bound
                                                : std::ceil(bound - 1e-3);
  };
  for (const Attempt &attempt : attempts) {
    if (attempt.solved.status != Status::Infeasible &&
        attempt.graph->getError().empty())
      result.lowerBound =
          std::min(result.lowerBound, whole(attempt.summary.lowerBound));
    result.candidates.push_back(attempt.summary);
  }
  for (const CandidateSummary &summary : unsearched) {
    result.lowerBound = std::min(result.lowerBound, whole(summary.lowerBound));
    result.candidates.push_back(summary);
  }
  llvm::sort(result.candidates, isBetter);
  result.gap =
      result.cost > 0 ? (result.cost - result.lowerBound) / result.cost : 0;
  result.candidateSet = candidateSet.str();
  result.solver = options.solver == SolverKind::Random       ? "random"
                  : options.solver == SolverKind::BruteForce ? "brute-force"
                                                             : "auto";
  return result;
}

/// The best plan of all candidates, whose reason says why it is none; null with
/// an error where the request is at fault.
const Attempt *Planner::search(PlanError &error, std::string &message) {
  if (message = checkHints(function, names, options.hints); !message.empty()) {
    error = PlanError::BadRequest;
    return nullptr;
  }
  bool canMicroBatch = batch.batchSize() > 1 && batch.breaks().empty();
  std::string whyNot;
  if (!batch.breaks().empty()) {
    const BatchAnalysis::Break &first = batch.breaks().front();
    StringRef name = first.op->getNumResults() ? names[first.op->getResult(0)]
                                               : StringRef("the end");
    whyNot =
        (name + " (" + first.op->getName().getStringRef() + ") " + first.reason)
            .str();
  }
  MeshSet set = enumerateMeshes(options, batch.batchSize(), canMicroBatch,
                                batch.isTraining(), whyNot);
  if (!set.error.empty()) {
    error = PlanError::BadRequest;
    message = set.error;
    return nullptr;
  }
  candidates = std::move(set.candidates);
  candidateSet = std::move(set.description);
  if (options.solver == SolverKind::Random && candidates.size() > 1) {
    // Any mesh, as the seed says; the next where it has no plan.
    uint64_t pick = (options.seed * 0x9E3779B97F4A7C15ull) >> 33;
    std::rotate(candidates.begin(),
                candidates.begin() +
                    static_cast<int64_t>(pick % candidates.size()),
                candidates.end());
  }
  // Stages of one device send only what they hand on: quickly known, often
  // little, and then others are cut short.
  if (options.objective == Objective::Volume &&
      options.solver == SolverKind::Auto)
    std::stable_partition(candidates.begin(), candidates.end(),
                          [](const MeshCandidate &candidate) {
                            return candidate.stages > 1 &&
                                   candidate.devicesPerStage() == 1;
                          });
  size_t numFirst = candidates.size();
  llvm::append_range(candidates, set.lastResorts);
  auto noneCanBe = [&](int64_t stages) {
    return llvm::all_of(attempts, [&](const Attempt &attempt) {
      return attempt.graph->candidate.stages != stages || attempt.cannotBe();
    });
  };
  for (const auto &[number, candidate] : llvm::enumerate(candidates)) {
    if (number >= numFirst && !noneCanBe(candidate.stages))
      continue;
    report(number);
    double left = 0;
    if (options.deadlineSeconds > 0 || isStopped()) {
      left = isStopped() ? 0 : budget() - elapsed();
      if (left <= 0 && (!attempts.empty() || isStopped())) {
        CandidateSummary summary;
        for (const dist::MeshAxis &axis : candidate.mesh.axes)
          if (!axis.isTime)
            summary.mesh.push_back({axis.name, axis.size});
        summary.microBatches = candidate.microBatches;
        summary.lowerBound = boundOf(candidate, 0);
        summary.reason = isStopped() ? "not searched: planning was ended"
                                     : "not searched: the deadline came first";
        unsearched.push_back(std::move(summary));
        continue;
      }
      // None takes what others need, too.
      auto others = static_cast<double>(candidates.size() - number);
      left = std::max(std::min(left, 2 * left / others), 0.01);
    } else if (batch.isTraining()) {
      // Three times the ops, and limits: nobody waits for minutes unasked.
      left = std::clamp(30 - elapsed(), 2.0, 10.0);
    }
    double begin = elapsed();
    attempt(candidate, left);
    if (options.deadlineSeconds > 0)
      overrun = std::max(overrun, elapsed() - begin - left);
    if (options.solver == SolverKind::Random &&
        attempts.back().summary.reason.empty())
      break;
  }
  solveAgain();
  sharpenBounds();
  report(candidates.size());
  if (attempts.empty())
    return nullptr;
  return &*llvm::min_element(attempts, [](const Attempt &a, const Attempt &b) {
    return isBetter(a.summary, b.summary);
  });
}

Trial Planner::tryOut() {
  PlanError error = PlanError::None;
  std::string message;
  const Attempt *best = search(error, message);
  if (!best)
    return isStopped() ? Trial::Unknown : Trial::None;
  if (best->summary.reason.empty())
    return Trial::Found;
  bool isProven = !isStopped() && unsearched.empty() &&
                  llvm::all_of(attempts, [](const Attempt &attempt) {
                    return attempt.cannotBe();
                  });
  return isProven ? Trial::None : Trial::Unknown;
}

FailureOr<PlanResult> Planner::run(PlanError &error, std::string &message) {
  const Attempt *best = search(error, message);
  if (isStopped() && (!best || !best->summary.reason.empty())) {
    error = PlanError::Stopped;
    message = "planning was ended before there was a plan";
    return failure();
  }
  if (!best)
    return failure();
  if (!best->summary.reason.empty()) {
    if (llvm::all_of(attempts, [](const Attempt &attempt) {
          return !attempt.graph->getError().empty();
        })) {
      error = PlanError::BadRequest;
      message = attempts[0].graph->getError();
      return failure();
    }
    std::vector<CandidateSummary> ended;
    for (const Attempt &attempt : attempts)
      ended.push_back(attempt.summary);
    Infeasibility why =
        explainInfeasible(options, minMemory(), candidateNotes(ended),
                          [&](const PlanOptions &trial) {
                            // Reasons are found in what is left of the time.
                            PlanOptions own = trial;
                            if (options.deadlineSeconds > 0) {
                              double left = options.deadlineSeconds - elapsed();
                              if (left <= 0)
                                return Trial::Unknown;
                              own.deadlineSeconds =
                                  std::min(own.deadlineSeconds, left);
                            }
                            return Planner(module, function, own).tryOut();
                          });
    error = why.error;
    message = std::move(why.message);
    return failure();
  }
  PlanResult result = describe(*best, candidateSet);
  writeBack(module, function, *best->graph, best->solved.solution,
            best->stages);
  result.planningSeconds = elapsed();
  return result;
}

FailureOr<PlanResult> kerf::plan::planModule(ModuleOp module,
                                             const PlanOptions &options,
                                             PlanError &error,
                                             std::string &message) {
  error = PlanError::None;
  auto function = module.lookupSymbol<func::FuncOp>("main");
  if (!function || !llvm::hasSingleElement(function.getBody())) {
    error = PlanError::BadRequest;
    message = "the module has no function @main of one block";
    return failure();
  }
  return Planner(module, function, options).run(error, message);
}
