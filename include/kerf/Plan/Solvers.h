//===- Solvers.h - free functions from Problem to Solution ------*- C++ -*-===//
//
// Every solver takes a Problem that check() accepts and says what it promises.
// All are deterministic: the same problem, options and seed give the same
// answer, except that a deadline of the clock may cut the search at another
// point. None touches global state; several may run at once.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PLAN_SOLVERS_H
#define KERF_PLAN_SOLVERS_H

#include "kerf/Plan/Effort.h"
#include "kerf/Plan/Problem.h"

#include <atomic>

namespace kerf::plan {

enum class Status {
  Optimal,    ///< `solution` is legal and no legal one is cheaper
  Feasible,   ///< `solution` is legal; `lowerBound` says how far off at most
  Infeasible, ///< proven: no legal solution exists
  Unknown,    ///< none found, none excluded
};
llvm::StringRef toString(Status status);

struct SolveOptions {
  /// Wall-clock limit; 0 or less: none. solve() returns within it plus 10%.
  /// Problems that neither elimination nor messages prove take about 20 s where
  /// none is given, counted as `effort` is.
  double deadlineSeconds = 0;
  /// Where what the search does is counted. If given, all seconds are of these
  /// counts instead of the clock, so that the search ends at the same point on
  /// every machine.
  Effort *effort = nullptr;
  /// Once it is true, what has been found is given, as at the deadline.
  const std::atomic<bool> *stop = nullptr;
  uint64_t seed = 0;
  /// Ends the search for better solutions once no solution can be cheaper by
  /// more than this share of the cost (level 0). 0: search until optimality is
  /// proven.
  double relativeGap = 0;
  /// Elimination stops being exact where a table would pass this size.
  int64_t maxTableEntries = int64_t(1) << 22;
  /// With limits: partial solutions that are kept in looking for the best one;
  /// as many as given take about four seconds.
  size_t maxLabels = size_t(1) << 26;
  /// With limits: problems whose messages have more entries than this in all
  /// are solved for level 0 alone; the lower levels are then improved region by
  /// region (SolveLevels.cpp).
  double splitLevelsAbove = 3e5;
  /// Only solutions that cost less than this in level 0 are looked for: the
  /// search ends once there can be none. The best solution found on the way is
  /// returned even if it costs more; the bound then is at least the cutoff.
  std::optional<Sum> cutoff;
  /// A first guess, legal or not; may be empty.
  Solution hint;
};

struct Statistics {
  size_t nodes = 0, choices = 0, edges = 0;
  size_t nodesAfterPruning = 0, choicesAfterPruning = 0, edgesAfterPruning = 0;
  /// Of the elimination order: entries of its largest table (a double, since
  /// the number may be astronomical), and the nodes in that table's scope less
  /// one.
  double maxTableEntries = 0;
  size_t inducedWidth = 0;
  /// Eliminations that were computed, and those that reused the result of an
  /// equal one (repeated layers).
  size_t eliminations = 0, eliminationsReused = 0;
  size_t lagrangianRounds = 0, branches = 0, localSearchMoves = 0;
  double seconds = 0;
  /// Why the search ended: "elimination", "bound met", "search exhausted",
  /// "deadline", ...
  std::string stoppedBy;
};

struct SolveResult {
  Status status = Status::Unknown;
  Solution solution;     ///< empty unless Optimal or Feasible
  Evaluation evaluation; ///< of `solution`
  /// Proven: every legal solution costs at least this in level 0. For Optimal
  /// equal to the cost. Meaningless for Infeasible.
  Sum lowerBound = 0;
  /// Infeasible or Unknown: for each resource, the least peak that is proven to
  /// be needed whatever the cost (a lower bound), and the smallest peak of any
  /// solution found that obeys the other rules (nothing: none found).
  std::vector<Sum> minNeeded;
  std::vector<std::optional<Sum>> minFound;
  Statistics statistics;

  bool hasSolution() const {
    return status == Status::Optimal || status == Status::Feasible;
  }
  bool optimal() const { return status == Status::Optimal; }
  Sum cost() const { return evaluation.cost[0]; }
  /// (cost - lowerBound) / max(|cost|, 1): 0 when optimal.
  double gap() const;
};

/// SolveStatistics::stoppedBy of a brute force that gave up.
inline constexpr const char *kTooManyCombinations = "too many combinations";

/// The reference for the other solvers: tries every combination in
/// lexicographic order, pruned only by the cost of what is already chosen.
/// Optimal or Infeasible, or Unknown when there are more than
/// `maxCombinations`.
SolveResult bruteForce(const Problem &problem,
                       double maxCombinations = 20'000'000);

/// Any legal solution, drawn from `seed`: node by node a random choice among
/// those that some completion allows (exact look-ahead by elimination); where
/// limits bind, the cheapest one under random costs and rising prices on usage.
/// Feasible, Infeasible (proven) or Unknown; the bound is meaningless. Every
/// choice that occurs in a legal solution without limits can be drawn.
SolveResult randomSolution(const Problem &problem, uint64_t seed);

/// Exact variable elimination in min-weight order after dominance pruning,
/// with limits ignored: the answer is Optimal when it happens to keep every
/// limit, else Unknown with the proven `lowerBound`, and `relaxed` (if given)
/// holds the cheapest solution without limits. Unknown without a bound where a
/// table would pass options.maxTableEntries. O(nodes * d^(width+1)); equal
/// eliminations (repeated layers) are done once.
SolveResult eliminate(const Problem &problem, const SolveOptions &options = {},
                      Solution *relaxed = nullptr);

/// The solver to use. Dominance pruning; elimination; Lagrangian bounds on the
/// limits; choices whose reduced cost passes the gap are dropped; exact label
/// search over the remaining choices. Problems too large for that: message
/// passing for the bound and local search for the solution, until the bound is
/// met or the deadline strikes.
SolveResult solve(const Problem &problem, const SolveOptions &options = {});

} // namespace kerf::plan

#endif // KERF_PLAN_SOLVERS_H
