//===- SolverState.h - shared by the parts of the solver --------*- C++ -*-===//
//
// The problem, the best solution and the bound so far. Solve.cpp has the order
// in which the parts are tried, and small width; SolveLarge.cpp has large
// width. V is the integer type of combined costs.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_SOLVER_SOLVERSTATE_H
#define KERF_LIB_PLAN_SOLVER_SOLVERSTATE_H

#include "Diffusion.h"
#include "Feasibility.h"
#include "Labels.h"
#include "LargeSearch.h"

#include "llvm/ADT/STLExtras.h"

namespace kerf::plan {

/// Long searches end when the best solution is within this share of the bound.
inline constexpr double kCloseEnough = 1e-4;

template <typename V> struct Solver {
  const Problem &problem;
  const LevelWeights weights;
  const SolveOptions &options;
  Clock clock;
  SolveResult result;
  Model<V> model;
  /// Combined cost of the best solution; infinity without one.
  V upper = infinity<V>();
  /// Combined; every legal solution costs at least this, or at least `upper`.
  V lower;

  Solver(const Problem &problem, const LevelWeights &weights,
         const SolveOptions &options)
      : problem(problem), weights(weights), options(options), clock(options),
        result(emptyResult(problem)), model(problem, weights, options.effort),
        lower(-infinity<V>()), random(options.seed) {}

  SolveResult run();
  /// Gives up instead of searching where elimination does not fit.
  bool narrowOnly = false;

private:
  SolveResult runLarge();
  /// Solves level 0 alone, then improves the lower levels (SolveLevels.cpp).
  SolveResult runByLevels();
  bool shouldSplitLevels(double entries) const;
  void polish(const Clock &until);
  /// Passes messages (Diffusion.h) where elimination would take long or is
  /// impossible. This gives a bound and solutions, and drops choices that are
  /// too expensive, which makes elimination short. `order`: the order of
  /// elimination of the whole model. False: elimination is short already.
  bool diffuse(const EliminationOrder &order);
  bool diffuseOnce();
  /// `forbidden`: choices that were out before any was too expensive.
  void raisePrices(Diffusion<V> &diffusion, size_t forbidden);
  void boundBySplitting(double seconds);
  void makeLegal(Landscape &landscape, const Clock &until);
  void descend(Landscape &landscape, const std::vector<uint32_t> &seeds,
               int64_t patience, const Clock &until);

  /// Solutions that evaluations at prices gave, latest last: some keep the
  /// limit, some do not.
  std::vector<Solution> seen;
  void remember(const Solution &solution) {
    if (llvm::is_contained(seen, solution))
      return;
    if (seen.size() >= 8)
      seen.erase(seen.begin());
    seen.push_back(solution);
  }
  /// The best mixture of these solutions, node by node. Where layers are alike,
  /// a price changes all of them at once, while the best plan changes some.
  void mix();

  /// Starts for the local search.
  std::vector<Solution> guesses;
  Random random;
  uint64_t moves = 0;
  struct RegionShape {
    size_t size;
    double limit;
    double score; ///< gain per second, decaying
  };
  RegionShape shapes[6] = {{15, 3e6, 1e12},   {40, 3e6, 1e12},
                           {100, 1e6, 1e12},  {300, 3e5, 1e12},
                           {1000, 1e5, 1e12}, {3000, 3e4, 1e12}};
  void take(const Solution &solution);
  void takeChoices(const std::vector<uint32_t> &choices) {
    take(model.toOriginal(choices));
  }
  SolveResult finish(llvm::StringRef why);
  SolveResult finishInfeasible(llvm::StringRef why);
  /// `lower` has reached `upper`: the best solution is optimal, or there is
  /// none.
  SolveResult finishMet(llvm::StringRef why) {
    if (cutoff() < upper) // nothing that is looked for
      return finish("cutoff");
    return result.hasSolution() ? finish(why) : finishInfeasible(why);
  }
  /// Every solution below the cutoff has a lower combined cost than this, for
  /// any costs of lower levels.
  V cutoff() const {
    if (!options.cutoff ||
        *options.cutoff >= weights.magnitude / weights.weight[0])
      return infinity<V>();
    return static_cast<V>(*options.cutoff * weights.weight[0] +
                          weights.maxBelow);
  }
  /// The search only looks for solutions of a lower combined cost than this.
  V goal() const {
    V max = std::min(upper, cutoff());
    if (options.relativeGap <= 0 || blocked(upper))
      return max;
    auto cost = std::abs(static_cast<double>(result.evaluation.cost[0]));
    auto slack = static_cast<Sum>(std::min(options.relativeGap, 1.0) * cost);
    return std::min(max, static_cast<V>(upper - slack * weights.weight[0]));
  }
  bool met() const { return lower >= goal(); }
  /// Whether somebody waits for a result whose time is over: what only makes it
  /// better is left out. Nobody waits for a deadline of counted seconds.
  bool isWaitedFor() const { return clock.expired() && !options.effort; }
  /// Whether the proven bound is so close to the best solution that a long
  /// search is not worth it.
  bool closeEnough() const {
    if (blocked(upper))
      return false;
    auto cost = std::abs(static_cast<double>(result.evaluation.cost[0]));
    return static_cast<double>(upper - lower) <=
           kCloseEnough * cost * static_cast<double>(weights.weight[0]);
  }

  /// One round of prices and reduced-cost fixing; true if it removed choices.
  bool tighten(const EliminationOrder &order, int rounds);
  /// The part of it that does not change the model: which choices to keep.
  std::optional<std::vector<std::vector<char>>>
  price(const EliminationOrder &order, int rounds);
  /// Label search (Labels.h). True if the search was exhausted, so that `upper`
  /// is the optimum; never with a beam.
  bool searchLimits(const EliminationOrder &order, size_t beam);

  std::vector<Sum> prices; ///< of the last tighten()
  double branchWork = 0;   ///< entries of messages
  bool anyFixed = false;   ///< choices were dropped for costing too much

  /// A branch: the solutions within a restricted model.
  struct Open {
    Model<V> model;
    V bound;
    std::vector<Sum> prices;
    std::vector<uint32_t> choices;       ///< at these prices
    std::vector<std::vector<char>> keep; ///< by reduced cost
  };
  /// Branches along decision(), the part with the lowest bound first.
  void branch();
  /// Prices and fixing for one part; false if it has no solution below the
  /// goal.
  bool examine(Open &part, int rounds);
  static std::optional<std::pair<uint32_t, std::vector<char>>>
  decision(const Open &part);
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_SOLVERSTATE_H
