//===- Solve.cpp - the order in which the parts are tried -----------------===//
//
// Small width: elimination; then prices, reduced-cost fixing and labels until
// bound and solution meet. Large width: LargeSearch.cpp. Every returned
// solution has been evaluated on the original problem.
//
//===----------------------------------------------------------------------===//

#include "SolverState.h"

using namespace kerf::plan;

//===----------------------------------------------------------------------===//
// eliminate
//===----------------------------------------------------------------------===//

template <typename V>
static SolveResult eliminateOn(const Problem &problem,
                               const LevelWeights &weights,
                               const SolveOptions &options, Solution *relaxed) {
  Clock clock(options);
  SolveResult result = emptyResult(problem);
  Statistics &statistics = result.statistics;
  auto finish = [&](llvm::StringRef why) {
    statistics.stoppedBy = why.str();
    statistics.seconds = clock.wallSeconds();
    return result;
  };
  Model<V> model(problem, weights, options.effort);
  // Without limits, a larger usage is no reason to keep a choice.
  model.dropRows();
  pruneDominated(model, 4);
  noteModel(model, statistics);
  if (model.infeasible) {
    result.status = Status::Infeasible;
    return finish("no choice left");
  }
  EliminationOrder order = EliminationOrder::find(
      model, static_cast<double>(options.maxTableEntries));
  statistics.maxTableEntries = order.maxTableEntries;
  statistics.inducedWidth = order.width;
  if (!order.fits)
    return finish("table too large");
  Elimination<V> elimination(model, order);
  V cost = elimination.run(model.unary);
  statistics.eliminations = elimination.computed;
  statistics.eliminationsReused = elimination.reused;
  if (blocked(cost)) {
    result.status = Status::Infeasible;
    return finish("elimination");
  }
  Solution solution = model.toOriginal(elimination.backtrack());
  result.lowerBound = weights.primaryBound(cost);
  if (relaxed)
    *relaxed = solution;
  if (offer(problem, result, solution))
    result.status = Status::Optimal;
  return finish("elimination");
}

SolveResult kerf::plan::eliminate(const Problem &problem,
                                  const SolveOptions &options,
                                  Solution *relaxed) {
  LevelWeights weights = LevelWeights::of(problem);
  return weights.fits64()
             ? eliminateOn<int64_t>(problem, weights, options, relaxed)
             : eliminateOn<Sum>(problem, weights, options, relaxed);
}

//===----------------------------------------------------------------------===//
// solve
//===----------------------------------------------------------------------===//

/// Label search is skipped if messages have more entries than this in all.
static constexpr double kMaxLabelEntries = 2e5;

/// Limits on entries of messages: of one search for prices (a few seconds), and
/// of all branches together.
static constexpr double kPriceWork = 3e8, kBranchWork = 1e9;

/// How many rounds of prices fit into kPriceWork.
static int affordableRounds(const EliminationOrder &order, int max) {
  double rounds = kPriceWork / std::max(order.totalEntries, 1.0);
  return static_cast<int>(
      std::clamp(rounds, std::min(10.0, double(max)), double(max)));
}

template <typename V> void Solver<V>::take(const Solution &solution) {
  model.count(WorkPiece::Visit,
              static_cast<double>(problem.nodes.size() + problem.edges.size()));
  if (!offer(problem, result, solution))
    return;
  Sum combined = 0;
  for (uint32_t node = 0; node < problem.nodes.size(); ++node)
    combined += weights.combine(problem.nodes[node].costs, solution[node]);
  for (const Problem::Edge &edge : problem.edges) {
    size_t entry = 0;
    for (uint32_t node : edge.nodes)
      entry = entry * problem.numChoices(node) + solution[node];
    combined += weights.combine(problem.tables[edge.table], entry);
  }
  upper = std::min<V>(upper, static_cast<V>(combined));
}

