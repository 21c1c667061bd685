//===- DiffusionTest.cpp - bounds by message passing ----------------------===//
#include "../../../lib/Plan/Solver/Diffusion.h"
#include "RandomProblems.h"

#include <gtest/gtest.h>

using namespace kerf::plan;

namespace {

RandomShape shapeOf(uint64_t seed) {
  RandomShape shape;
  shape.nodes = 2 + seed % 7;
  shape.edges = seed % 14;
  shape.choices = 2 + seed % 3;
  shape.negative = seed % 2;
  shape.levels = seed % 3 == 0;
  shape.forbidden = (seed % 5) * 0.08;
  return shape;
}

/// Passes with and without a cost to stay below.
template <typename V> void checkBounds(uint64_t seed) {
  Problem problem = randomProblem(6000 + seed, shapeOf(seed));
  SolveResult judge = bruteForce(problem);
  Model<V> model(problem, LevelWeights::of(problem));
  if (!judge.hasSolution())
    return;
  V best = model.costOf(judge.solution);
  {
    Diffusion<V> diffusion(model);
    V bound = diffusion.bound();
    for (int pass = 0; pass < 20; ++pass) {
      diffusion.pass(pass % 2 == 0, infinity<V>());
      EXPECT_GE(diffusion.bound(), bound) << "seed " << seed;
      bound = diffusion.bound();
      ASSERT_FALSE(diffusion.isEmpty()) << "seed " << seed;
      EXPECT_LE(bound, best) << "seed " << seed;
      EXPECT_GE(model.costOf(diffusion.decoded()), best) << "seed " << seed;
    }
  }
  {
    Diffusion<V> diffusion(model);
    for (int pass = 0; pass < 20; ++pass)
      diffusion.pass(pass % 2 == 0, best + 1);
    ASSERT_FALSE(diffusion.isEmpty()) << "seed " << seed;
    std::vector<std::vector<char>> kept = diffusion.kept();
    for (uint32_t node = 0; node < judge.solution.size(); ++node)
      EXPECT_TRUE(kept[node][judge.solution[node]]) << "seed " << seed;
  }
}

// A bound never falls, never passes the optimum of brute force, and what is
// dropped is in no solution that is cheap enough.
TEST(Diffusion, BoundsBruteForce) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    checkBounds<int64_t>(seed);
    checkBounds<Sum>(seed);
  }
}

/// Prices that change between passes, under limits that bind.
template <typename V> void checkLimits(uint64_t seed) {
  RandomShape shape = shapeOf(seed);
  shape.resources = 1 + seed % 2;
  shape.tightness = 0.2 + 0.1 * double(seed % 6);
  Problem problem = randomProblem(7000 + seed, shape);
  SolveResult judge = bruteForce(problem);
  Model<V> model(problem, LevelWeights::of(problem));
  if (!judge.hasSolution())
    return;
  V best = model.costOf(judge.solution);
  std::mt19937_64 random(seed);
  for (V goal : {infinity<V>(), best + 1}) {
    Diffusion<V> diffusion(model);
    std::vector<Sum> prices(model.rows.size(), 0);
    for (int pass = 0; pass < 24; ++pass) {
      if (pass % 3 == 2) {
        for (Sum &price : prices)
          price = Sum(random() % 8) << priceShift<V>();
        diffusion.setPrices(prices);
      }
      diffusion.pass(pass % 2 == 0, goal);
      ASSERT_FALSE(diffusion.isEmpty()) << "seed " << seed;
      EXPECT_LE(diffusion.bound(), best) << "seed " << seed;
    }
    std::vector<std::vector<char>> kept = diffusion.kept();
    for (uint32_t node = 0; node < judge.solution.size(); ++node)
      EXPECT_TRUE(kept[node][judge.solution[node]]) << "seed " << seed;
  }
}

// The same of solutions that keep limits, at any prices.
TEST(Diffusion, BoundsBruteForceUnderLimits) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    checkLimits<int64_t>(seed);
    checkLimits<Sum>(seed);
  }
}

// On trees the bound is the optimum.
TEST(Diffusion, ExactOnTrees) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    Problem problem;
    auto draw = [&](size_t size) {
      CostTable table = CostTable::zeros(size);
      for (int64_t &value : table.levels[0])
        value = int64_t(random() % 1000);
      return table;
    };
    for (uint32_t node = 0; node < 9; ++node) {
      problem.addNode(draw(3));
      if (node > 0)
        problem.addEdge({uint32_t(random() % node), node}, draw(9));
    }
    Model<int64_t> model(problem, LevelWeights::of(problem));
    Diffusion<int64_t> diffusion(model);
    // Shares are rounded down.
    for (int pass = 0; pass < 300; ++pass)
      diffusion.pass(pass % 2 == 0, infinity<int64_t>());
    EXPECT_GE(diffusion.bound() + 9, int64_t(bruteForce(problem).cost()))
        << "round " << round;
  }
}

/// A recurrent model, step by step: each step reads the state of the one before
/// and what all steps share, and a last node reads all steps. A node costs
/// something by itself, and where two differ something is moved.
Problem unrolled(int steps, uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr uint32_t kChoices = 4, kShared = 4;
  Problem problem;
  auto addNode = [&] {
    CostTable costs = CostTable::zeros(kChoices);
    for (int64_t &value : costs.levels[0])
      value = 1000 + int64_t(random() % 300);
    return problem.addNode(std::move(costs));
  };
  auto addMove = [&](uint32_t from, uint32_t to, int64_t cost) {
    CostTable costs = CostTable::zeros(kChoices * kChoices);
    for (uint32_t a = 0; a < kChoices; ++a)
      for (uint32_t b = 0; b < kChoices; ++b)
        costs.levels[0][a * kChoices + b] =
            a == b ? 0 : cost + int64_t(random() % 100);
    problem.addEdge({from, to}, std::move(costs));
  };
  std::vector<uint32_t> shared, state;
  for (uint32_t i = 0; i < kShared; ++i)
    shared.push_back(addNode());
  for (int i = 0; i < 3; ++i)
    state.push_back(addNode());
  std::vector<uint32_t> outputs;
  for (int step = 0; step < steps; ++step) {
    std::vector<uint32_t> next;
    for (int i = 0; i < 3; ++i) {
      next.push_back(addNode());
      addMove(state[i], next[i], 150);
      addMove(state[(i + 1) % 3], next[i], 150);
      for (uint32_t other = i; other < kShared; other += 3)
        addMove(shared[other], next[i], 60);
    }
    outputs.push_back(next[0]);
    state = std::move(next);
  }
  uint32_t last = addNode();
  for (uint32_t output : outputs)
    addMove(output, last, 40);
  return problem;
}

// Where no elimination fits, messages find the optimum of large tables and
// prove it.
TEST(Diffusion, ProvesUnrolledSteps) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Problem problem = unrolled(12, seed);
    SolveOptions large;
    large.maxTableEntries = int64_t(1) << 26;
    SolveResult judge = eliminate(problem, large);
    ASSERT_TRUE(judge.optimal()) << judge.statistics.stoppedBy;
    SolveOptions small;
    small.maxTableEntries = 1 << 12;
    SolveResult result = solve(problem, small);
    EXPECT_TRUE(result.optimal())
        << "seed " << seed << ", stopped by " << result.statistics.stoppedBy;
    EXPECT_EQ(result.cost(), judge.cost()) << "seed " << seed;
    EXPECT_EQ(result.lowerBound, judge.cost()) << "seed " << seed;
    EXPECT_LT(result.statistics.seconds, 2) << "seed " << seed;
  }
}

} // namespace
