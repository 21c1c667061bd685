//===- SolverState.h - what the parts of the solver share -------*- C++ -*-===//
//
// The problem, the best solution and the bound so far. Solve.cpp has the order
// in which the parts are tried and what is done at small width, SolveLarge.cpp
// large width. V is the integer in which combined costs are counted.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_SOLVER_SOLVERSTATE_H
#define KERF_LIB_PLAN_SOLVER_SOLVERSTATE_H

#include "Feasibility.h"
#include "Labels.h"
#include "LargeSearch.h"

#include "llvm/ADT/STLExtras.h"

namespace kerf::plan {

/// Long searches end when the best solution is this close to the bound.
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
      : problem(problem), weights(weights), options(options),
        clock(options.deadlineSeconds, options.stop),
        result(emptyResult(problem)), model(problem, weights),
        lower(-infinity<V>()), random(options.seed) {}

  SolveResult run();
  /// Gives up instead of searching where elimination does not fit.
  bool narrowOnly = false;

private:
  SolveResult runLarge();
  /// Level 0 alone, then what the others can gain beside it.
  SolveResult runByLevels();
  bool shouldSplitLevels(double entries) const;
  void polish();
  void boundBySplitting(double seconds);
  void makeLegal(Landscape &landscape, const Clock &until);
  void descend(Landscape &landscape, const std::vector<uint32_t> &seeds,
               int64_t patience, const Clock &until);

  /// What prices made of the problem, the latest last: on both sides of a
  /// limit.
  std::vector<Solution> seen;
  void remember(const Solution &solution) {
    if (llvm::is_contained(seen, solution))
      return;
    if (seen.size() >= 8)
      seen.erase(seen.begin());
    seen.push_back(solution);
  }
  /// The best of all mixtures of what was seen. Where layers are alike, prices
  /// switch them all at once, and the best plan switches some.
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
    if (options.cutoff && goal() < upper) // nothing that is looked for
      return finish("cutoff");
    return result.hasSolution() ? finish(why) : finishInfeasible(why);
  }
  /// Only what is cheaper than this is still looked for.
  V goal() const {
    V max = upper;
    // What costs less than the cutoff is below this, whatever its lower levels.
    if (options.cutoff &&
        *options.cutoff < weights.magnitude / weights.weight[0])
      max =
          std::min<V>(max, static_cast<V>(*options.cutoff * weights.weight[0] +
                                          weights.maxBelow));
    if (options.relativeGap <= 0 || blocked(upper))
      return max;
    auto cost = std::abs(static_cast<double>(result.evaluation.cost[0]));
    auto slack = static_cast<Sum>(std::min(options.relativeGap, 1.0) * cost);
    return std::min(max, static_cast<V>(upper - slack * weights.weight[0]));
  }
  bool met() const { return lower >= goal(); }
  /// Not worth a long search: what is proven is all but the best solution.
  bool closeEnough() const {
    if (blocked(upper))
      return false;
    auto cost = std::abs(static_cast<double>(result.evaluation.cost[0]));
    return static_cast<double>(upper - lower) <=
           kCloseEnough * cost * static_cast<double>(weights.weight[0]);
  }

  /// One round of prices and fixing. True while choices get fewer.
  bool tighten(const EliminationOrder &order, int rounds);
  /// The part of it that works on the model as it is: which choices stay.
  std::optional<std::vector<std::vector<char>>>
  price(const EliminationOrder &order, int rounds);
  /// Labels (see Labels.h). True when the search was exhausted, so `upper` is
  /// the optimum; never with a beam.
  bool searchLimits(const EliminationOrder &order, size_t beam);

  std::vector<Sum> prices; ///< of the last tighten()
  double branchWork = 0;   ///< entries of messages
  bool anyFixed = false;   ///< choices were dropped for costing too much

  /// Part of the solutions: those that a model still has.
  struct Open {
    Model<V> model;
    V bound;
    std::vector<Sum> prices;
    std::vector<uint32_t> choices;       ///< at these prices
    std::vector<std::vector<char>> keep; ///< what may still be better
  };
  /// Splits along the decision whose usage matters most, best bound first.
  void branch();
  /// Prices and fixing for one part; false when nothing in it is looked for.
  bool examine(Open &part, int rounds);
  static std::optional<std::pair<uint32_t, std::vector<char>>>
  decision(const Open &part);
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_SOLVERSTATE_H
