//===- SolveTest.cpp - the whole solver against the judge -----------------===//
#include "../../../lib/Plan/Solver/Elimination.h"
#include "RandomProblems.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

using namespace kerf::plan;

namespace {

/// Legal, as cheap as the judge's, and called optimal.
void expectOptimal(const Problem &problem, const SolveResult &result,
                   uint64_t seed) {
  SolveResult judge = bruteForce(problem);
  ASSERT_EQ(toString(result.status).str(), toString(judge.status).str())
      << "seed " << seed << ", stopped by " << result.statistics.stoppedBy;
  if (!judge.hasSolution()) {
    // What is said to be needed never exceeds what is really needed.
    for (size_t r = 0; r < problem.resources.size(); ++r)
      if (judge.minFound[r])
        EXPECT_LE(result.minNeeded[r], *judge.minFound[r]) << "seed " << seed;
    return;
  }
  llvm::Expected<Evaluation> verified = verify(problem, result.solution);
  ASSERT_TRUE(bool(verified)) << llvm::toString(verified.takeError());
  EXPECT_EQ(compare(verified->cost, judge.evaluation.cost), 0)
      << "seed " << seed << ": " << toString(result.cost()) << ", expected "
      << toString(judge.cost());
  EXPECT_EQ(result.lowerBound, judge.cost()) << "seed " << seed;
  EXPECT_EQ(result.gap(), 0);
}

// One limited resource, from impossible to loose.
TEST(Solve, MatchesBruteForceUnderOneLimit) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    RandomShape shape;
    shape.resources = 1;
    shape.nodes = 2 + seed % 7;
    shape.edges = seed % 12;
    shape.tightness = double(seed % 11) / 10;
    shape.negative = seed % 3 == 0;
    Problem problem = randomProblem(seed, shape);
    ASSERT_FALSE(bool(problem.check()));
    expectOptimal(problem, solve(problem), seed);
  }
}

// Several resources and levels at once.
TEST(Solve, MatchesBruteForceUnderSeveralLimits) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    RandomShape shape;
    shape.resources = 2 + seed % 2;
    shape.levels = true;
    shape.edges = seed % 10;
    shape.tightness = 0.2 + double(seed % 8) / 10;
    Problem problem = randomProblem(1000 + seed, shape);
    expectOptimal(problem, solve(problem), seed);
  }
}

// Large problems: level 0 is solved alone, the others are improved beside it.
TEST(Solve, FirstLevelFirst) {
  int same = 0, solved = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    RandomShape shape;
    shape.resources = 1 + seed % 2;
    shape.levels = true;
    shape.edges = seed % 10;
    shape.tightness = 0.2 + double(seed % 8) / 10;
    Problem problem = randomProblem(1000 + seed, shape);
    SolveOptions options;
    options.splitLevelsAbove = 0;
    SolveResult result = solve(problem, options);
    SolveResult judge = bruteForce(problem);
    ASSERT_EQ(result.hasSolution(), judge.hasSolution()) << "seed " << seed;
    if (!judge.hasSolution()) {
      EXPECT_EQ(result.status, Status::Infeasible) << "seed " << seed;
      continue;
    }
    llvm::Expected<Evaluation> verified = verify(problem, result.solution);
    ASSERT_TRUE(bool(verified)) << llvm::toString(verified.takeError());
    EXPECT_EQ(verified->cost[0], judge.cost()) << "seed " << seed;
    EXPECT_EQ(result.lowerBound, judge.cost()) << "seed " << seed;
    EXPECT_EQ(result.gap(), 0);
    ++solved;
    same += compare(verified->cost, judge.evaluation.cost) == 0;
  }
  // Regions are as large as these problems.
  EXPECT_GT(solved, 200);
  EXPECT_GE(same, solved * 98 / 100);
}

// A bound is a bound whatever stops the search, here tiny tables.
TEST(Solve, BoundsHoldWhenStopped) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomShape shape;
    shape.resources = seed % 2;
    shape.edges = 12;
    Problem problem = randomProblem(2000 + seed, shape);
    SolveOptions options;
    options.maxTableEntries = 9;
    options.deadlineSeconds = 0.05;
    SolveResult judge = bruteForce(problem), result = solve(problem, options);
    if (result.status == Status::Infeasible) {
      EXPECT_FALSE(judge.hasSolution()) << "seed " << seed;
      continue;
    }
    if (!judge.hasSolution()) {
      EXPECT_FALSE(result.hasSolution()) << "seed " << seed;
      continue;
    }
    EXPECT_LE(result.lowerBound, judge.cost()) << "seed " << seed;
    if (result.hasSolution())
      EXPECT_GE(result.cost(), judge.cost()) << "seed " << seed;
  }
}