template <typename V> SolveResult Solver<V>::finish(llvm::StringRef why) {
  result.statistics.stoppedBy = why.str();
  result.statistics.seconds = clock.wallSeconds();
  if (result.hasSolution() && lower >= upper) {
    result.status = Status::Optimal;
    result.lowerBound = result.cost();
  } else {
    // Below -infinity/2 nothing was proven: fall back on the plain sum.
    result.lowerBound =
        std::max(result.lowerBound, weights.primaryBound(lower));
    if (result.hasSolution())
      result.lowerBound = std::min(result.lowerBound, result.cost());
  }
  return result;
}

template <typename V>
SolveResult Solver<V>::finishInfeasible(llvm::StringRef why) {
  if (result.minNeeded.empty() || !result.hasSolution()) {
    SolveResult legal = findLegal(problem, options, clock);
    for (size_t r = 0; r < problem.resources.size(); ++r) {
      result.minNeeded[r] = std::max(result.minNeeded[r], legal.minNeeded[r]);
      if (legal.minFound[r] &&
          (!result.minFound[r] || *legal.minFound[r] < *result.minFound[r]))
        result.minFound[r] = legal.minFound[r];
    }
  }
  result.status = Status::Infeasible;
  result.statistics.stoppedBy = why.str();
  result.statistics.seconds = clock.wallSeconds();
  return result;
}

template <typename V>
std::optional<std::vector<std::vector<char>>>
Solver<V>::price(const EliminationOrder &order, int rounds) {
  // With fewer choices a greedy order may take another way, to larger tables.
  if (!order.fits)
    return std::nullopt;
  Dual<V> dual(model, order);
  auto ascent = dual.ascend(
      rounds, clock,
      [&](const typename Dual<V>::Point &point) {
        if (point.blocked)
          return;
        lower = std::max(lower, std::min(point.bound, goal()));
        if (!anyFixed) // no choice was fixed: valid beyond the goal, too
          result.lowerBound =
              std::max(result.lowerBound, weights.primaryBound(point.bound));
        if (!narrowOnly)
          remember(model.toOriginal(point.choices));
        if (point.legal)
          takeChoices(point.choices);
      },
      blocked(upper) ? std::nullopt : std::optional<V>(upper));
  result.statistics.lagrangianRounds += dual.rounds;
  result.statistics.eliminations += dual.elimination.computed;
  result.statistics.eliminationsReused += dual.elimination.reused;
  prices = ascent.prices;
  if (ascent.best.blocked)
    lower = goal(); // no solution below the goal is left
  if (met() || blocked(upper) || isWaitedFor())
    return std::nullopt;
  // Choices can go if every solution with them costs at least `upper`.
  dual.evaluate(prices);
  typename Elimination<V>::Marginals marginals = dual.marginals();
  std::vector<std::vector<char>> keep(model.numNodes());
  for (uint32_t node = 0; node < model.numNodes(); ++node)
    for (V value : marginals.ofNode[node])
      keep[node].push_back(!blocked(value) &&
                           value - dual.lastConstant < goal());
  return keep;
}

template <typename V>
bool Solver<V>::tighten(const EliminationOrder &order, int rounds) {
  std::optional<std::vector<std::vector<char>>> keep =
      price(order, affordableRounds(order, rounds));
  if (!keep)
    return false;
  size_t before = 0, after = 0;
  for (const std::vector<char> &flags : *keep) {
    size_t kept = llvm::count(flags, 1);
    before += flags.size();
    after += kept;
    if (kept == 0) {
      lower = goal();
      return false;
    }
  }
  if (after == before)
    return false;
  anyFixed = true;
  model.keepChoices(*keep);
  model.tidy();
  pruneDominated(model, 3);
  if (model.infeasible) {
    lower = goal();
    return false;
  }
  return after * 10 < before * 9;
}

