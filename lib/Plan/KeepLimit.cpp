//===- KeepLimit.cpp - the cheapest plan that keeps the memory limit ------===//
//
// Problem: the memory of a plan is known exactly only once it is laid out. A
// candidate's Problem is linear in the choices and counts only what every plan
// needs (Graph::Memory): its bound is a proof, but its solution may not fit.
//
// Idea: the Problem has a second resource, the estimate, which is close to what
// is laid out without being a bound. The lower its limit is, the less memory
// the solution takes and the more it costs. Limits of the estimate are tried
// from above downwards. If no solution fits, limits of the first resource are
// tried, which lead to other solutions. All limits are taken from one grid that
// does not depend on the memory limit, so that the search for a larger limit
// also looks at the plans for smaller ones (unless the grid is bisected).
//
// The cheapest solution that is predicted to fit (StagePlan::memory) is taken.
// Whether it fits is decided when the best plan of all candidates is laid out
// (Planning::runWithout). If it takes too much, the next solution with a
// smaller prediction is taken, and candidates are searched that had been left
// out only because this plan was cheaper. Bounds stay those of the first
// solution.
//
//===----------------------------------------------------------------------===//
#include "Planner.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// How many solutions of one candidate are looked at: while a resource is
/// limited (kSlowSolutions in Problems that take long), and when they are laid
/// out (kLaidOut; of small Problems the first kCheapest are the cheapest ones).
static constexpr int kSolutions = 32, kSlowSolutions = 12, kLaidOut = 6,
                     kCheapest = 3;
/// A share of the cost: their bounds prove nothing about the candidate, so none
/// is searched for long.
static constexpr double kGap = 0.01;
/// Without a deadline each of them is searched for this long; local search,
/// where elimination is too wide, has no end of its own.
static constexpr double kSeconds = 2;
/// In large Problems a solution with a fraction f of a limited resource gives a
/// plan that takes at least about kInProportion times f of the bytes.
static constexpr double kInProportion = 0.9;
/// If a solution cannot be cut into stages, others are searched that repeat
/// less work on several devices: these parts of what was allowed.
static constexpr double kTwiceDone[] = {0.75, 0.6, 0.5, 0.4};

namespace {
/// Chooses which limits of a resource are tried, all from one grid. If solving
/// takes milliseconds, it tries every 16th limit, from the highest downwards,
/// until a solution takes as little as is asked for; then, above the first
/// limit whose solution fits, those that were passed over: every fourth, then
/// each. Otherwise it bisects the grid, which takes few tries to find a
/// solution that fits, but not always the cheapest.
class LimitScan {
public:
  /// `first`: how much of the resource a solution uses whose plan takes
  /// `excess` times the memory limit. The memory of other plans is roughly
  /// (within some tenths) in proportion to their use of the resource.
  LimitScan(double first, double excess, bool bisects) : bisects(bisects) {
    max = below(first);
    if (bisects)
      bisect(excess);
    else
      moveTo(std::min(max, below(1.3 * first / excess)));
  }
  int64_t limit() const {
    return static_cast<int64_t>(std::exp(static_cast<double>(at) * kStep));
  }
  bool isOver() const { return over || at <= 0; }
  /// A solution with `bytes` of the resource gives a plan that takes `excess`
  /// times the limit. Limits between here and `bytes` would give it again.
  void noteTooMuch(int64_t bytes, double excess) {
    int64_t next = std::min(at - 1, below(static_cast<double>(bytes)));
    if (!bisects)
      return moveTo(next);
    max = next;
    bisect(excess);
  }
  void noteFits(int64_t bytes, bool isLittle) {
    if (isCoarse() && fitting == 0) {
      fitting = at;
      above = max;
    }
    if (isCoarse() && !isLittle)
      moveTo(std::min(at - 1, below(static_cast<double>(bytes))));
    else
      turn();
  }
  /// There is no solution under this limit, nor under a lower one.
  void noteNone() { turn(); }

private:
  static constexpr double kStep = 0.0025; ///< of logarithms

