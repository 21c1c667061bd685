//===- Progress.cpp - how far a search is ---------------------------------===//
//
// What the user hears while a plan is searched: how many meshes were tried, of
// how many, and the best plan so far. Meshes that are tried only where others
// have no plan, or fall short of memory, count once they are. A plan that is
// predicted to take more than the limit may be laid out all the same, since
// predictions may be too high, but it is not told as the best. What is proven
// so far counts the meshes that are still to come.
//
//===----------------------------------------------------------------------===//
#include "../Planner.h"

using namespace kerf;
using namespace kerf::plan;

void Planner::report(std::optional<size_t> again) const {
  if (!options.progress)
    return;
  PlanProgress progress;
  progress.searched = attempts.size() + unsearched.size() + dismissed.size() -
                      again.value_or(0);
  auto later = tried.begin() + static_cast<std::ptrdiff_t>(numFirst);
  progress.candidates =
      numFirst + static_cast<size_t>(std::count(later, tried.end(), true));
  std::optional<int64_t> limit = memoryLimitOf(options);
  double best = costElsewhere;
  for (const Attempt &attempt : attempts)
    if (attempt.summary.reason.empty() &&
        (!limit || attempt.summary.peakMemoryBytes <= *limit))
      best = std::min(best, attempt.summary.cost);
  if (!std::isinf(best)) {
    progress.best = best;
    progress.lowerBound = std::min(best, boundElsewhere);
    for (const Attempt &attempt : attempts)
      if (!attempt.cannotBe())
        progress.lowerBound =
            std::min(progress.lowerBound, attempt.summary.lowerBound);
    for (const CandidateSummary &summary : unsearched)
      progress.lowerBound = std::min(progress.lowerBound, summary.lowerBound);
    if (!again && progress.searched < progress.candidates)
      progress.lowerBound = 0;
  }
  options.progress(progress);
}
