//===- Planner.h - candidates, solutions, the cheapest ----------*- C++ -*-===//
//
// The search is in PlanModule.cpp, what is proven in Bounds.cpp; how a
// candidate's cheapest plan that keeps the memory limit is found in
// KeepLimit.cpp; which candidates are ruled out at the first look, in
// FirstLook.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_PLANNER_H
#define KERF_LIB_PLAN_PLANNER_H

#include "Model/MemoryFloor.h"
#include "Model/Meshes.h"
#include "Report/Infeasible.h"
#include "Solver/Stopwatch.h"
#include "Stages/StageBounds.h"
#include "Stages/Stages.h"

#include "kerf/Plan/Explain.h"

#include <cmath>

namespace kerf::plan {

/// A candidate mesh with what became of it.
struct Attempt {
  std::unique_ptr<Graph> graph;
  SolveResult solved;
  StagePlan stages;
  CandidateSummary summary;
  bool isImpossible = false; ///< too few ops, or no cut divides the work
  bool isTightened = false;  ///< solved under lower limits than its own
  /// A plan whose fullest device is predicted to hold at most this part of the
  /// limit is laid out. Above 1 at first, for predictions may be too high.
  double allowance = 1;
  /// The cheapest solution under the proven constraints alone, if others that
  /// take less memory were looked for afterwards; else empty.
  Solution cheapest;
  /// The memory limit makes its plan cost more, or leaves it no plan.
  bool isShort = false;
  /// Its cheapest plan is predicted not to keep the limit, and plans that take
  /// less have not been looked for yet.
  bool isPostponed = false;
  /// A plan with several chunks per stage was laid out and took too much
  /// memory: from then on its stages have as few chunks as they may.
  bool isFlat = false;
  /// Solutions that were looked at because the cheapest takes too much memory.
  struct Known {
    SolveResult solved;
    double cost = 0;
    int64_t predicted = 0;   ///< bytes
    int64_t chunks = 1;      ///< of each stage
    bool isRejected = false; ///< laid out, and took too much
  };
  std::vector<Known> known;
  /// By a resource and the limit that was set for it: the solution (empty:
  /// there is none) and the bytes that it is predicted to take.
  std::map<std::pair<uint32_t, int64_t>, std::pair<Solution, int64_t>> tried;
  int tries = 0; ///< solutions that were laid out and took too much

  /// There is no plan, which is proven.
  bool cannotBe() const {
    return !graph->getError().empty() || isImpossible ||
           solved.status == Status::Infeasible;
  }
};

/// Problems up to this size are solved even if another plan is known to be
/// cheaper, so that the report can say what they cost.
inline constexpr size_t kQuickNodes = 1500;

/// Whether solutions are laid out in milliseconds.
inline bool isSmall(const Problem &problem) {
  return problem.nodes.size() <= kQuickNodes;
}

/// A plan that is predicted to take at most this share of the limit keeps it
/// once it is laid out. For searches whose plan is not laid out.
inline constexpr double kSafeAllowance = 0.8;

/// Why a plan is not taken that was lowered.
inline constexpr const char *kLaidOutAbove =
    "laid out, more memory than the limit";
/// The time since planning began.
class PlanningTime {
public:
  explicit PlanningTime(Effort &effort)
      : counted(&effort), begin(effort.seconds()) {}
  /// Of what is counted.
  double effortSeconds() const { return counted->seconds() - begin; }
  double wallSeconds() const { return watch.seconds(); }
  Effort &effort() const { return *counted; }

private:
  Effort *counted;
  double begin;
  Stopwatch watch;
};

/// How long plans that keep the limit are looked for.
class FitTime {
public:
  /// While none is known for so many seconds, and at least ten. Once one is,
  /// for longer, or, with a deadline, until that.
  FitTime(double begin, double seconds, bool hasDeadline)
      : end(begin + std::max(seconds, 10.0)),
        endWithPlan(hasDeadline ? std::numeric_limits<double>::infinity()
                                : std::max(begin + 5, kEnoughSeconds)) {}
  bool isOver(double now, double bestCost) const {
    return now > (std::isinf(bestCost) ? end : endWithPlan);
  }
  /// Over without a plan.
  bool isInVain(double now, double bestCost) const {
    return std::isinf(bestCost) && now > end;
  }

private:
  /// Of planning: what is found later is seldom better (docs/Plan.md).
  static constexpr double kEnoughSeconds = 45;
  double end, endWithPlan;
};

class Planner {
public:
  /// `spent`: since planning began, from which deadlines count.
  Planner(mlir::func::FuncOp function, const PlanOptions &options,
          PlanningTime spent, OpRules rules = OpRules())
      : function(function), options(options),
        rules(rules.empty() ? OpRules(function) : std::move(rules)),
        batch(function, options.batchDims, this->rules),
        dimBlocks(function, this->rules), names(function),
        floor(function, batch.isTraining()), traffic(function),
        zero(function, options.zero),
        numOps(colocationGroupsOf(function).size()), spent(spent) {}