template <typename V> void Solver<V>::mix() {
  if (seen.size() < 2 || clock.expired())
    return;
  Problem mixture = problem;
  for (uint32_t node = 0; node < mixture.nodes.size(); ++node)
    for (uint32_t c = 0; c < mixture.numChoices(node); ++c)
      if (llvm::none_of(seen,
                        [&](const Solution &s) { return s[node] == c; }) &&
          (result.solution.empty() || result.solution[node] != c))
        mixture.nodes[node].costs.forbid(c);
  SolveOptions own = options;
  own.cutoff.reset();
  own.hint = result.solution;
  own.deadlineSeconds = std::min(2.0, clock.left());
  SolveResult mixed = solveNarrow(mixture, own);
  if (mixed.hasSolution())
    take(mixed.solution);
}

static constexpr size_t kMaxParts = 400;
template <typename V> bool Solver<V>::examine(Open &part, int rounds) {
  EliminationOrder order = EliminationOrder::find(
      part.model, static_cast<double>(options.maxTableEntries));
  if (part.model.infeasible)
    return false;
  if (!order.fits)
    return true;
  rounds = affordableRounds(order, rounds);
  branchWork += order.totalEntries * rounds;
  Dual<V> dual(part.model, order);
  auto ascent = dual.ascend(
      rounds, clock,
      [&](const typename Dual<V>::Point &point) {
        if (point.blocked)
          return;
        part.bound = std::max(part.bound, point.bound);
        remember(part.model.toOriginal(point.choices));
        if (point.legal)
          take(part.model.toOriginal(point.choices));
      },
      blocked(upper) ? std::nullopt : std::optional<V>(upper));
  result.statistics.lagrangianRounds += dual.rounds;
  if (ascent.best.blocked || part.bound >= goal())
    return false;
  part.prices = ascent.prices;
  part.choices = ascent.best.choices;
  if (blocked(upper))
    return true;
  dual.evaluate(part.prices);
  typename Elimination<V>::Marginals marginals = dual.marginals();
  std::vector<std::vector<char>> keep(part.model.numNodes());
  for (uint32_t node = 0; node < part.model.numNodes(); ++node) {
    for (V value : marginals.ofNode[node])
      keep[node].push_back(!blocked(value) &&
                           value - dual.lastConstant < goal());
    if (!llvm::is_contained(keep[node], 1))
      return false;
  }
  // The prices belong to the unpruned model: choices are removed only when the
  // part is split.
  part.keep = std::move(keep);
  return true;
}

/// Branching: the node whose cheap and expensive choices differ most in
/// resource cost (usage times price); returns the cheap half of its choices.
template <typename V>
std::optional<std::pair<uint32_t, std::vector<char>>>
Solver<V>::decision(const Open &part) {
  const Model<V> &model = part.model;
  std::vector<double> prefix(part.prices.size() + 1, 0);
  for (size_t row = 0; row < part.prices.size(); ++row)
    prefix[row + 1] = prefix[row] + static_cast<double>(part.prices[row]);
  std::optional<std::pair<uint32_t, std::vector<char>>> best;
  double max = 0;
  for (uint32_t node = 0; node < model.numNodes(); ++node) {
    size_t choices = model.numChoices(node);
    std::vector<double> paid(choices, 0);
    for (const RowUsage &usage : model.usages[node]) {
      double price = prefix[usage.end] - prefix[usage.begin];
      for (size_t c = 0; c < choices; ++c)
        paid[c] += price * static_cast<double>(usage.amounts[c]);
    }
    double low = std::numeric_limits<double>::infinity(), high = 0;
    for (size_t c = 0; c < choices; ++c) {
      if (!part.keep.empty() && !part.keep[node][c])
        continue;
      low = std::min(low, paid[c]);
      high = std::max(high, paid[c]);
    }
    if (high - low <= max)
      continue;
    max = high - low;
    std::vector<char> light(choices);
    for (size_t c = 0; c < choices; ++c)
      light[c] = paid[c] * 2 <= low + high;
    best = {node, std::move(light)};
  }
  return best;
}