// With a tolerance the answer is that close, and the bound says so.
TEST(Solve, KeepsTheRelativeGap) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomShape shape;
    shape.resources = 1;
    shape.tightness = 0.4;
    shape.costRange = 1000;
    shape.levels = seed % 2;
    Problem problem = randomProblem(3000 + seed, shape);
    SolveOptions options;
    options.relativeGap = 0.1;
    SolveResult judge = bruteForce(problem), result = solve(problem, options);
    ASSERT_EQ(result.hasSolution(), judge.hasSolution()) << "seed " << seed;
    if (!judge.hasSolution())
      continue;
    EXPECT_LE(result.lowerBound, judge.cost()) << "seed " << seed;
    EXPECT_LE(result.gap(), 0.1 + 1e-9) << "seed " << seed;
  }
}

// Split nodes only ever make the elimination cheaper than the truth.
TEST(Solve, SplittingBounds) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomShape shape;
    shape.edges = 12;
    shape.negative = seed % 2;
    Problem problem = randomProblem(4000 + seed, shape);
    SolveResult judge = bruteForce(problem);
    if (!judge.hasSolution())
      continue;
    Model<int64_t> model(problem, LevelWeights::of(problem));
    for (double limit : {1.0, 9.0, 27.0, 1e9}) {
      EliminationOrder order = EliminationOrder::findSplitting(model, limit);
      Elimination<int64_t> elimination(model, order);
      int64_t bound = elimination.run(model.unary);
      EXPECT_LE(bound, int64_t(judge.cost())) << "seed " << seed;
      if (order.splits == 0)
        EXPECT_EQ(bound, int64_t(judge.cost())) << "seed " << seed;
    }
  }
}

Problem wideProblem(uint64_t seed, int nodes, int edges, int choices) {
  RandomShape shape;
  shape.nodes = nodes;
  shape.edges = edges;
  shape.choices = choices;
  shape.costRange = 1000;
  shape.forbidden = 0;
  shape.resources = 1;
  return randomProblem(seed, shape);
}

SolveOptions wideOptions(double seconds) {
  SolveOptions options;
  options.maxTableEntries = 4096;
  options.deadlineSeconds = seconds;
  return options;
}

// Too wide to eliminate, so wide that regions must work together: legal and
// bounded at the deadline.
TEST(Solve, SearchesWideProblems) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Problem problem = wideProblem(5000 + seed, 60, 150, 4);
    SolveOptions options = wideOptions(2);
    SolveResult result = solve(problem, options);
    ASSERT_TRUE(result.hasSolution()) << "seed " << seed;
    llvm::Expected<Evaluation> verified = verify(problem, result.solution);
    ASSERT_TRUE(bool(verified)) << llvm::toString(verified.takeError());
    EXPECT_LE(result.lowerBound, result.cost());
    // Any legal solution at random is far worse.
    SolveResult random = randomSolution(problem, seed);
    if (random.hasSolution())
      EXPECT_LT(result.cost(), random.evaluation.cost[0]);
  }
}

// Seconds that are counted end a search at one point, whatever else the machine
// does in between.
TEST(Solve, CountedSecondsEndAtOnePoint) {
  Problem problem = wideProblem(5001, 200, 700, 6);
  auto run = [&] {
    Effort effort;
    SolveOptions options = wideOptions(0.3);
    options.effort = &effort;
    SolveResult result = solve(problem, options);
    EXPECT_EQ(result.statistics.stoppedBy, "deadline");
    EXPECT_GE(effort.seconds(), 0.3);
    return std::tuple(effort.seconds(), result.solution, result.lowerBound,
                      result.statistics.localSearchMoves);
  };
  auto first = run();
  std::atomic<bool> isOver = false;
  std::vector<std::thread> busy;
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i)
    busy.emplace_back([&] {
      while (!isOver)
        ;
    });
  auto second = run();
  isOver = true;
  for (std::thread &thread : busy)
    thread.join();
  EXPECT_EQ(first, second);
}

// The same question twice gives the same answer.
TEST(Solve, Deterministic) {
  RandomShape shape;
  shape.resources = 1;
  shape.nodes = 8;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Problem problem = randomProblem(seed, shape);
    EXPECT_EQ(solve(problem).solution, solve(problem).solution);
  }
}

} // namespace
