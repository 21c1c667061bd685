//===- SolveLarge.cpp - problems of large width ---------------------------===//
//
// Bounds from an order with split nodes, then local search (LargeSearch.cpp)
// from solutions that prices, repairs and descents give.
//
//===----------------------------------------------------------------------===//
#include "SolverState.h"

using namespace kerf::plan;

//===----------------------------------------------------------------------===//
// Large width
//===----------------------------------------------------------------------===//

/// Maximises the bound over prices on an order with split nodes: cheap, and any
/// price gives a valid bound. The best prices on orders with larger tables then
/// give starts for the local search.
template <typename V> void Solver<V>::boundBySplitting(double seconds) {
  Clock own = clock.slice(seconds);
  auto seen = [&](const typename Dual<V>::Point &point) {
    if (point.blocked)
      return;
    lower = std::max(lower, point.bound);
    if (!blocked(point.cost) && point.legal)
      takeChoices(point.choices);
  };
  // Entries per round, for sixty rounds at 30 million entries a second.
  double affordable = seconds * 5e5;
  double limit = 1e3;
  EliminationOrder order = EliminationOrder::findSplitting(model, limit);
  for (double larger : {3e3, 1e4, 3e4, 1e5}) {
    EliminationOrder next = EliminationOrder::findSplitting(model, larger);
    if (next.totalEntries > affordable)
      break;
    order = std::move(next);
    limit = larger;
  }
  std::vector<Sum> best;
  {
    Dual<V> dual(model, order);
    best = dual.ascend(60, own, seen,
                       blocked(upper) ? std::nullopt : std::optional<V>(upper))
               .prices;
    result.statistics.lagrangianRounds += dual.rounds;
  }
  for (limit *= 10; limit < 2e6; limit *= 10) {
    order = EliminationOrder::findSplitting(model, limit);
    if (order.totalEntries > affordable * 20)
      return;
    Dual<V> dual(model, order);
    for (Sum factor : {4, 6, 8, 16}) { // quarters
      std::vector<Sum> prices = best;
      for (Sum &price : prices)
        price = price * factor / 4;
      dual.limitPrices(prices);
      auto point = dual.evaluate(prices);
      seen(point);
      if (!point.blocked)
        guesses.push_back(model.toOriginal(point.choices));
      if (clock.expired())
        return;
    }
  }
}

/// Solves growing regions around conflicts (forbidden entries, loads over a
/// limit), at rising prices.
template <typename V>
void Solver<V>::makeLegal(Landscape &landscape, const Clock &until) {
  Sum limit = 1;
  for (const Problem::Resource &resource : problem.resources)
    if (resource.limit)
      limit = std::max<Sum>(limit, *resource.limit);
  Evaluation evaluation = evaluate(problem, landscape.solution());
  landscape.overloadPrice =
      (std::abs(double(evaluation.cost[0])) + 1) / double(limit) / 16;
  std::vector<uint32_t> seeds = landscape.nodesInConflict();
  for (size_t size = 60; !seeds.empty() && size < 4000 && !until.expired();
       size = size * 3 / 2) {
    for (size_t i = seeds.size(); i > 1; --i)
      std::swap(seeds[i - 1], seeds[random.below(i)]);
    // Neighbours share a region, so some of the seeds are enough to reach all.
    size_t count = std::min(seeds.size(), 20 * seeds.size() / size + 20);
    for (size_t i = 0; i < count && !until.expired(); ++i)
      landscape.improve(landscape.region(seeds[i], size, 5e4, random),
                        /*soft=*/true, std::min(2.0, until.left()), moves);
    seeds = landscape.nodesInConflict();
    landscape.overloadPrice *= 2;
  }
}

