//===- FirstLook.cpp - which candidates are searched ----------------------===//
//
// Problem: where there are many devices or ops, the time of a search goes into
// the costs of moves between layouts, of meshes of which most are too large for
// the memory or no better than another.
//
// Idea: what the ops of a mesh take at least, in time and memory, is known
// within a tenth of that time (Graph::minTotals), and rules most of them out.
//
//===----------------------------------------------------------------------===//
#include "Planner.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

CandidateSummary kerf::plan::summaryOf(const MeshCandidate &candidate) {
  CandidateSummary summary;
  for (const dist::MeshAxis &axis : candidate.mesh.axes)
    if (!axis.isTime)
      summary.mesh.push_back({axis.name, axis.size});
  summary.microBatches = candidate.microBatches;
  return summary;
}

/// Whether computing the costs of moves between layouts takes much longer than
/// computing the costs of ops. It does for stages of kManyDevices or more, and
/// for stages over several mesh axes, since these have many more layouts.
static bool hasManyMoves(const MeshCandidate &candidate) {
  constexpr int64_t kManyDevices = 16;
  int64_t axes = llvm::count_if(
      candidate.roles, [](AxisRole role) { return role != AxisRole::Fixed; });
  return candidate.devicesPerStage() >= kManyDevices || axes > 1;
}

bool Planner::isLongToSetUp(const MeshCandidate &candidate) {
  bool isLarge = llvm::range_size(function.getBody().front()) > kQuickNodes;
  return isLarge || hasManyMoves(candidate);
}

bool Planner::isTooLarge(const MeshCandidate &candidate, Sum bytes) {
  std::optional<int64_t> limit = memoryLimitOf(options);
  // Which hint cannot be satisfied is found out where it is applied.
  return limit && isLongToSetUp(candidate) &&
         options.solver == SolverKind::Auto && options.hints.empty() &&
         bytes > Sum(*limit) * candidate.stages;
}

bool Planner::isDismissed(const MeshCandidate &candidate, Sum minCost) {
  if (!isLongToSetUp(candidate) || isAlone ||
      options.solver != SolverKind::Auto ||
      options.objective != Objective::Time)
    return false;
  double best = incumbent();
  double bound = boundOf(candidate, static_cast<double>(minCost));
  // A plan of equal cost cannot be better than one that sends nothing.
  bool isSilent = llvm::any_of(attempts, [&](const Attempt &attempt) {
    return attempt.summary.reason.empty() && attempt.summary.cost <= best &&
           attempt.summary.totalBytes == 0;
  });
  if (std::isinf(best) || (isSilent ? bound < best : bound <= best))
    return false;
  Dismissed &noted =
      dismissed.emplace_back(Dismissed{&candidate, summaryOf(candidate)});
  noted.summary.lowerBound = bound;
  noted.summary.reason = atLeast(options.objective, bound);
  return true;
}

void Planner::reopenDismissed() {
  std::vector<Dismissed> before = std::move(dismissed);
  dismissed.clear();
  for (Dismissed &noted : before)
    if (noted.summary.lowerBound < incumbent() && !isOver())
      attempt(*noted.candidate, secondsOnceMore(batch.isTraining() ? 2 : 0));
    else
      dismissed.push_back(std::move(noted));
}

void Planner::passOver(const MeshCandidate &candidate, Sum minCost) {
  CandidateSummary &summary = unsearched.emplace_back(summaryOf(candidate));
  summary.lowerBound = boundOf(candidate, static_cast<double>(minCost));
  summary.reason = whyUnsearched(isStopped());
}

Planner::Look Planner::lookAt(const MeshCandidate &candidate) {
  Look look;
  look.graph = std::make_unique<Graph>(function, rules, candidate, options,
                                       batch, dimBlocks, names, floor, traffic,
                                       zero, ways, &spent.effort());
  if (isLongToSetUp(candidate) && options.solver == SolverKind::Auto)
    look.minTotals = look.graph->minTotals();
  return look;
}
