//===- SolveDiffusion.cpp - message passing in front of elimination -------===//
//
// Passes of messages cost far less than an elimination of large width. Their
// bound is often that of the best solution: then all is proven. If not, the
// choices that are left are few enough for elimination, or for other rounds.
//
//===----------------------------------------------------------------------===//
#include "Diffusion.h"
#include "SolverState.h"

#include <cmath>
#include <map>

using namespace kerf::plan;

/// Messages are passed where an elimination reads more than kLongElimination
/// entries, and more than kPasses times those that one pass reads.
static constexpr double kLongElimination = 1e6, kPasses = 20;
/// The factor instead of kPasses where there are limits, since finding their
/// prices takes many eliminations.
static constexpr double kPassesUnderLimits = 2;
/// Limits of a round: passes, and the entries that they read (a few seconds).
static constexpr int kFirstPasses = 10, kMaxPasses = 400;
static constexpr double kMaxWork = 1e9;
/// Steps of prices, and how many may gain nothing before they are halved.
static constexpr int kFirstSteps = 60, kMaxSteps = 200, kIdleSteps = 8;
/// A round ends once kIdlePasses passes have together closed less than the
/// share kLittle of the gap between the bound and the best solution.
static constexpr int kIdlePasses = 10;
static constexpr double kLittle = 0.01;
/// Of the time that is left, for prices and for passes.
static constexpr double kShare = 0.25;

/// Where limits bind: passes and steps of prices in turn. The solution that a
/// pass would take says which limits it breaks, and by how much; that is about
/// the direction in which the bound rises.
template <typename V>
void Solver<V>::raisePrices(Diffusion<V> &diffusion, size_t forbidden) {
  Clock own = clock.slice(clock.left() * kShare);
  double affordable = kMaxWork / std::max(2 * diffusion.entries(), 1.0);
  int steps = static_cast<int>(std::clamp(affordable, 20.0, 1.0 * kMaxSteps));
  std::vector<Sum> now(model.rows.size(), 0), best = now;
  std::optional<V> maxBound;
  double factor = 1;
  double unit = std::ldexp(1.0, static_cast<int>(priceShift<V>()));
  int idle = 0;
  for (int step = 0; step < steps && !own.expired(); ++step) {
    // The first steps look for a solution, even where all cost too much: when
    // others turn out to need more memory, it may be the one that is taken.
    bool isFirst = step < kFirstSteps;
    V cutoff = isFirst ? upper : goal();
    diffusion.pass(/*forward=*/true, cutoff);
    diffusion.pass(/*forward=*/false, cutoff);
    V bound = diffusion.bound();
    lower =
        std::max(lower, diffusion.isEmpty() ? goal() : std::min(bound, goal()));
    if (diffusion.isEmpty() || (isFirst ? lower >= upper : met()))
      return;
    if (!anyFixed && diffusion.numDropped() == forbidden)
      result.lowerBound =
          std::max(result.lowerBound, weights.primaryBound(bound));
    std::vector<Sum> load = model.loadOf(diffusion.decoded());
    double norm = 0;
    bool isLegal = true;
    for (size_t row = 0; row < load.size(); ++row) {
      Sum over = load[row] - model.rows[row].limit;
      isLegal &= over <= 0;
      if (over > 0 || now[row] > 0)
        norm += static_cast<double>(over) * static_cast<double>(over);
    }
    if (isLegal)
      takeChoices(diffusion.decoded());
    // At no prices the passes are given time to settle.
    if (step < kFirstPasses)
      continue;
    if (!maxBound || bound > *maxBound) {
      maxBound = bound;
      best = now;
      idle = 0;
    } else if (++idle >= kIdleSteps) {
      factor /= 2;
      idle = 0;
      now = best;
      diffusion.setPrices(now);
      if (factor < kLittle)
        break;
      continue;
    }
    if (norm == 0)
      break;
    auto at = static_cast<double>(bound);
    double target = blocked(cutoff) ? at + 0.05 * std::abs(at) + 1
                                    : static_cast<double>(cutoff);
    double size = factor * std::max(target - at, 1.0) / norm * unit;
    for (size_t row = 0; row < load.size(); ++row) {
      double next =
          static_cast<double>(now[row]) +
          size * static_cast<double>(load[row] - model.rows[row].limit);
      now[row] = next > 0 ? static_cast<Sum>(next) : 0;
    }
    limitPrices(model, now);
    diffusion.setPrices(now);
  }
  diffusion.setPrices(best);
}