  /// The best plan of all candidates, whose reason says why it is none; null
  /// with an error where the request is at fault. Plans that keep the limit are
  /// still to be looked for where postponed() says so.
  Attempt *search(PlanError &error, std::string &message);
  /// The postponed candidate that is looked at next, among those that could be
  /// better than the best plan; null: none is left, or the time is over.
  Attempt *postponed();
  /// Whether `a` is looked at before `b`: lowest bound first, which rules out
  /// most; as long as there is no plan, smallest first.
  bool isSooner(const Attempt &a, const Attempt &b) const;
  size_t countPostponed() const;
  /// Looks for a plan of it that keeps the limit. `others`: how many candidates
  /// of all planners are still to be looked at after it.
  void fit(Attempt &postponed, size_t others);
  /// The same without an error: whether a plan was found that is predicted to
  /// keep the limit with something to spare, since nothing is laid out.
  Tried tryOut();
  /// The best plan so far; null where nothing was searched.
  Attempt *best();
  /// What is said of a plan; not how far it may be from the best, which other
  /// planners have a say in.
  PlanResult describe(Attempt &best);
  /// Writes a plan onto `target`, whose function is a copy of the one that is
  /// planned, or that one.
  void write(Attempt &best, mlir::ModuleOp target);
  /// See Planning; of the plan that was written last. Without `searches`
  /// another one is looked for among those that are known alone.
  void reject(int64_t laidOutBytes, bool searches = true);
  /// Of the plans that are predicted to fit, the one that takes the least
  /// memory; null if there is none.
  Attempt *smallest();
  /// What the plan that was written was predicted to take.
  int64_t predictedBytes() const;
  /// Whether a plan is predicted to take at most this share of the limit.
  bool hasWithin(double share) const;
  /// Takes of each candidate the best plan among these.
  void allowAtMost(double share);
  mlir::FailureOr<Explanation> explain(llvm::StringRef name,
                                       std::string &message);
  /// Candidates that were not searched since another was cheaper, or fitted.
  void reopen();
  /// Where nothing fits: searches more micro-batches of several stages, as long
  /// as there is time. Whether there were any.
  bool searchFurther(FitTime time);
  /// If no plan is predicted to fit: searches again, and accepts predictions
  /// that are above the limit by as much as predictions of small programs may
  /// be too high. Whether there is a plan to lay out.
  bool trustLess(FitTime time);
  /// When (elapsed()) the search ends at the latest, with a plan or without;
  /// unless `mayBeEmpty`, not before one candidate was searched.
  void mustEnd(double at, bool mayBeEmpty) {
    lastSecond = at;
    mayEndEmpty = mayBeEmpty;
  }
  /// The cheapest plan of other planners of the same step, and what all of
  /// theirs cost at least.
  void compareWith(double cost, double bound) {
    costElsewhere = cost;
    boundElsewhere = bound;
  }

