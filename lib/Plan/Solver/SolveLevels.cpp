//===- SolveLevels.cpp - the first level first ----------------------------===//
//
// Three levels in one number need 128 bits, keep choices that differ only in
// lower levels, and make prices on limits weigh those too. So where limits may
// bind and messages are large, level 0 is solved alone; its answer and bound
// hold for the whole problem. Then the lower levels are improved region by
// region, which never makes a higher level worse. A solution that is optimal in
// level 0 only is Feasible with a gap of zero.
//
//===----------------------------------------------------------------------===//
#include "SolverState.h"

using namespace kerf::plan;

static bool hasLowerLevels(const Problem &problem) {
  auto has = [](const CostTable &table) {
    for (unsigned level = 1; level < kNumLevels; ++level)
      if (llvm::any_of(table.levels[level], [](int64_t v) { return v != 0; }))
        return true;
    return false;
  };
  return llvm::any_of(problem.nodes,
                      [&](const auto &node) { return has(node.costs); }) ||
         llvm::any_of(problem.tables, has);
}

static Problem firstLevel(const Problem &problem) {
  Problem first = problem;
  auto strip = [](CostTable &table) {
    for (unsigned level = 1; level < kNumLevels; ++level)
      table.levels[level].clear();
  };
  for (Problem::Node &node : first.nodes)
    strip(node.costs);
  llvm::for_each(first.tables, strip);
  return first;
}

template <typename V> bool Solver<V>::shouldSplitLevels(double entries) const {
  return !narrowOnly && !model.rows.empty() &&
         entries > options.splitLevelsAbove && hasLowerLevels(problem);
}

template <typename V> SolveResult Solver<V>::runByLevels() {
  Problem first = firstLevel(problem);
  SolveOptions own = options;
  own.hint = result.solution;
  if (options.deadlineSeconds > 0)
    own.deadlineSeconds = std::max(0.01, clock.left() * 0.8);
  SolveResult primary = solve(first, own);
  result.statistics = primary.statistics;
  auto end = [&] {
    result.statistics.seconds = clock.wallSeconds();
    return result;
  };
  result.lowerBound = primary.lowerBound;
  result.minNeeded = primary.minNeeded;
  for (auto [mine, found] : llvm::zip(result.minFound, primary.minFound))
    if (found && (!mine || *found < *mine))
      mine = found;
  if (primary.hasSolution())
    take(primary.solution);
  else
    result.status = primary.status;
  // No solution below the cutoff: lower levels do not matter.
  if (!result.hasSolution() || primary.statistics.stoppedBy == "cutoff")
    return end();
  polish(clock);
  return end();
}

/// Improves small regions around every node in order, then larger ones, until
/// none gains.
template <typename V> void Solver<V>::polish(const Clock &until) {
  struct Shape {
    size_t size;
    double tables;
  };
  Landscape landscape(problem, result.solution, options.effort);
  for (Shape shape : {Shape{40, 3e4}, Shape{150, 3e4}, Shape{40, 3e4}}) {
    for (int pass = 0; pass < 3 && !until.expired(); ++pass) {
      bool gained = false;
      std::vector<char> covered(problem.nodes.size(), 0);
      for (uint32_t seed = 0; seed < covered.size(); ++seed) {
        if (covered[seed] || problem.numChoices(seed) < 2 || until.expired())
          continue;
        std::vector<uint32_t> region =
            landscape.region(seed, shape.size, shape.tables, random);
        for (uint32_t node : region)
          covered[node] = 1;
        gained |= landscape.improve(region, /*soft=*/false,
                                    std::min(2.0, until.left()), moves) > 0;
      }
      if (!gained)
        break;
    }
  }
  take(landscape.solution());
  result.statistics.localSearchMoves = moves;
}

template bool Solver<int64_t>::shouldSplitLevels(double) const;
template bool Solver<Sum>::shouldSplitLevels(double) const;
template SolveResult Solver<int64_t>::runByLevels();
template SolveResult Solver<Sum>::runByLevels();
