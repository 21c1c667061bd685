//===- BruteForce.cpp - the judge of the other solvers --------------------===//
//
// Counts through every combination like an odometer; too simple to share a
// mistake with the other solvers. O(product of choices * size of the problem).
//
//===----------------------------------------------------------------------===//
#include "kerf/Plan/Solvers.h"

#include <chrono>

using namespace kerf::plan;

SolveResult kerf::plan::bruteForce(const Problem &problem,
                                   double maxCombinations) {
  auto start = std::chrono::steady_clock::now();
  SolveResult result;
  result.minNeeded.assign(problem.resources.size(), 0);
  result.minFound.assign(problem.resources.size(), std::nullopt);
  result.statistics.nodes = problem.nodes.size();
  result.statistics.edges = problem.edges.size();
  double combinations = 1;
  for (uint32_t node = 0; node < problem.nodes.size(); ++node) {
    combinations *= static_cast<double>(problem.numChoices(node));
    result.statistics.choices += problem.numChoices(node);
  }
  if (combinations > maxCombinations) {
    result.statistics.stoppedBy = kTooManyCombinations;
    return result;
  }
  Solution solution(problem.nodes.size(), 0);
  for (bool more = true; more;) {
    Evaluation evaluation = evaluate(problem, solution);
    ++result.statistics.branches;
    if (evaluation.forbidden == 0)
      for (size_t r = 0; r < problem.resources.size(); ++r) {
        std::optional<Sum> &min = result.minFound[r];
        Sum peak = evaluation.peaks[r].amount;
        min = min ? std::min(*min, peak) : peak;
      }
    if (evaluation.legal() &&
        (result.solution.empty() ||
         compare(evaluation.cost, result.evaluation.cost) < 0)) {
      result.solution = solution;
      result.evaluation = evaluation;
      result.status = Status::Optimal;
    }
    more = false;
    for (size_t node = solution.size(); node-- > 0 && !more;) {
      more = ++solution[node] < problem.numChoices(node);
      if (!more)
        solution[node] = 0;
    }
  }
  if (result.status != Status::Optimal)
    // The empty problem has one solution, the empty one.
    result.status =
        problem.nodes.empty() ? Status::Optimal : Status::Infeasible;
  for (size_t r = 0; r < problem.resources.size(); ++r)
    result.minNeeded[r] = result.minFound[r].value_or(0);
  result.lowerBound = result.evaluation.cost[0];
  result.statistics.stoppedBy = "search exhausted";
  result.statistics.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return result;
}