  /// Whether the memory limit makes any candidate cost more, or leaves it no
  /// plan, that could be cheaper than the best.
  bool isLimitBinding() const;
  /// Whether parameters and states alone are above the limit, however they are
  /// cut: no candidate has a plan, nor has one of another kind.
  bool isOutOfReach() const;
  bool isTraining() const { return batch.isTraining(); }
  /// Whether none of the candidates can be, for what was asked is wrong.
  std::optional<std::string> wrongRequest() const;
  /// What every plan needs and what the smallest is predicted to take.
  MemoryNeeds memoryNeeds() const { return {minMemory(), smallestSeen}; }
  std::vector<CandidateSummary> summaries() const;
  /// With those that were not searched, whose reason is whyUnsearched().
  std::vector<CandidateSummary> allSummaries() const;
  bool isCutShort() const {
    return options.deadlineSeconds > 0 && !isStopped() && !unsearched.empty();
  }
  static std::string whyUnsearched(bool isStopped) {
    return isStopped ? "not searched: planning was ended"
                     : "not searched: the deadline came first";
  }
  /// What every plan of the candidates costs at least; infinity: there is none.
  double lowerBound() const;
  /// What a plan of any candidate costs at least, searched or not: for the
  /// objective time the work of all ops in equal parts for all devices, since
  /// an Nth of an op takes at least an Nth of its time (cost::computeSeconds);
  /// 0 for the objective volume.
  double dividedWork();
  /// Why the batch cannot be cut in time, in words; empty if it can.
  std::string whyNoMicroBatches() const;
  /// Where that is a norm's statistics, of which each micro-batch may have its
  /// own: the model is another one then, which is for the user to ask for.
  bool mayAskForMicroBatches() const;
  /// Whether more micro-batches than option micro-batches asks for are
  /// possible.
  bool hasMoreMicroBatches() const {
    return options.microBatches && batch.breaks().empty() &&
           batch.batchSize() > *options.microBatches;
  }
  /// The candidates in words, behind their number.
  llvm::StringRef candidateSetText() const { return candidateSet; }
  Trial verdict(const Attempt *best) const;
  /// Seconds since planning began: of the clock where somebody waits for a
  /// deadline, else counted, so that the plan is the same on every machine.
  double elapsed() const {
    return countsEffort() ? spent.effortSeconds() : spent.wallSeconds();
  }
  bool countsEffort() const {
    return options.deadlineSeconds <= 0 || options.deadlineIsOfEffort;
  }
  /// Of what is solved; null: its seconds are of the clock.
  Effort *countedEffort() const {
    return countsEffort() ? &spent.effort() : nullptr;
  }
  bool isStopped() const { return options.stop && *options.stop; }
  /// The cheapest plan so far, of this or another planner; infinity without.
  double incumbent() const {
    double best = std::numeric_limits<double>::infinity();
    if (isAlone)
      return best;
    best = costElsewhere;
    for (const Attempt &attempt : attempts)
      if (attempt.summary.reason.empty())
        best = std::min(best, attempt.summary.cost);
    return best;
  }

private:
  void attempt(const MeshCandidate &candidate, double deadline);
  /// A candidate whose moves are not worked out yet, and the lower bounds for
  /// its ops, if they were asked for.
  struct Look {
    std::unique_ptr<Graph> graph;
    std::optional<MinTotals> minTotals;
  };
  Look lookAt(const MeshCandidate &candidate);
  /// Notes a candidate that is not searched, and why.
  void passOver(const MeshCandidate &candidate, Sum minCost = 0);
  /// Whether working out the moves of a candidate takes so long that what its
  /// ops take at least is looked at first.
  bool isLongToSetUp(const MeshCandidate &candidate);
  /// Whether so many bytes, of all stages together, are more than the limit.
  bool isTooLarge(const MeshCandidate &candidate, Sum bytes);
  /// Whether ops that cost at least so much, of the first level of the
  /// candidate's Problem, rule out that it is better than the best plan.
  bool isDismissed(const MeshCandidate &candidate, Sum minCost);
  /// Why a plan is not taken that is predicted to take so many bytes.
  const char *whyTooLarge(int64_t bytes) const {
    std::optional<int64_t> limit = memoryLimitOf(options);
    return limit && bytes <= *limit
               ? "predicted to fit, by less than what plans took beyond their "
                 "predictions when they were laid out"
               : "predicted to need more memory than the limit";
  }
  /// Whether to look for plans that keep the limit only after all candidates
  /// were searched: it takes long, and much less once another plan is known.
  bool isWorthPostponing(const Attempt &attempt) const;
  /// Looks for all of them.
  void fitPostponed();
  /// Searches what was dismissed for a plan that turned out to be none.
  void reopenDismissed();
  /// Whether the time is over, and there is a plan to show or the last second
  /// has come.
  bool isOver() const {
    if (isStopped() || options.deadlineSeconds <= 0)
      return isStopped();
    double now = elapsed();
    if (!std::isinf(incumbent()))
      return now > 0.95 * options.deadlineSeconds;
    return now > lastSecond && (mayEndEmpty || !attempts.empty());
  }
  /// Whether a plan was found that may keep the limit.
  bool fits(const Attempt &attempt) const;
  /// If what was found does not fit: looks for the cheapest that does. The
  /// bound stays.
  void makeFit(Attempt &attempt, double deadline);
  /// Adds to the solutions that are known of a candidate, until one is
  /// predicted to take at most `target` bytes.
  void explore(Attempt &attempt, double target, double deadline);
  /// Takes the cheapest of them that is predicted to fit, if one is.
  bool takeFitting(Attempt &attempt);
  /// Takes the known solution with the lowest predicted bytes, if these are
  /// below `predicted`, the prediction for a solution that was laid out.
  void takeSmallest(Attempt &attempt, int64_t predicted);
  void take(Attempt &attempt, const Attempt::Known &known);
  /// Cuts what is known of a candidate into stages of no more chunks than they
  /// must have.
  void flatten(Attempt &attempt);
  /// Whether the limit rules out what is cheapest without it.
  bool isLimited(Attempt &attempt, double deadline);
  bool isShortOfMemory(const MeshCandidate &candidate) const;
  bool isWanted(size_t number) const;
  /// `gap`: a share of the cost at which a solution is good enough.
  void solveAndCut(Attempt &attempt, double deadline, double gap = 0);
  /// `chunks`: of each stage; nothing: whichever number is best.
  void summarize(Attempt &attempt,
                 std::optional<int64_t> chunks = std::nullopt);
  /// Lower bounds for the ops if one device does all of the work; computed
  /// once.
  const MinTotals &wholeWork();
  /// So many picoseconds of work, in seconds, in equal parts for so many
  /// devices.
  double divided(double picoseconds, int64_t devices, int64_t microBatches);
  /// What the work alone lets a step of the candidate take at least.
  double workBound(const MeshCandidate &candidate);
  /// The bound on a candidate that follows from what its Problem costs, if it
  /// was solved, and from the work that has to be done.
  double boundOf(const MeshCandidate &candidate, double problemCost);
  /// With the cutoff of the candidate.
  SolveOptions solveOptionsFor(const Attempt &attempt, double deadline);
  /// What a Problem must cost less than to be of interest.
  std::optional<Sum> cutoffFor(const MeshCandidate &candidate);
  /// What any cut into stages must send; the same for like meshes.
  StageBounds &stageBounds(const MeshCandidate &candidate);
  /// Candidates whose time was over are solved again: now that another plan is
  /// known, much less has to be searched.
  void solveAgain();
  /// Bounds below the best plan's cost are looked at once more, closer.
  void sharpenBounds();
  /// Seconds of the deadline that are for searching: writing the result is not
  /// cut short, nor is setting up a candidate while there is no plan.
  double budget() const { return 0.95 * options.deadlineSeconds - overrun; }
  /// Without a deadline: the seconds that a candidate gets; 0: no limit.
  double secondsOfCandidate() const {
    return batch.isTraining() ? std::clamp(30 - elapsed(), 2.0, 10.0) : 0;
  }
  /// How long a candidate is looked at once more: `seconds` (0: without an
  /// end), with a deadline at most half of what is left. The rest is for other
  /// candidates, of which one may fit at once.
  double secondsOnceMore(double seconds) const {
    if (options.deadlineSeconds <= 0)
      return seconds;
    double left = std::max((budget() - elapsed()) / 2, 0.01);
    return seconds > 0 ? std::min(seconds, left) : left;
  }
  /// The time at which second looks at candidates must end.
  double timeToLookBack() const {
    return options.deadlineSeconds > 0 ? budget()
                                       : std::max(30.0, elapsed() + 10);
  }
  /// Progress; `again`: how many candidates are to be looked at once more.
  void report(std::optional<size_t> again = std::nullopt) const;
  bool isFarAbove(const Attempt &attempt) const;
  int64_t minMemory() const;
  /// What the fullest device of any plan holds of parameters and states.
  int64_t minHeldPerDevice() const {
    return llvm::divideCeil(floor.minHeldBytes(), options.devices);
  }
  /// The best plan of a candidate with one choice of a node of its Problem
  /// (Report/Explain.cpp). `seconds`: as the deadline of an attempt.
  void force(Attempt &found, uint32_t node, uint32_t choice, double seconds,
             ExplainedChoice &result);