template <typename V> void Solver<V>::branch() {
  std::vector<Open> open;
  open.push_back({model, lower, {}, {}, {}});
  if (!examine(open[0], 40))
    open.clear();
  V closed = goal(); // least bound of the parts that were not split
  for (size_t parts = 0; !open.empty() && parts < kMaxParts; ++parts) {
    auto min = llvm::min_element(
        open, [](const Open &a, const Open &b) { return a.bound < b.bound; });
    lower = std::max(lower, std::min({min->bound, closed, goal()}));
    if (met() || closeEnough() || clock.expired() || branchWork > kBranchWork)
      return;
    Open part = std::move(*min);
    open.erase(min);
    ++result.statistics.branches;
    auto split = decision(part);
    if (!split) {
      closed = std::min(closed, part.bound);
      continue;
    }
    for (char half : {0, 1}) {
      Open child{part.model, part.bound, {}, {}, {}};
      std::vector<std::vector<char>> keep = part.keep;
      if (keep.empty()) {
        keep.resize(child.model.numNodes());
        for (uint32_t node = 0; node < child.model.numNodes(); ++node)
          keep[node].assign(child.model.numChoices(node), 1);
      }
      bool any = false;
      for (size_t c = 0; c < split->second.size(); ++c) {
        char &flag = keep[split->first][c];
        flag = flag && split->second[c] != half;
        any |= flag;
      }
      if (!any)
        continue;
      child.model.keepChoices(keep);
      child.model.tidy();
      pruneDominated(child.model, 2);
      if (!child.model.infeasible && examine(child, 25))
        open.push_back(std::move(child));
    }
  }
  V min = std::min(closed, goal());
  for (const Open &part : open)
    min = std::min(min, part.bound);
  lower = std::max(lower, min);
}

template <typename V>
bool Solver<V>::searchLimits(const EliminationOrder &order, size_t beam) {
  if (!order.fits)
    return false;
  Dual<V> dual(model, order);
  // The rows with the largest prices, as many as fit into a label.
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < prices.size(); ++row)
    if (prices[row] > 0)
      rows.push_back(row);
  llvm::sort(rows, [&](uint32_t a, uint32_t b) {
    return std::tie(prices[b], a) < std::tie(prices[a], b);
  });
  if (rows.size() > 3)
    rows.resize(3);
  for (int tries = 0; tries < 6 && !clock.expired(); ++tries) {
    std::vector<Sum> chosen(model.rows.size(), 0);
    for (uint32_t row : rows)
      chosen[row] = prices[row];
    LabelResult<V> search = searchLabels<V>(dual, order, rows, chosen, goal(),
                                            options.maxLabels, beam, clock);
    result.statistics.branches += search.labels;
    if (!search.choices)
      return search.complete;
    std::vector<Sum> load = model.loadOf(*search.choices);
    takeChoices(*search.choices);
    std::optional<uint32_t> worst;
    for (uint32_t row = 0; row < load.size(); ++row)
      if (load[row] > model.rows[row].limit &&
          (!worst || load[row] - model.rows[row].limit >
                         load[*worst] - model.rows[*worst].limit))
        worst = row;
    if (!worst) {
      // The answer is legal, and choices that were removed from the model cost
      // more.
      if (search.complete)
        lower = std::max(lower, upper);
      return search.complete;
    }
    // Nothing that keeps the chosen rows is cheaper than this one.
    if (search.complete)
      lower = std::max(lower, std::min(goal(), model.costOf(*search.choices)));
    rows.push_back(*worst);
  }
  return false;
}

