//===- RandomSolutionTest.cpp - legal, random, reproducible ---------------===//
#include "RandomProblems.h"

#include <gtest/gtest.h>

#include <set>

using namespace kerf::plan;

namespace {

// Legal whenever the judge finds anything legal, infeasible when not.
TEST(RandomSolution, IsLegal) {
  int found = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    RandomShape shape;
    shape.resources = seed % 3;
    shape.edges = seed % 12;
    shape.tightness = double(seed % 11) / 10;
    Problem problem = randomProblem(seed, shape);
    SolveResult judge = bruteForce(problem);
    SolveResult result = randomSolution(problem, seed);
    EXPECT_EQ(result.hasSolution(), judge.hasSolution()) << "seed " << seed;
    if (!result.hasSolution()) {
      EXPECT_EQ(result.status, Status::Infeasible) << "seed " << seed;
      continue;
    }
    ++found;
    llvm::Expected<Evaluation> verified = verify(problem, result.solution);
    ASSERT_TRUE(bool(verified)) << llvm::toString(verified.takeError());
    EXPECT_EQ(compare(verified->cost, result.evaluation.cost), 0);
  }
  EXPECT_GT(found, 200);
}

// The seed decides, and seeds differ: every legal solution of a small problem
// is drawn some time.
TEST(RandomSolution, ReachesEveryLegalSolution) {
  Problem problem;
  for (int n = 0; n < 3; ++n)
    problem.addNode(CostTable({5, 1}));
  CostTable table({0, 0, 0, kForbidden});
  problem.addEdge({0, 1}, table);
  problem.addEdge({1, 2}, table);
  std::set<Solution> drawn;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SolveResult result = randomSolution(problem, seed);
    EXPECT_EQ(result.solution, randomSolution(problem, seed).solution);
    drawn.insert(result.solution);
  }
  EXPECT_EQ(drawn.size(), 5u); // 000 001 010 100 101
}

} // namespace
