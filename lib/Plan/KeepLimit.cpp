//===- KeepLimit.cpp - plans that do not keep the memory limit ------------===//
//
// Problem: a candidate's Problem counts lives in program order, for it is
// linear in the choices; what is computed together and over what, and how
// buffers are packed, is known of a solution alone. So a solution that keeps
// the limit in the Problem may not keep it when it is laid out.
//
// Idea: what is laid out for the best plan decides (Planning::runWithout). If
// it is too much, its candidate alone is solved for less, by bisection; others
// that were only not searched because it was cheaper are searched; and the best
// of all is laid out next. Bounds stay those of the whole limit.
//
//===----------------------------------------------------------------------===//
#include "Planner.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// How often the limit of one candidate is moved.
static constexpr int kTries = 8;
/// Nobody waits for longer unasked.
static constexpr double kMaxSeconds = 60;

void Planner::solveWithShare(Attempt &attempt, double share, double deadline) {
  const MeshCandidate &candidate = attempt.graph->candidate;
  attempt.graph = std::make_unique<Graph>(
      function, candidate, optionsOf(attempt), batch, dimBlocks, names, share);
  attempt.isTightened = true;
  solveAndCut(attempt, deadline);
}

void Planner::solveFor(Attempt &attempt, int64_t limit, double deadline) {
  // The graph refers to the options that it was built with.
  auto limited = std::make_unique<PlanOptions>(options);
  limited->memoryLimitBytes = limit;
  std::swap(attempt.limited, limited);
  solveWithShare(attempt, 1, deadline);
  if (attempt.graph->candidate.stages > 1)
    for (double share : kStageShares)
      if (attempt.solved.hasSolution() && !attempt.stages.feasible)
        solveWithShare(attempt, share, deadline);
}

void Planner::tighten(Attempt &attempt, int64_t laidOutBytes) {
  auto limit = static_cast<double>(*memoryLimitOf(options));
  double bound = attempt.summary.lowerBound;
  attempt.tooMuch = *memoryLimitOf(optionsOf(attempt));
  // The Problem of one stage uses no more than that, so its solution is the
  // same for any limit in between.
  if (attempt.graph->candidate.stages == 1)
    attempt.tooMuch =
        std::min(attempt.tooMuch,
                 cost::saturate(attempt.solved.evaluation.peaks[0].amount));
  while (!isStopped() && attempt.tries++ < kTries &&
         attempt.tooMuch - attempt.tooLittle > 1) {
    int64_t tried =
        attempt.tooLittle + (attempt.tooMuch - attempt.tooLittle) / 2;
    if (attempt.tooLittle == 0)
      tried = static_cast<int64_t>(0.99 * static_cast<double>(attempt.tooMuch) *
                                   limit / static_cast<double>(laidOutBytes));
    double left = options.deadlineSeconds > 0
                      ? std::max(options.deadlineSeconds - elapsed(), 0.01)
                  : batch.isTraining() ? 2
                                       : 0;
    solveFor(attempt, tried, left);
    attempt.summary.lowerBound = bound;
    if (attempt.summary.reason.empty() ||
        attempt.solved.statistics.stoppedBy == "cutoff")
      return;
    attempt.tooLittle = tried;
  }
  attempt.summary.reason =
      "needs " + std::to_string(laidOutBytes) + " bytes when it is laid out";
}

void Planner::reopen() {
  for (Attempt &attempt : attempts) {
    if (attempt.solved.statistics.stoppedBy != "cutoff" ||
        attempt.summary.lowerBound >= incumbent())
      continue;
    double bound = attempt.summary.lowerBound;
    solveAndCut(attempt, batch.isTraining() ? 2 : 0);
    attempt.summary.lowerBound = std::max(bound, attempt.summary.lowerBound);
  }
}

void Planner::reject(int64_t laidOutBytes) {
  if (leastLaidOut == std::numeric_limits<int64_t>::max())
    firstRejection = std::chrono::steady_clock::now();
  leastLaidOut = std::min(leastLaidOut, laidOutBytes);
  Attempt &attempt = *written;
  // No longer what others are compared with.
  attempt.summary.reason = "does not keep the limit";
  tighten(attempt, laidOutBytes);
  reopen();
}

FailureOr<PlanResult> Planner::next(ModuleOp target, std::string &message) {
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - firstRejection;
  Attempt *found = best();
  if (found->summary.reason.empty() && seconds.count() < kMaxSeconds)
    return write(*found, target);
  message = "no plan was found that fits in memory: the least that was laid "
            "out needs " +
            std::to_string(leastLaidOut) + " bytes per device, the limit is " +
            std::to_string(*memoryLimitOf(options)) +
            candidateNotes(summaries());
  return failure();
}