template <typename V> SolveResult Solver<V>::run() {
  if (!options.hint.empty() && options.hint.size() == problem.nodes.size() &&
      llvm::all_of(llvm::enumerate(options.hint), [&](auto entry) {
        return entry.value() < problem.numChoices(entry.index());
      }))
    take(options.hint);
  if (model.infeasible)
    return finishInfeasible("no choice left");
  pruneDominated(model, 5);
  noteModel(model, result.statistics);
  if (model.infeasible)
    return finishInfeasible("no choice left");
  auto findOrder = [&] {
    return EliminationOrder::find(model,
                                  static_cast<double>(options.maxTableEntries));
  };
  EliminationOrder order = findOrder();
  result.statistics.maxTableEntries = order.maxTableEntries;
  result.statistics.inducedWidth = order.width;
  if (shouldSplitLevels(order.fits ? order.totalEntries
                                   : static_cast<double>(infinity<V>())))
    return runByLevels();
  if (!narrowOnly && diffuse(order)) {
    if (met())
      return finishMet("bound met");
    order = findOrder();
  }
  if (!order.fits)
    return narrowOnly ? finish("table too large") : runLarge();
  bool shrunk = tighten(order, narrowOnly ? 20 : 60);
  if (met())
    return finishMet("bound met");
  if (!result.hasSolution()) {
    SolveResult legal = findLegal(problem, options, clock);
    result.minNeeded = legal.minNeeded;
    if (legal.status == Status::Infeasible)
      return finishInfeasible("limits cannot be kept");
    if (legal.hasSolution()) {
      take(legal.solution);
      shrunk = !isWaitedFor() && tighten(order, 60);
    }
  }
  if (result.hasSolution() && isWaitedFor())
    return finish("deadline");
  if (!narrowOnly && findOrder().totalEntries > kMaxLabelEntries) {
    V before = upper;
    mix();
    for (bool again = upper < before; again && !met() && !clock.expired();)
      again = tighten(findOrder(), 40);
    if (met())
      return finishMet("bound met");
  }
  // Wide problems: branch until the parts are small enough for labels.
  if (!narrowOnly && findOrder().totalEntries > kMaxLabelEntries) {
    branch();
    if (met())
      return finishMet("bound met");
    for (bool again = true; again && !met() && !clock.expired();)
      again = tighten(findOrder(), 40);
    if (met())
      return finishMet("bound met");
    if (closeEnough() || findOrder().totalEntries > kMaxLabelEntries)
      return finish("close enough");
    shrunk = false;
  }
  // A better solution lets more choices be dropped, which makes the next search
  // smaller: so the beam grows from search to search, and the last has none.
  for (size_t beam : {size_t(8), size_t(32), size_t(128), size_t(0)}) {
    if (narrowOnly && beam != 8)
      break;
    for (int round = 0; round < 4 && shrunk && !met() && !clock.expired();
         ++round) {
      order = findOrder();
      shrunk = tighten(order, narrowOnly ? 12 : 40);
    }
    if (met())
      return finishMet("bound met");
    order = findOrder();
    if (prices.size() != model.rows.size())
      tighten(order, 40);
    if (met())
      return finishMet("bound met");
    if (prices.size() != model.rows.size())
      prices.assign(model.rows.size(), 0);
    order = findOrder();
    V before = upper;
    if (searchLimits(order, beam)) {
      lower = std::max(lower, goal());
      return finishMet("search exhausted");
    }
    shrunk = upper < before;
    if (clock.expired())
      break;
  }
  return finish(clock.expired() ? "deadline" : "label budget");
}

static SolveResult solveWith(const Problem &problem, SolveOptions options,
                             bool narrowOnly) {
  Effort own; // whoever waits for no deadline gets one answer everywhere
  if (!options.effort && options.deadlineSeconds <= 0)
    options.effort = &own;
  LevelWeights weights = LevelWeights::of(problem);
  auto run = [&](auto solver) {
    solver->narrowOnly = narrowOnly;
    return solver->run();
  };
  if (weights.fits64())
    return run(std::make_unique<Solver<int64_t>>(problem, weights, options));
  return run(std::make_unique<Solver<Sum>>(problem, weights, options));
}

SolveResult kerf::plan::solve(const Problem &problem,
                              const SolveOptions &options) {
  return solveWith(problem, options, /*narrowOnly=*/false);
}

SolveResult kerf::plan::solveNarrow(const Problem &problem,
                                    const SolveOptions &options) {
  return solveWith(problem, options, /*narrowOnly=*/true);
}
