//===- LargeSearch.h - problems too wide for elimination --------*- C++ -*-===//
//
// Large neighbourhood search: take a connected region of the problem, small
// enough in width that solve() proves its optimum while everything outside
// stays as it is, put the answer back if it is better, and go on elsewhere.
// What the outside uses of a resource is a fixed load on the region's problem.
// Forbidden combinations and loads over the limit are first priced, not
// forbidden, so that the search can start anywhere.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_SOLVER_LARGESEARCH_H
#define KERF_LIB_PLAN_SOLVER_LARGESEARCH_H

#include "Search.h"

namespace kerf::plan {

/// The solver for regions: never large itself.
SolveResult solveNarrow(const Problem &problem, const SolveOptions &options);

/// A state that can be improved region by region.
class Landscape {
public:
  /// `start` may hold forbidden entries and pass limits.
  Landscape(const Problem &problem, Solution start);

  const Solution &solution() const { return current; }
  /// Nodes of forbidden entries, and nodes that use more than they must of an
  /// instant over its limit; ascending.
  std::vector<uint32_t> nodesInConflict() const;
  /// Cost per unit of load over a limit, while `soft`.
  double overloadPrice = 0;

  /// A connected region around `seed` of at most `size` nodes whose elimination
  /// needs no table over `maxTableEntries`.
  std::vector<uint32_t> region(uint32_t seed, size_t size,
                               double maxTableEntries, Random &random) const;

  /// Solves the region with the rest fixed. With `soft`, forbidden entries
  /// have a penalty and loads over the limit a price. Gives what is gained in
  /// level 0 (at least a little for a gain elsewhere), 0 if nothing changed.
  double improve(const std::vector<uint32_t> &region, bool soft, double seconds,
                 uint64_t &moves);

  /// Solves the region with random extra costs: legal if the state is, near the
  /// optimum of the region, but elsewhere.
  void shake(const std::vector<uint32_t> &region, Random &random,
             double seconds);
  /// Takes another solution.
  void moveTo(const Solution &solution);

private:
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

/// Each node takes what uses least of the limited resources: a start that keeps
/// limits if any does, allowed entries or not.
Solution minUsage(const Problem &problem);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_LARGESEARCH_H
