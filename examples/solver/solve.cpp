// The planner's solver alone, without MLIR: nodes with choices, costs of pairs,
// a limit on a resource. Three jobs on two machines: those that talk should be
// together, and a machine holds two.
#include "kerf/Plan/Solvers.h"

#include "llvm/Support/raw_ostream.h"

using namespace kerf::plan;

int main() {
  Problem problem;
  uint32_t left = problem.addResource("left machine", 2);
  uint32_t right = problem.addResource("right machine", 2);
  for (const char *job : {"a", "b", "c"}) {
    uint32_t node = problem.addNode(CostTable::zeros(2), job);
    problem.addUsage(left, node, {0, 1}, {1, 0});
    problem.addUsage(right, node, {0, 1}, {0, 1});
  }
  // Costs of (left, left), (left, right), (right, left), (right, right).
  problem.addEdge({0, 1}, CostTable({0, 5, 5, 0}));
  problem.addEdge({1, 2}, CostTable({0, 3, 3, 0}));
  SolveResult found = solve(problem);
  for (auto [node, choice] : llvm::zip(problem.nodes, found.solution))
    llvm::outs() << node.name << " is " << (choice ? "right" : "left") << "\n";
  llvm::outs() << "costs " << toString(found.evaluation.cost[0])
               << ", at least " << toString(found.lowerBound) << "\n";
}
