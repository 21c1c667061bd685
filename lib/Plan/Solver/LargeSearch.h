//===- LargeSearch.h - problems too wide for elimination --------*- C++ -*-===//
//
// Large neighbourhood search: take a connected region of the problem, small
// enough in width that solve() proves its optimum while everything outside
// keeps its choices; keep the answer if it is better; go on with another
// region. What the outside uses of a resource is a fixed load on the region's
// problem. Forbidden combinations and loads over the limit are first charged a
// price instead of being forbidden, so that the search can start from any
// solution.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_SOLVER_LARGESEARCH_H
#define KERF_LIB_PLAN_SOLVER_LARGESEARCH_H

#include "Search.h"

namespace kerf::plan {

/// Solves a region by elimination and label search; never by regions again.
SolveResult solveNarrow(const Problem &problem, const SolveOptions &options);

/// The current solution, which is improved region by region.
class Landscape {
public:
  /// `start` may hold forbidden entries and pass limits. `effort`: of what the
  /// seconds are that improve() and shake() may take (SolveOptions::effort).
  Landscape(const Problem &problem, Solution start, Effort *effort);

  const Solution &solution() const { return current; }
  /// Nodes of forbidden entries, and nodes that use more than their minimum at
  /// an instant over its limit; ascending.
  std::vector<uint32_t> nodesInConflict() const;
  /// Price per unit of load over a limit, when `soft`.
  double overloadPrice = 0;

  /// A connected region around `seed` of at most `size` nodes whose elimination
  /// needs no table over `maxTableEntries`.
  std::vector<uint32_t> region(uint32_t seed, size_t size,
                               double maxTableEntries, Random &random) const;

  /// Solves the region while the rest stays fixed. With `soft`, forbidden
  /// entries have a penalty and loads over the limit a price. Returns the gain
  /// in level 0 (a small positive number for a gain in lower levels only), 0 if
  /// nothing changed.
  double improve(const std::vector<uint32_t> &region, bool soft, double seconds,
                 uint64_t &moves);

  /// Solves the region with random extra costs. The result is legal if the
  /// current solution is, close to the region's optimum, but different.
  void shake(const std::vector<uint32_t> &region, Random &random,
             double seconds);
  /// Replaces the current solution.
  void moveTo(const Solution &solution);

private:
  Effort *effort;
  struct Use {
    uint32_t resource, usage;
    size_t begin, end; ///< segments
  };
  Problem extract(const std::vector<uint32_t> &region, bool soft) const;
  void addFixedLoad(Problem &sub, const std::vector<uint32_t> &region) const;
  void addLoad(uint32_t node, int64_t sign);
  bool overloaded(const Use &use) const;
  uint64_t apply(const std::vector<uint32_t> &region, const Solution &local);

  const Problem &problem;
  Solution current;
  std::vector<std::vector<uint32_t>> edgesOf;
  std::vector<std::vector<Use>> usesOf;
  /// Per resource with a limit: segment boundaries and the load in between.
  std::vector<std::vector<int64_t>> times;
  std::vector<std::vector<Sum>> loads;
  int64_t penalty;
  mutable std::vector<uint32_t> localOf; ///< scratch: node -> place in region
};

/// Each node takes the allowed choice that uses least of the limited resources,
/// by the sum over resources relative to their limits. Edges are ignored.
Solution minUsage(const Problem &problem);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_LARGESEARCH_H
