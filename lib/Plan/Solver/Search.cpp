//===- Search.cpp - shared by the parts of solve() ------------------------===//
//
// Every solution that leaves a solver goes through offer(), which evaluates it
// on the original Problem.
//
//===----------------------------------------------------------------------===//
#include "Search.h"

#include "llvm/Support/ErrorHandling.h"

#include <algorithm>

using namespace kerf::plan;

llvm::StringRef kerf::plan::toString(Status status) {
  switch (status) {
  case Status::Optimal:
    return "optimal";
  case Status::Feasible:
    return "feasible";
  case Status::Infeasible:
    return "infeasible";
  case Status::Unknown:
    return "unknown";
  }
  llvm_unreachable("bad Status");
}

double SolveResult::gap() const {
  if (!hasSolution() || status == Status::Optimal)
    return 0;
  Sum difference = cost() - lowerBound;
  Sum size = cost() < 0 ? -cost() : cost();
  return static_cast<double>(difference) /
         static_cast<double>(std::max<Sum>(size, 1));
}

SolveResult kerf::plan::emptyResult(const Problem &problem) {
  SolveResult result;
  result.minNeeded.assign(problem.resources.size(), 0);
  result.minFound.assign(problem.resources.size(), std::nullopt);
  result.statistics.nodes = problem.nodes.size();
  result.statistics.edges = problem.edges.size();
  for (const Problem::Node &node : problem.nodes)
    result.statistics.choices += node.costs.size();
  return result;
}

bool kerf::plan::offer(const Problem &problem, SolveResult &result,
                       const Solution &solution) {
  Evaluation evaluation = evaluate(problem, solution);
  if (evaluation.forbidden == 0)
    for (size_t r = 0; r < problem.resources.size(); ++r) {
      std::optional<Sum> &min = result.minFound[r];
      Sum peak = evaluation.peaks[r].amount;
      min = min ? std::min(*min, peak) : peak;
    }
  if (!evaluation.legal())
    return false;
  if (result.hasSolution() &&
      compare(evaluation.cost, result.evaluation.cost) >= 0)
    return false;
  result.solution = solution;
  result.evaluation = std::move(evaluation);
  if (result.status != Status::Optimal)
    result.status = Status::Feasible;
  return true;
}

template <typename V>
void kerf::plan::noteModel(const Model<V> &model, Statistics &statistics) {
  statistics.nodesAfterPruning = statistics.choicesAfterPruning = 0;
  for (uint32_t node = 0; node < model.numNodes(); ++node)
    if (model.numChoices(node) > 1) {
      ++statistics.nodesAfterPruning;
      statistics.choicesAfterPruning += model.numChoices(node);
    }
  statistics.edgesAfterPruning = model.factors.size();
}

template void kerf::plan::noteModel(const Model<int64_t> &, Statistics &);
template void kerf::plan::noteModel(const Model<Sum> &, Statistics &);
