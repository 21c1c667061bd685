//===- FirstLook.cpp - which candidates are searched, and when ------------===//
//
// Problem: where there are many devices or ops, the time of a search goes into
// the costs of moves between layouts, of meshes of which most are too large for
// the memory or no better than another.
//
// Idea: what the ops of a mesh take at least, in time and memory, is known
// within a tenth of that time (Graph::leastOfOps). Meshes are opened lowest
// bound first: looked at, and searched when nothing has a lower bound.
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

/// Whether working out moves between layouts takes much longer than looking at
/// what ops cost: it does from so many devices of a stage on, and where they
/// lie on several axes, since then there are many more layouts.
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

bool Planner::isTooLarge(const MeshCandidate &candidate, Sum leastMemory) {
  std::optional<int64_t> limit = memoryLimitOf(options);
  // Which hint cannot be satisfied is found out where it is applied.
  return limit && isLongToSetUp(candidate) &&
         options.solver == SolverKind::Auto && options.hints.empty() &&
         leastMemory > Sum(*limit) * candidate.stages;
}

bool Planner::isDismissed(const MeshCandidate &candidate, Sum leastOfOps) {
  if (!isLongToSetUp(candidate) || isAlone ||
      options.solver != SolverKind::Auto ||
      options.objective != Objective::Time)
    return false;
  double best = incumbent();
  double bound = boundOf(candidate, static_cast<double>(leastOfOps));
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
      attempt(*noted.candidate, batch.isTraining() ? 2 : 0);
    else
      dismissed.push_back(std::move(noted));
}

void Planner::passOver(const MeshCandidate &candidate) {
  CandidateSummary &summary = unsearched.emplace_back(summaryOf(candidate));
  auto look = looks.find(&candidate);
  Sum least = look == looks.end() ? 0 : look->second.least->all();
  summary.lowerBound = boundOf(candidate, static_cast<double>(least));
  summary.reason = whyUnsearched(isStopped());
}

Planner::Look Planner::lookAt(const MeshCandidate &candidate) {
  Look look;
  look.graph =
      std::make_unique<Graph>(function, rules, candidate, options, batch,
                              dimBlocks, names, floor, traffic, zero, ways);
  if (isLongToSetUp(candidate) && options.solver == SolverKind::Auto)
    look.least = look.graph->leastOfOps();
  return look;
}

Planner::Look Planner::takeLook(const MeshCandidate &candidate) {
  auto known = looks.find(&candidate);
  if (known == looks.end())
    return lookAt(candidate);
  Look look = std::move(known->second);
  looks.erase(known);
  return look;
}

Planner::SearchOrder::SearchOrder(Planner &planner)
    : planner(planner), next(planner.numFirst) {
  for (size_t number = 0; number < planner.numFirst; ++number)
    open.push_back({firstKey(planner.candidates[number]), number});
}

double Planner::SearchOrder::firstKey(const MeshCandidate &candidate) const {
  return planner.opensByBound(candidate) ? planner.boundOf(candidate, 0) : -1;
}

std::optional<size_t> Planner::SearchOrder::take() {
  while (!open.empty()) {
    auto least = llvm::min_element(open);
    size_t number = least->second;
    const MeshCandidate &candidate = planner.candidates[number];
    if (planner.opensByBound(candidate) && !planner.looks.count(&candidate) &&
        !planner.isOver() && planner.incumbent() > least->first) {
      Look look = planner.lookAt(candidate);
      if (!planner.isTooLarge(candidate, look.least->memory))
        least->first =
            planner.boundOf(candidate, static_cast<double>(look.least->all()));
      planner.looks.try_emplace(&candidate, std::move(look));
      continue;
    }
    open.erase(least);
    return number;
  }
  return next < planner.candidates.size() ? std::optional(next++)
                                          : std::nullopt;
}

size_t Planner::SearchOrder::numLeft() const {
  return open.size() + planner.candidates.size() - next;
}

bool Planner::opensByBound(const MeshCandidate &candidate) {
  return isLongToSetUp(candidate) && options.solver == SolverKind::Auto &&
         options.objective == Objective::Time;
}