  /// The largest limit of the grid that is below `bytes`.
  static int64_t below(double bytes) {
    return static_cast<int64_t>(
               std::ceil(std::log(std::max(bytes, 1.0)) / kStep)) -
           1;
  }
  bool isCoarse() const { return !bisects && stride == 16; }
  void moveTo(int64_t limit) {
    max = limit;
    at = max / stride * stride;
    if (at <= end)
      narrow();
  }
  /// Continues at limits above the first that fits, or, if none does, above the
  /// one that was tried last.
  void turn() {
    end = at;
    if (bisects)
      return bisect(1);
    if (isCoarse() && fitting > 0) {
      end = fitting;
      max = above;
    }
    narrow();
  }
  void narrow() {
    do {
      over = stride == 1;
      stride /= 4;
      at = over ? at : max / stride * stride;
    } while (!over && at <= end);
  }
  /// Goes to the middle; while no lower end is known, to the limit that is as
  /// much lower as memory must become.
  void bisect(double excess) {
    over = max <= end;
    at = end > 0 ? end + (max - end + 1) / 2
                 : max - static_cast<int64_t>(
                             std::log(std::clamp(excess, 1.0, 4.0)) / kStep);
  }

  bool bisects;
  int64_t stride = 16, at = 0;
  int64_t max = 0, end = 0;       ///< all that is to be tried is in (end, max]
  int64_t fitting = 0, above = 0; ///< the first that fits, `max` before it
  bool over = false;
};
} // namespace

bool Planner::fits(const Attempt &attempt) const {
  std::optional<int64_t> limit = memoryLimitOf(options);
  return attempt.solved.hasSolution() && attempt.stages.feasible &&
         (!limit || static_cast<double>(peakOf(attempt.stages)) <=
                        attempt.allowance * static_cast<double>(*limit));
}

/// Whether solutions of the graph are found in milliseconds, and less of a
/// resource always means less memory (a cut into stages may break that). The
/// time depends on pairs of choices of neighbours: 80,000 take a second where
/// several mesh axes give few nodes many choices each.
static bool isQuick(const Graph &graph) {
  size_t pairs = 0;
  for (const Problem::Edge &edge : graph.problem.edges)
    pairs += graph.problem.tables[edge.table].levels[0].size();
  return graph.candidate.stages == 1 && pairs <= 40'000;
}

