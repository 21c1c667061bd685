//===- SolveDiffusion.cpp - message passing in front of elimination -------===//
//
// Passes of messages cost far less than an elimination of large width. Their
// bound is often that of the best solution: then all is proven. If not, the
// choices that are left are few enough for elimination, or for other rounds.
//
//===----------------------------------------------------------------------===//
#include "Diffusion.h"
#include "SolverState.h"

using namespace kerf::plan;

/// Messages are passed where an elimination reads more entries than this, and
/// so many times those that one pass reads.
static constexpr double kLongElimination = 1e6, kPasses = 20;
/// Limits of a round: passes, and the entries that they read (a few seconds).
static constexpr int kFirstPasses = 10, kMaxPasses = 400;
static constexpr double kMaxWork = 1e9;
/// A round ends once so many passes have gained less than this share of what is
/// between the bound and the best solution.
static constexpr int kIdlePasses = 10;
static constexpr double kLittle = 0.01;

/// One round; whether it dropped choices.
template <typename V> bool Solver<V>::diffuseOnce() {
  Diffusion<V> diffusion(model);
  double affordable = kMaxWork / std::max(diffusion.entries(), 1.0);
  int passes = static_cast<int>(std::clamp(affordable, 20.0, 1.0 * kMaxPasses));
  V boundBefore = diffusion.bound(), best = infinity<V>();
  size_t forbidden = diffusion.numDropped(), droppedBefore = forbidden;
  bool isPolished = false;
  for (int pass = 1; pass <= passes && !clock.expired(); ++pass) {
    // The first passes find a solution, even where all cost too much.
    bool isFirst = pass <= kFirstPasses;
    diffusion.pass(/*forward=*/pass % 2, isFirst ? infinity<V>() : goal());
    if (V cost = model.costOf(diffusion.decoded()); cost < best) {
      best = cost;
      takeChoices(diffusion.decoded());
    }
    lower = std::max(lower, diffusion.isEmpty()
                                ? goal()
                                : std::min(diffusion.bound(), goal()));
    if (isFirst ? lower >= upper : met())
      return true;
    if (!anyFixed && diffusion.numDropped() == forbidden)
      result.lowerBound =
          std::max(result.lowerBound, weights.primaryBound(diffusion.bound()));
    if (pass % kIdlePasses != 0)
      continue;
    V bound = diffusion.bound();
    double open = blocked(goal()) ? std::abs(static_cast<double>(bound))
                                  : static_cast<double>(goal() - bound);
    bool isIdle =
        static_cast<double>(bound - boundBefore) < kLittle * open &&
        diffusion.numDropped() < droppedBefore + droppedBefore / 10 + 1;
    boundBefore = bound;
    droppedBefore = diffusion.numDropped();
    if (!isIdle)
      continue;
    // A better solution lets more be dropped.
    V upperBefore = upper;
    if (!isPolished && result.hasSolution())
      polish();
    isPolished = true;
    if (upper == upperBefore)
      break;
  }
  if (diffusion.numDropped() == forbidden)
    return false;
  anyFixed = true;
  model.keepChoices(diffusion.kept());
  model.tidy();
  pruneDominated(model, 3);
  if (model.infeasible)
    lower = goal();
  return true;
}

template <typename V> bool Solver<V>::diffuse(const EliminationOrder &first) {
  auto isLong = [&](const EliminationOrder &order) {
    double entries = 0;
    for (const auto &factor : model.factors)
      entries += static_cast<double>(model.store[factor.table].values.size() *
                                     factor.scope.size());
    return !order.fits ||
           order.totalEntries > std::max(kLongElimination, kPasses * entries);
  };
  if (!isLong(first))
    return false;
  for (int round = 0; round < 4 && !met() && !clock.expired(); ++round) {
    auto count = [&] {
      size_t choices = 0;
      for (uint32_t node = 0; node < model.numNodes(); ++node)
        choices += model.numChoices(node) - 1;
      return choices;
    };
    size_t before = count();
    if (!diffuseOnce() || met() || count() * 10 > before * 9)
      break;
    if (!isLong(EliminationOrder::find(
            model, static_cast<double>(options.maxTableEntries))))
      break;
  }
  return true;
}

template bool Solver<int64_t>::diffuse(const EliminationOrder &);
template bool Solver<Sum>::diffuse(const EliminationOrder &);
template bool Solver<int64_t>::diffuseOnce();
template bool Solver<Sum>::diffuseOnce();