  mlir::func::FuncOp function;
  const PlanOptions &options;
  OpRules rules;
  BatchAnalysis batch;
  DimBlocks dimBlocks;
  ValueNames names;
  MemoryFloor floor;
  Traffic traffic;
  dist::ReshardWays ways; ///< of all candidates
  ZeroParts zero;
  size_t numOps; ///< groups of ops that one stage computes
  PlanningTime spent;
  std::vector<MeshCandidate> candidates; ///< graphs refer to them
  std::vector<bool> tried;               ///< per candidate
  /// Behind these come more micro-batches of one stage, then of several.
  size_t numFirst = 0, numBeforeFurther = 0;
  int64_t maxMicroBatches = 1; ///< of the candidates
  std::string candidateSet;    ///< in words, behind their number
  /// The deadline came before these.
  std::vector<CandidateSummary> unsearched;
  /// Another plan costs no more than what these compute.
  struct Dismissed {
    const MeshCandidate *candidate;
    CandidateSummary summary;
  };
  std::vector<Dismissed> dismissed;
  /// By stages and devices of a stage.
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<StageBounds>> bounds;
  std::vector<Attempt> attempts;
  SmallestPlan smallestSeen;
  /// Of the limit: what a plan that is not laid out may be predicted to take.
  double allowance = 1.05;
  /// Laid out, a plan took more than was predicted, or nothing is predicted to
  /// fit: of small candidates more solutions are looked at than one that fits.
  bool looksDeeper = false;
  bool looksFurther = false;          ///< see searchFurther()
  std::optional<MinTotals> knownWork; ///< see wholeWork(), in picoseconds
  double overrun = 0; ///< the maximum that a candidate took beyond its time
  Attempt *written = nullptr; ///< the one of which a plan was given last
  /// See mustEnd().
  double lastSecond = std::numeric_limits<double>::infinity();
  bool mayEndEmpty = false;
  double costElsewhere = std::numeric_limits<double>::infinity();
  double boundElsewhere = std::numeric_limits<double>::infinity();
  /// What is searched has a cost of its own to find, whatever others cost.
  bool isAlone = false;
  mlir::Value explained; ///< whose op explain() is about
};

/// What is known of a candidate before it is searched.
CandidateSummary summaryOf(const MeshCandidate &candidate);

/// Cheaper first; ties by bytes, then time, then order.
bool isBetter(const CandidateSummary &a, const CandidateSummary &b);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_PLANNER_H