void Planner::explore(Attempt &attempt, double target, double deadline) {
  Graph &graph = *attempt.graph;
  double begin = elapsed(), bound = attempt.summary.lowerBound;
  auto isEnough = [&] {
    return isOver() || bound > incumbent() ||
           (deadline > 0 && elapsed() - begin >= deadline);
  };
  std::vector<Sum> needed; // by the last search, if it has shown that
  auto again = [&] {
    attempt.isTightened = true;
    solveAndCut(attempt,
                deadline > 0 ? std::max(deadline - (elapsed() - begin), 0.01)
                             : kSeconds,
                kGap);
    // Proven for what was solved, which is less than the candidate.
    if (attempt.solved.status == Status::Infeasible)
      attempt.solved.status = attempt.summary.status = Status::Unknown;
    needed = std::move(attempt.solved.minNeeded);
    attempt.solved.minNeeded.clear();
    attempt.summary.lowerBound = bound;
  };
  auto note = [&] {
    int64_t predicted = peakOf(attempt.stages);
    if (attempt.stages.feasible &&
        llvm::none_of(attempt.known, [&](const Attempt::Known &other) {
          return other.solved.solution == attempt.solved.solution;
        }))
      attempt.known.push_back({attempt.solved, attempt.summary.cost, predicted,
                               attempt.stages.chunks});
  };
  if (attempt.solved.hasSolution())
    note();
  if (graph.candidate.stages > 1)
    for (double share : kTwiceDone) {
      if (isEnough() || !attempt.solved.hasSolution() ||
          attempt.stages.feasible)
        break;
      graph.limitReplicatedWork(share);
      again();
      if (attempt.solved.hasSolution())
        note();
    }
  auto limit = memoryLimitOf(options);
  if (!limit || fits(attempt))
    return;
  const Solution first =
      attempt.solved.hasSolution() ? attempt.solved.solution : attempt.cheapest;
  // By how much the prediction is over the limit; unknown without a cut.
  double excess = 1.5;
  if (attempt.stages.feasible)
    excess = static_cast<double>(peakOf(attempt.stages)) /
             (attempt.allowance * static_cast<double>(*limit));
  double allowed = attempt.allowance * static_cast<double>(*limit);
  bool quick = isQuick(graph), found = false;
  int maxTries = quick ? kSolutions : kSlowSolutions;
  for (Graph::Resource kind : {Graph::Estimate, Graph::Memory}) {
    if (found && !(looksDeeper && quick))
      break;
    Problem::Resource &resource = graph.problem.resources[kind];
    auto before = resource.limit;
    auto bytesOf = [&](const Solution &solution) {
      return cost::saturate(
          evaluate(graph.problem, solution).peaks[kind].amount);
    };
    auto firstBytes = static_cast<double>(bytesOf(first));
    // Where another plan is there to be taken, long searches must promise one.
    auto isHopeless = [&] {
      return !quick && !std::isinf(incumbent()) && needed.size() > kind &&
             kInProportion * excess * static_cast<double>(needed[kind]) >
                 firstBytes;
    };
    if (isHopeless())
      continue;
    LimitScan scan(firstBytes, excess, !quick);
    for (int tries = 0; tries < maxTries && !scan.isOver() && !isEnough();
         ++tries) {
      // The same limits are tried where it is looked at again.
      auto [place, isNew] = attempt.tried.try_emplace({kind, scan.limit()});
      if (isNew || graph.candidate.stages > 1) {
        resource.limit = scan.limit();
        again();
        if (attempt.solved.statistics.stoppedBy == "cutoff") {
          if (attempt.solved.hasSolution())
            note();
          attempt.tried.erase(place); // another time it may be of interest
          break;                      // the more so with less memory
        }
        place->second = {attempt.solved.solution, 0};
        if (attempt.solved.hasSolution()) {
          note();
          place->second.second = attempt.stages.feasible
                                     ? peakOf(attempt.stages)
                                     : std::numeric_limits<int64_t>::max();
        }
      }
      const auto &[solution, predicted] = place->second;
      if (solution.empty()) {
        if (isHopeless())
          break;
        scan.noteNone();
        continue;
      }
      auto peak = static_cast<double>(predicted);
      bool isLittle = peak <= target, fits = isLittle || peak <= allowed;
      if (fits)
        scan.noteFits(bytesOf(solution), isLittle);
      else
        scan.noteTooMuch(bytesOf(solution), peak / allowed);
      found |= fits;
    }
    resource.limit = before;
  }
}

void Planner::take(Attempt &attempt, const Attempt::Known &known) {
  double bound = attempt.summary.lowerBound;
  attempt.solved = known.solved;
  summarize(attempt, known.chunks);
  attempt.summary.lowerBound = bound;
}

void Planner::flatten(Attempt &attempt) {
  attempt.isFlat = true;
  SolveResult solved = attempt.solved;
  StagePlan stages = attempt.stages;
  CandidateSummary summary = attempt.summary;
  for (Attempt::Known &known : attempt.known) {
    take(attempt, known);
    known.cost = attempt.summary.cost;
    known.predicted = peakOf(attempt.stages);
    known.chunks = attempt.stages.chunks;
  }
  attempt.solved = std::move(solved);
  attempt.stages = std::move(stages);
  attempt.summary = std::move(summary);
}

bool Planner::takeFitting(Attempt &attempt) {
  double max = attempt.allowance * static_cast<double>(*memoryLimitOf(options));
  const Attempt::Known *best = nullptr;
  for (const Attempt::Known &known : attempt.known)
    if (!known.isRejected && static_cast<double>(known.predicted) <= max &&
        (!best || std::pair(known.cost, known.predicted) <
                      std::pair(best->cost, best->predicted)))
      best = &known;
  if (best)
    take(attempt, *best);
  return best;
}

