//===- TransformerTest.cpp - problems of the planner's size ---------------===//
//
// What the planner meets: hundreds of ops, repeated layers, memory that couples
// everything. All must be proven; work on equal layers must be shared.
//
//===----------------------------------------------------------------------===//
#include "Transformer.h"
#include "kerf/Plan/Solvers.h"

#include <gtest/gtest.h>

using namespace kerf::plan;

namespace {

/// Between what is needed at least (0) and no pressure (1).
int64_t limitBetween(int layers, double share) {
  Problem tight = transformer(layers, 1);
  Sum min = solve(tight).minNeeded[0];
  Problem free = transformer(layers);
  Sum max = solve(free).evaluation.peaks[0].amount;
  return int64_t(min) + int64_t(share * double(max - min));
}

void expectProven(const Problem &problem, const SolveResult &result) {
  EXPECT_EQ(result.status, Status::Optimal) << result.statistics.stoppedBy;
  llvm::Expected<Evaluation> verified = verify(problem, result.solution);
  ASSERT_TRUE(bool(verified)) << llvm::toString(verified.takeError());
  EXPECT_EQ(result.lowerBound, verified->cost[0]);
}

// Without a limit the layers are eliminated once, however many there are.
TEST(Transformer, GrowsByReuse) {
  Problem problem = transformer(96);
  SolveResult few = solve(transformer(12)), many = solve(problem);
  expectProven(problem, many);
  EXPECT_LE(many.statistics.eliminations, few.statistics.eliminations + 8);
}

// Memory couples the layers; still proven, from tight to loose.
TEST(Transformer, ProvenUnderMemoryLimits) {
  for (double share : {0.02, 0.05, 0.1, 0.3, 0.6}) {
    Problem problem = transformer(12, limitBetween(12, share));
    expectProven(problem, solve(problem));
  }
}

// A budget on the whole program stands beside the memory limit.
TEST(Transformer, ProvenUnderTwoResources) {
  Problem problem = transformer(4, limitBetween(4, 0.4));
  uint32_t budget = problem.addResource("work", 0);
  Sum all = 0;
  for (uint32_t node = 0; node < problem.nodes.size(); ++node) {
    // Sharding by rows halves an op's work per axis.
    std::vector<int64_t> work;
    int base = problem.numChoices(node) == 27 ? 3 : 2;
    for (int c = 0; c < int(problem.numChoices(node)); ++c) {
      int64_t amount = base == 3 ? 8000 : 80;
      for (int axis = 0; axis < 3; ++axis)
        amount /= TransformerBuilder::digits(c, base, axis) == 0 ? 2 : 1;
      work.push_back(amount);
    }
    all += base == 3 ? 8000 : 80;
    problem.addUsage(budget, node, {0, 1}, work);
  }
  problem.resources[budget].limit = int64_t(all * 5 / 8);
  SolveResult result = solve(problem);
  expectProven(problem, result);
  EXPECT_LE(result.evaluation.peaks[budget].amount, all * 5 / 8);
}

// What does not fit is refused with what it would need.
TEST(Transformer, SaysWhatIsNeeded) {
  Problem problem = transformer(12, 1'000'000);
  SolveResult result = solve(problem);
  EXPECT_EQ(result.status, Status::Infeasible);
  Sum min = result.minNeeded[0];
  EXPECT_GT(min, 1'000'000);
  problem.resources[0].limit = int64_t(min) - 1;
  EXPECT_EQ(solve(problem).status, Status::Infeasible);
}

// A legal plan within the deadline and a tenth of it.
TEST(Transformer, KeepsTheDeadline) {
  Problem problem = transformer(96, limitBetween(96, 0.3));
  SolveOptions options;
  options.deadlineSeconds = 0.4;
  SolveResult result = solve(problem, options);
  EXPECT_TRUE(result.hasSolution());
  EXPECT_LE(result.lowerBound, result.cost());
  // Sanitizers and loaded machines: ten times the promise is still a bound.
  EXPECT_LT(result.statistics.seconds, 4.4);
}

} // namespace
