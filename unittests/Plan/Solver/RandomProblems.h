//===- RandomProblems.h - small problems for property tests -----*- C++ -*-===//
//
// Problems small enough for brute force, but with everything in them: edges of
// two and three nodes, parallel edges, forbidden entries, ties, negative costs,
// lower levels, several resources, usages that overlap.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_PLAN_SOLVER_RANDOMPROBLEMS_H
#define KERF_UNITTESTS_PLAN_SOLVER_RANDOMPROBLEMS_H

#include "kerf/Plan/Problem.h"
#include "kerf/Plan/Solvers.h"

#include <random>

namespace kerf::plan {

struct RandomShape {
  int nodes = 6, choices = 3, edges = 8;
  int64_t costRange = 20;
  double forbidden = 0.1;
  bool levels = false, negative = false, triples = true;
  int resources = 0;
  /// Limit as a share between the least and the largest possible peak.
  double tightness = 0.5;
};

inline Problem randomProblem(uint64_t seed, const RandomShape &shape) {
  std::mt19937_64 random(seed);
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  Problem problem;
  auto table = [&](size_t size, double forbidden) {
    CostTable costs = CostTable::zeros(size);
    for (size_t i = 0; i < size; ++i) {
      Levels value = {below(shape.costRange), 0, 0};
      if (shape.negative)
        value[0] -= shape.costRange / 2;
      if (shape.levels) {
        value[0] /= 5; // many ties in the first level
        value[1] = below(4);
        value[2] = below(1000) - 500;
      }
      costs.set(i, value);
      if (below(1000) < int64_t(forbidden * 1000))
        costs.forbid(i);
    }
    return costs;
  };
  for (int n = 0; n < shape.nodes; ++n)
    problem.addNode(table(1 + below(shape.choices), shape.forbidden / 3),
                    "n" + std::to_string(n));
  for (int e = 0; e < shape.edges && shape.nodes > 2; ++e) {
    std::vector<uint32_t> ends;
    size_t arity = shape.triples && below(4) == 0 ? 3 : 2;
    size_t size = 1;
    while (ends.size() < arity) {
      uint32_t node = below(shape.nodes);
      if (std::find(ends.begin(), ends.end(), node) != ends.end())
        continue;
      ends.push_back(node);
      size *= problem.numChoices(node);
    }
    problem.addEdge(ends, table(size, shape.forbidden));
  }
  for (int r = 0; r < shape.resources; ++r) {
    uint32_t resource = problem.addResource("r" + std::to_string(r), 0);
    Sum low = 0, high = 0;
    for (uint32_t n = 0; n < problem.nodes.size(); ++n)
      for (int u = below(3); u > 0; --u) {
        int64_t begin = below(10);
        std::vector<int64_t> amounts;
        for (size_t c = 0; c < problem.numChoices(n); ++c)
          amounts.push_back(below(10));
        problem.addUsage(resource, n, {begin, begin + below(8)}, amounts);
      }
    Solution min(problem.nodes.size(), 0), max = min;
    for (const auto &usage : problem.resources[resource].usages)
      for (size_t c = 0; c < usage.amounts.size(); ++c) {
        if (usage.amounts[c] < usage.amounts[min[usage.node]])
          min[usage.node] = c;
        if (usage.amounts[c] > usage.amounts[max[usage.node]])
          max[usage.node] = c;
      }
    low = evaluate(problem, min).peaks[resource].amount;
    high = evaluate(problem, max).peaks[resource].amount;
    problem.resources[resource].limit =
        int64_t(low) + int64_t(shape.tightness * double(high - low));
  }
  return problem;
}

} // namespace kerf::plan

#endif // KERF_UNITTESTS_PLAN_SOLVER_RANDOMPROBLEMS_H