void Planner::takeSmallest(Attempt &attempt, int64_t predicted) {
  const Attempt::Known *smallest = nullptr;
  for (const Attempt::Known &known : attempt.known)
    if (!known.isRejected && known.predicted < predicted &&
        (!smallest || known.predicted < smallest->predicted))
      smallest = &known;
  if (!smallest)
    return;
  attempt.allowance = (1 + 1e-9) * static_cast<double>(smallest->predicted) /
                      static_cast<double>(*memoryLimitOf(options));
  take(attempt, *smallest);
}

void Planner::makeFit(Attempt &attempt, double deadline) {
  if (options.solver == SolverKind::Random || !attempt.solved.hasSolution() ||
      fits(attempt))
    return;
  attempt.isShort = true;
  if (attempt.cheapest.empty())
    attempt.cheapest = attempt.solved.solution;
  std::string reason = attempt.summary.reason;
  int64_t peak = attempt.summary.peakMemoryBytes;
  auto limit = memoryLimitOf(options);
  double target = limit ? static_cast<double>(*limit) : 0;
  // Without a deadline most of what is found is found in this time; the bounds
  // are those of the candidate whatever is found.
  if (deadline <= 0)
    deadline = kSeconds;
  bool isDeep = looksDeeper && isQuick(*attempt.graph);
  explore(attempt,
          target *
              (isDeep ? std::min(attempt.allowance, 0.85) : attempt.allowance),
          deadline);
  if (!limit || takeFitting(attempt))
    return;
  if (attempt.solved.statistics.stoppedBy != "cutoff") {
    // What was laid out is no prediction.
    if (attempt.tries == 0)
      for (const Attempt::Known &known : attempt.known)
        peak = std::min(peak, known.predicted);
    StringRef end = ", and its search found nothing smaller";
    attempt.summary.reason =
        reason + (StringRef(reason).ends_with(end) ? "" : end.str());
    attempt.summary.peakMemoryBytes = peak;
  }
}

bool Planner::isWorthPostponing(const Attempt &attempt) const {
  return memoryLimitOf(options) && options.solver == SolverKind::Auto &&
         options.objective == Objective::Time && attempt.stages.feasible &&
         attempt.solved.hasSolution() && !fits(attempt) &&
         (batch.isTraining() || !isQuick(*attempt.graph));
}

/// Whether any choices use more of the resource than its limit.
static bool canExceed(const Problem::Resource &resource) {
  std::map<int64_t, Sum> changes; // of the most that is used, by instant
  for (const Problem::Usage &usage : resource.usages)
    if (!usage.live.empty()) {
      int64_t max = *llvm::max_element(usage.amounts);
      changes[usage.live.begin] += max;
      changes[usage.live.end] -= max;
    }
  Sum used = 0;
  for (auto [time, change] : changes)
    if ((used += change) > *resource.limit)
      return true;
  return false;
}

bool Planner::isLimited(Attempt &attempt, double deadline) {
  Problem &problem = attempt.graph->problem;
  if (attempt.graph->candidate.stages > 1 || !memoryLimitOf(options) ||
      !canExceed(problem.resources[Graph::Memory]))
    return false;
  if (options.solver == SolverKind::Random)
    return !attempt.summary.reason.empty();
  if (!countsEffort() && elapsed() > budget())
    return true; // there is no time to tell
  std::optional<int64_t> limit;
  std::swap(limit, problem.resources[Graph::Memory].limit);
  SolveResult free = solve(problem, solveOptionsFor(attempt, deadline));
  std::swap(limit, problem.resources[Graph::Memory].limit);
  if (free.status == Status::Infeasible ||
      free.statistics.stoppedBy == "cutoff")
    return false; // the limit is not to blame, or nobody would take it
  return !attempt.solved.hasSolution() ||
         free.lowerBound < attempt.solved.cost();
}

