//===- Planner.h - candidates, solutions, the cheapest ----------*- C++ -*-===//
//
// The search is in PlanModule.cpp, what becomes of plans that do not keep the
// memory limit in KeepLimit.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_PLANNER_H
#define KERF_LIB_PLAN_PLANNER_H

#include "Model/Meshes.h"
#include "Report/Infeasible.h"
#include "Stages/StageBounds.h"
#include "Stages/Stages.h"

#include <chrono>

namespace kerf::plan {

/// What of the memory of all stages together is tried where stages of unequal
/// weight do not fit.
inline constexpr double kStageShares[] = {0.75, 0.6, 0.5, 0.4};

/// A candidate mesh with what became of it.
struct Attempt {
  std::unique_ptr<Graph> graph;
  SolveResult solved;
  StagePlan stages;
  CandidateSummary summary;
  bool isImpossible = false; ///< too few ops, or no cut divides the work
  bool isTightened = false;  ///< what was solved is less than the candidate
  /// With the memory limit for which it was solved last, if that is lower.
  std::unique_ptr<PlanOptions> limited;
  /// Limits for which its plan needed more when it was laid out, and for which
  /// there was none; 0: not tried.
  int64_t tooMuch = 0, tooLittle = 0;
  int tries = 0; ///< of lower limits

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
  Planner(mlir::ModuleOp module, mlir::func::FuncOp function,
          const PlanOptions &options)
      : module(module), function(function), options(options),
        batch(function, options.batchDims), dimBlocks(function),
        names(function), numOps(unitsOf(function).size()),
        start(std::chrono::steady_clock::now()) {}

  /// The best plan, written onto `target`, whose function is a copy of the one
  /// that is planned, or that one.
  mlir::FailureOr<PlanResult> run(mlir::ModuleOp target, PlanError &error,
                                  std::string &message);
  /// See Planning.
  void reject(int64_t laidOutBytes);
  mlir::FailureOr<PlanResult> next(mlir::ModuleOp target, std::string &message);
  /// The same, and nothing is written.
  Trial tryOut();

private:
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  }
  void attempt(const MeshCandidate &candidate, double deadline);
  /// Notes a candidate that is not searched, and why.
  void passOver(const MeshCandidate &candidate);
  /// Whether the time is over, and there is a plan to show.
  bool isOver() const {
    return isStopped() || (options.deadlineSeconds > 0 &&
                           elapsed() > 0.95 * options.deadlineSeconds &&
                           !std::isinf(incumbent()));
  }
  /// Solves a candidate anew, with so much of its memory limit for its Problem
  /// (Graph).
  void solveWithShare(Attempt &attempt, double share, double deadline);
  /// Solves a candidate for a lower limit; stages also for shares of it.
  void solveFor(Attempt &attempt, int64_t limit, double deadline);
  const PlanOptions &optionsOf(const Attempt &attempt) const {
    return attempt.limited ? *attempt.limited : options;
  }
  /// Looks for a plan that needs less than the last, for which so much was laid
  /// out.
  void tighten(Attempt &attempt, int64_t laidOutBytes);
  /// Candidates that were not searched since another was cheaper.
  void reopen();
  mlir::FailureOr<PlanResult> write(Attempt &best, mlir::ModuleOp target);
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
  /// Seconds of the deadline that are for searching: writing the result is not
  /// cut short, nor is setting up a candidate while there is no plan.
  double budget() const { return 0.95 * options.deadlineSeconds - overrun; }
  /// The time at which second looks at candidates must end.
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
  PlanResult describe(const Attempt &best, llvm::StringRef candidateSet);
  int64_t minMemory() const;
  std::vector<CandidateSummary> summaries() const;
  Attempt *best();
  Attempt *search(PlanError &error, std::string &message);

  mlir::ModuleOp module;
  mlir::func::FuncOp function;
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
  Attempt *written = nullptr; ///< the one of which a plan was given last
  int64_t leastLaidOut = std::numeric_limits<int64_t>::max();
  std::chrono::steady_clock::time_point firstRejection;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_PLANNER_H
