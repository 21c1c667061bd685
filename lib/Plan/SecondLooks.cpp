//===- SecondLooks.cpp - candidates that are looked at again --------------===//
//
// Looking for a candidate's plans that keep the memory limit (KeepLimit.cpp)
// may take long. Then it is postponed until all candidates have a first
// solution: each plan that is found rules out most of the postponed candidates.
// Candidates are also looked at again when a plan that is laid out takes too
// much memory, and when no plan is predicted to fit.
//
//===----------------------------------------------------------------------===//
#include "Planner.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// Without a deadline: how long a postponed candidate of a training step is
/// looked at. Few are left that no other plan rules out.
static constexpr double kFitSeconds = 5, kFitSecondsOfSmall = 2;
/// A plan of several stages that keeps the limit costs at least this part of
/// the plan that was found for the candidate without a limit.
static constexpr double kCutCheaper = 0.95;
/// A candidate is not looked at again if its smallest plan takes more than this
/// factor times the bytes that may be trusted to fit.
static constexpr double kFarAbove = 1.5;

Attempt *Planner::postponed() {
  Attempt *first = nullptr;
  for (Attempt &attempt : attempts)
    if (attempt.isPostponed && attempt.summary.lowerBound < incumbent() &&
        (attempt.graph->candidate.stages == 1 ||
         kCutCheaper * attempt.summary.cost < incumbent()) &&
        (!first || isSooner(attempt, *first)))
      first = &attempt;
  return isOver() ? nullptr : first;
}

bool Planner::isSooner(const Attempt &a, const Attempt &b) const {
  if (std::isinf(incumbent()))
    return peakOf(a.stages) < peakOf(b.stages);
  return a.summary.lowerBound < b.summary.lowerBound;
}

void Planner::fit(Attempt &postponed, size_t others) {
  double left = !batch.isTraining()                 ? 0
                : isSmall(postponed.graph->problem) ? kFitSecondsOfSmall
                                                    : kFitSeconds;
  if (options.deadlineSeconds > 0) {
    left = budget() - elapsed();
    left = std::max(std::min(left, 2 * left / static_cast<double>(others + 1)),
                    0.01);
  }
  report(countPostponed());
  postponed.isPostponed = false;
  makeFit(postponed, left);
}

void Planner::fitPostponed() {
  FitTime time(elapsed(), 0, options.deadlineSeconds > 0);
  while (!time.isOver(elapsed(), incumbent())) {
    Attempt *next = postponed();
    if (!next)
      return;
    fit(*next, countPostponed() - 1);
  }
}

void Planner::reopen() {
  FitTime time(elapsed(), 0, options.deadlineSeconds > 0);
  for (Attempt &attempt : attempts) {
    if (attempt.solved.statistics.stoppedBy != "cutoff" ||
        attempt.summary.lowerBound >= incumbent() ||
        time.isOver(elapsed(), incumbent()))
      continue;
    double bound = attempt.summary.lowerBound;
    double deadline = secondsOnceMore(batch.isTraining() ? 2 : 0);
    // The bound is to be the whole candidate's.
    attempt.graph->limitReplicatedWork(1);
    solveAndCut(attempt, deadline);
    makeFit(attempt, deadline);
    attempt.isShort = attempt.isShort || isLimited(attempt, deadline);
    attempt.summary.lowerBound = std::max(bound, attempt.summary.lowerBound);
  }
  reopenDismissed();
  for (size_t number = 0; number < candidates.size(); ++number)
    if (!tried[number] && !isOver() && isWanted(number)) {
      tried[number] = true;
      report();
      attempt(candidates[number], secondsOnceMore(batch.isTraining() ? 2 : 0));
    }
  fitPostponed();
}

bool Planner::searchFurther(FitTime time) {
  if (looksFurther || options.solver != SolverKind::Auto)
    return false;
  looksFurther = true;
  bool isAny = false;
  for (size_t number = numBeforeFurther; number < candidates.size(); ++number) {
    isAny = tried[number] = true;
    double left = batch.isTraining() ? 2 : 0;
    if (options.deadlineSeconds > 0) {
      left = budget() - elapsed();
      if (left > 0)
        left = std::max(
            2 * left / static_cast<double>(candidates.size() - number), 0.01);
    }
    bool isLate = options.deadlineSeconds > 0
                      ? left <= 0
                      : time.isOver(elapsed(), incumbent());
    if (isStopped() || isLate) {
      passOver(candidates[number]);
      continue;
    }
    report();
    attempt(candidates[number], left);
  }
  return isAny;
}

/// By how much predictions may be too high (docs/Plan.md, Memory): the smaller
/// a program is, the more single buffers weigh whose places are not known.
static double maxOverestimate(int64_t bytes) {
  return bytes < (int64_t(1) << 20) ? 1.4 : bytes < 10'000'000 ? 1.15 : 1.05;
}

bool Planner::isFarAbove(const Attempt &attempt) const {
  double threshold = kFarAbove * attempt.allowance *
                     static_cast<double>(*memoryLimitOf(options));
  return !attempt.known.empty() &&
         llvm::all_of(attempt.known, [&](const Attempt::Known &known) {
           return static_cast<double>(known.predicted) > threshold;
         });
}

bool Planner::trustLess(FitTime time) {
  std::optional<int64_t> limit = memoryLimitOf(options);
  if (!limit || options.solver == SolverKind::Random || isOver() ||
      maxOverestimate(*limit) <= allowance)
    return false;
  allowance = maxOverestimate(*limit);
  looksDeeper = true;
  reopenDismissed();
  for (auto [number, attempt] : llvm::enumerate(attempts)) {
    if (attempt.cannotBe())
      continue;
    attempt.allowance = allowance;
    if (takeFitting(attempt) || isFarAbove(attempt) ||
        time.isOver(elapsed(), incumbent()))
      continue;
    report(attempts.size() - number);
    double bound = attempt.summary.lowerBound;
    double deadline = secondsOnceMore(batch.isTraining() ? 2 : 0);
    attempt.isPostponed = false;
    attempt.graph->limitReplicatedWork(1);
    solveAndCut(attempt, deadline);
    makeFit(attempt, deadline);
    attempt.summary.lowerBound = std::max(bound, attempt.summary.lowerBound);
  }
  report();
  Attempt *found = best();
  return found && found->summary.reason.empty();
}