bool Planner::isLimitBinding() const {
  return llvm::any_of(attempts, [&](const Attempt &attempt) {
    if (!attempt.graph->getError().empty() || attempt.isImpossible)
      return false;
    if (attempt.solved.status != Status::Infeasible)
      return attempt.isShort && attempt.summary.lowerBound < incumbent();
    // With one stage isShort says whether it is memory that rules it out, and
    // not the share of the work. With several, memory may be.
    return attempt.isShort ||
           (attempt.graph->candidate.stages > 1 &&
            canExceed(attempt.graph->problem.resources[Graph::Memory]));
  });
}

int64_t Planner::predictedBytes() const { return peakOf(written->stages); }

bool Planner::hasWithin(double share) const {
  double maxBytes = share * static_cast<double>(*memoryLimitOf(options));
  return llvm::any_of(attempts, [&](const Attempt &attempt) {
    auto isWithin = [&](int64_t bytes) {
      return static_cast<double>(bytes) <= maxBytes;
    };
    return attempt.summary.reason.empty() &&
           (isWithin(peakOf(attempt.stages)) ||
            llvm::any_of(attempt.known, [&](const Attempt::Known &known) {
              return !known.isRejected && isWithin(known.predicted);
            }));
  });
}

void Planner::allowAtMost(double share) {
  for (Attempt &attempt : attempts)
    if (attempt.summary.reason.empty()) {
      attempt.allowance = std::min(attempt.allowance, share);
      if (!fits(attempt) && !takeFitting(attempt))
        attempt.summary.reason = whyTooLarge(peakOf(attempt.stages));
    }
}

Attempt *Planner::smallest() {
  Attempt *found = nullptr;
  for (Attempt &attempt : attempts)
    if (attempt.summary.reason.empty() &&
        (!found || peakOf(attempt.stages) < peakOf(found->stages)))
      found = &attempt;
  return found;
}

void Planner::reject(int64_t laidOutBytes, bool searches) {
  Attempt &attempt = *written;
  // No longer what others are compared with.
  attempt.summary.reason = kLaidOutAbove;
  attempt.summary.peakMemoryBytes = laidOutBytes;
  report();
  auto predicted = static_cast<double>(peakOf(attempt.stages));
  auto limit = static_cast<double>(*memoryLimitOf(options));
  // In small Problems the errors of predictions differ much from plan to plan,
  // and laying out takes milliseconds: the next plan is the cheapest that is
  // predicted to take less. In large Problems, and after kCheapest tries, the
  // next plan must be predicted to take less by the factor by which this
  // prediction was wrong, and by a margin that doubles with every try.
  bool small = isSmall(attempt.graph->problem);
  int doublings =
      small ? std::max(attempt.tries - kCheapest, 0) : attempt.tries;
  double less = 1 - 0.005 * static_cast<double>(int64_t(1) << doublings);
  double allowed = std::min(attempt.allowance, predicted / limit);
  attempt.allowance =
      small && attempt.tries < kCheapest
          ? (1 - 1e-9) * allowed
          : less * std::min(allowed,
                            predicted / static_cast<double>(laidOutBytes));
  auto known = llvm::find_if(attempt.known, [&](const Attempt::Known &known) {
    return known.solved.solution == attempt.solved.solution;
  });
  if (known == attempt.known.end())
    known = attempt.known.insert(known, {attempt.solved, attempt.summary.cost,
                                         peakOf(attempt.stages),
                                         attempt.stages.chunks});
  if (attempt.stages.chunks > attempt.graph->candidate.chunks.front().number)
    flatten(attempt);
  else
    known->isRejected = true;
  if (!searches) {
    takeFitting(attempt);
    return;
  }
  looksDeeper = true;
  int maxTries = small ? kCheapest + kLaidOut : kLaidOut;
  if (++attempt.tries < maxTries && !takeFitting(attempt)) {
    double bound = attempt.summary.lowerBound;
    makeFit(attempt, secondsOnceMore(batch.isTraining() ? 4 : 0));
    attempt.summary.lowerBound = bound;
    if (!fits(attempt))
      takeSmallest(attempt, static_cast<int64_t>(predicted));
  }
  reopen();
}