/// Improves region after region until the deadline, or until `patience` regions
/// in a row gained nothing. Small regions with large tables move a dense core
/// as a whole, large regions with small tables move long chains; shapes that
/// gain more are drawn more often.
template <typename V>
void Solver<V>::descend(Landscape &landscape,
                        const std::vector<uint32_t> &seeds, int64_t patience,
                        const Clock &until) {
  for (int64_t idle = 0; idle < patience && !until.expired(); ++idle) {
    double sum = 0, max = 0;
    for (const RegionShape &shape : shapes)
      max = std::max(max, shape.score);
    auto weightOf = [&](const RegionShape &shape) {
      return std::max(shape.score, 0.05 * max) + 1e-12;
    };
    for (const RegionShape &shape : shapes)
      sum += weightOf(shape);
    double draw = random.unit() * sum;
    RegionShape *shape = shapes;
    while (shape + 1 != std::end(shapes) && draw >= weightOf(*shape))
      draw -= weightOf(*shape++);
    uint32_t seed = seeds[random.below(seeds.size())];
    double begin = until.seconds();
    double gain = landscape.improve(
        landscape.region(seed, shape->size, shape->limit, random),
        /*soft=*/false, std::min(2.0, until.left()), moves);
    double spent = std::max(until.seconds() - begin, 1e-4);
    shape->score = 0.9 * shape->score + 0.1 * gain / spent;
    if (gain > 0)
      idle = 0;
  }
}

template <typename V> SolveResult Solver<V>::runLarge() {
  if (options.deadlineSeconds <= 0)
    clock.limit(options.cutoff ? 8 : 20); // local search has no end of its own
  double seconds = clock.left();
  boundBySplitting(std::min(20.0, seconds / 5));
  if (met())
    return finishMet("bound met");
  std::vector<uint32_t> nodes;
  for (uint32_t node = 0; node < problem.nodes.size(); ++node)
    if (problem.numChoices(node) > 1)
      nodes.push_back(node);
  auto finishLarge = [&] {
    result.statistics.localSearchMoves = moves;
    return met() ? finishMet("bound met")
                 : finish(closeEnough() ? "close enough" : "deadline");
  };
  // Repair the starts, then descend from the best three for a while.
  if (result.hasSolution())
    guesses.push_back(result.solution);
  std::vector<std::pair<Sum, Solution>> starts;
  for (size_t index = 0; index <= guesses.size() && !clock.expired(); ++index) {
    bool last = index == guesses.size();
    if (last && !starts.empty())
      break;
    Clock slice = clock.slice(clock.left() / (last ? 2 : 10));
    Landscape landscape(problem, last ? minUsage(problem) : guesses[index],
                        options.effort);
    makeLegal(landscape, slice);
    take(landscape.solution());
    Evaluation evaluation = evaluate(problem, landscape.solution());
    if (evaluation.legal())
      starts.push_back({evaluation.cost[0], landscape.solution()});
  }
  llvm::sort(starts);
  if (starts.size() > 3)
    starts.resize(3);
  double part = clock.left() / 6;
  for (auto &[cost, solution] : starts) {
    if (clock.expired() || closeEnough())
      break;
    Clock slice = clock.slice(std::min(part, clock.left()));
    Landscape landscape(problem, solution, options.effort);
    descend(landscape, nodes, int64_t(nodes.size() / 10 + 20), slice);
    take(landscape.solution());
  }
  if (!result.hasSolution() || closeEnough())
    return finishLarge();
  // Perturb a region, descend around it, keep the better solution.
  Landscape landscape(problem, result.solution, options.effort);
  while (!clock.expired() && !met() && !closeEnough()) {
    descend(landscape, nodes, 20, clock);
    take(landscape.solution());
    std::vector<uint32_t> region = landscape.region(
        nodes[random.below(nodes.size())], 20 << random.below(6), 1e4, random);
    if (region.empty() || clock.expired())
      continue;
    landscape.shake(region, random, std::min(1.0, clock.left()));
    descend(landscape, region, 15, clock);
    Evaluation shaken = evaluate(problem, landscape.solution());
    if (compare(shaken.cost, result.evaluation.cost) > 0)
      landscape.moveTo(result.solution);
  }
  take(landscape.solution());
  return finishLarge();
}

template SolveResult Solver<int64_t>::runLarge();
template SolveResult Solver<Sum>::runLarge();