/// One round; whether it dropped choices.
template <typename V> bool Solver<V>::diffuseOnce() {
  Diffusion<V> diffusion(model);
  Clock own = clock.slice(clock.left() * kShare);
  double affordable = kMaxWork / std::max(diffusion.entries(), 1.0);
  int passes = static_cast<int>(std::clamp(affordable, 20.0, 1.0 * kMaxPasses));
  V boundBefore = diffusion.bound(), best = infinity<V>();
  size_t forbidden = diffusion.numDropped(), droppedBefore = forbidden;
  bool isPolished = false;
  if (!model.rows.empty()) {
    raisePrices(diffusion, forbidden);
    // Nothing is below the cutoff: what was found shall not be far off.
    if (met() && result.hasSolution() && cutoff() < upper)
      polish(own);
    if (met())
      return true;
    boundBefore = diffusion.bound();
  }
  for (int pass = 1; pass <= passes && !own.expired(); ++pass) {
    // The first passes find a solution, even where all cost too much.
    bool isFirst = pass <= kFirstPasses;
    diffusion.pass(/*forward=*/pass % 2, isFirst ? infinity<V>() : goal());
    if (V cost = model.costOf(diffusion.decoded());
        cost < best || !model.rows.empty()) {
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
      polish(own);
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

/// Entries that an elimination reads where it does like steps once, as far as
/// that shows without running it.
template <typename V>
static double distinctEntries(const Model<V> &model,
                              const EliminationOrder &order) {
  double entries = 0;
  // Steps of one number have equal messages.
  std::map<std::vector<uint32_t>, uint32_t> known;
  std::vector<uint32_t> numbers;
  for (const EliminationStep &step : order.steps) {
    std::vector<uint32_t> key = {model.unary[step.node],
                                 static_cast<uint32_t>(step.scope.size())};
    for (const EliminationStep::Input &input : step.inputs) {
      key.push_back(input.isMessage);
      key.push_back(input.isMessage ? numbers[input.index]
                                    : model.factors[input.index].table);
      key.insert(key.end(), input.positions.begin(), input.positions.end());
    }
    auto [it, isNew] = known.try_emplace(std::move(key), known.size());
    numbers.push_back(it->second);
    if (!isNew)
      continue;
    double own = model.numChoices(step.node);
    for (uint32_t other : step.scope)
      own *= model.numChoices(other);
    entries += own;
  }
  return entries;
}

template <typename V> bool Solver<V>::diffuse(const EliminationOrder &first) {
  auto isLong = [&](const EliminationOrder &order) {
    double entries = 0;
    for (const auto &factor : model.factors)
      entries += static_cast<double>(model.store[factor.table].values.size() *
                                     factor.scope.size());
    double passes = model.rows.empty() ? kPasses : kPassesUnderLimits;
    return !order.fits || (order.totalEntries > kLongElimination &&
                           distinctEntries(model, order) >
                               std::max(kLongElimination, passes * entries));
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
    EliminationOrder order = EliminationOrder::find(
        model, static_cast<double>(options.maxTableEntries));
    if (!isLong(order))
      break;
  }
  return true;
}

template bool Solver<int64_t>::diffuse(const EliminationOrder &);
template bool Solver<Sum>::diffuse(const EliminationOrder &);
template void Solver<int64_t>::raisePrices(Diffusion<int64_t> &, size_t);
template void Solver<Sum>::raisePrices(Diffusion<Sum> &, size_t);
template bool Solver<int64_t>::diffuseOnce();
template bool Solver<Sum>::diffuseOnce();
