//===- EliminationTest.cpp - exactness and reuse --------------------------===//
#include "RandomProblems.h"

#include <gtest/gtest.h>

using namespace kerf::plan;

namespace {

void expectSame(const Problem &problem, const SolveResult &judge,
                const SolveResult &result, uint64_t seed) {
  ASSERT_EQ(toString(result.status), toString(judge.status)) << "seed " << seed;
  if (!judge.hasSolution())
    return;
  EXPECT_EQ(compare(result.evaluation.cost, judge.evaluation.cost), 0)
      << "seed " << seed << ": " << toString(result.cost()) << ", expected "
      << toString(judge.cost());
  llvm::Expected<Evaluation> verified = verify(problem, result.solution);
  ASSERT_TRUE(bool(verified)) << llvm::toString(verified.takeError());
  EXPECT_EQ(result.lowerBound, judge.cost()) << "seed " << seed;
}

// The optimum of brute force, with hyperedges, forbidden entries and ties.
TEST(Elimination, MatchesBruteForce) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    RandomShape shape;
    shape.nodes = 1 + seed % 8;
    shape.edges = seed % 13;
    shape.forbidden = (seed % 5) * 0.1;
    shape.negative = seed % 2;
    Problem problem = randomProblem(seed, shape);
    ASSERT_FALSE(bool(problem.check()));
    expectSame(problem, bruteForce(problem), eliminate(problem), seed);
  }
}

// All three levels are minimised in order, in 64 and in 128 bits.
TEST(Elimination, Lexicographic) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomShape shape;
    shape.levels = true;
    shape.edges = seed % 13;
    Problem problem = randomProblem(seed, shape);
    if (seed % 2)
      for (CostTable &table : problem.tables)
        for (int64_t &value : table.levels[2])
          value *= 1'000'000'000'000;
    expectSame(problem, bruteForce(problem), eliminate(problem), seed);
  }
}

// Costs whose sums pass 64 bits are exact.
TEST(Elimination, BeyondSixtyFourBits) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    RandomShape shape;
    shape.costRange = kMaxEntry;
    Problem problem = randomProblem(seed, shape);
    expectSame(problem, bruteForce(problem), eliminate(problem), seed);
  }
}

/// `layers` equal layers of a few nodes, each joined to the next.
Problem layered(int layers) {
  Problem problem = randomProblem(7, {});
  Problem result;
  uint32_t previous = 0;
  std::mt19937_64 random(3);
  CostTable bridge = CostTable::zeros(9);
  for (int64_t &value : bridge.levels[0])
    value = int64_t(random() % 10);
  uint32_t bridgeTable = result.addTable(bridge);
  std::vector<uint32_t> tables;
  for (int pair = 0; pair < 6; ++pair) {
    CostTable table = CostTable::zeros(9);
    for (int64_t &value : table.levels[0])
      value = int64_t(random() % 50);
    tables.push_back(result.addTable(table));
  }
  for (int layer = 0; layer < layers; ++layer) {
    uint32_t first = result.nodes.size();
    for (int n = 0; n < 4; ++n)
      result.addNode(CostTable({1, 2, int64_t(n)}));
    int pair = 0;
    for (uint32_t a = 0; a < 4; ++a)
      for (uint32_t b = a + 1; b < 4; ++b)
        result.addEdge({first + a, first + b}, tables[pair++]);
    if (layer > 0)
      result.addEdge({previous, first}, bridgeTable);
    previous = first + 3;
  }
  return result;
}

// Equal layers are eliminated once: work grows with the logarithm, not with
// the number of layers.
TEST(Elimination, ReusesLayers) {
  SolveResult few = eliminate(layered(12)), many = eliminate(layered(96));
  EXPECT_EQ(few.status, Status::Optimal);
  EXPECT_EQ(many.status, Status::Optimal);
  EXPECT_LT(many.statistics.eliminations,
            few.statistics.eliminations + few.statistics.eliminations / 2 + 8);
  EXPECT_GT(many.statistics.eliminationsReused,
            4 * many.statistics.eliminations);
}

// Limits are ignored: the bound holds, the solution is only called optimal
// when it keeps them.
TEST(Elimination, BoundsLimitedProblems) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomShape shape;
    shape.resources = 1 + seed % 2;
    Problem problem = randomProblem(seed, shape);
    SolveResult judge = bruteForce(problem), result = eliminate(problem);
    if (result.optimal())
      EXPECT_EQ(compare(result.evaluation.cost, judge.evaluation.cost), 0);
    else if (judge.hasSolution())
      EXPECT_LE(result.lowerBound, judge.cost());
  }
}

// A table too large is refused, not attempted.
TEST(Elimination, RespectsTableLimit) {
  SolveOptions options;
  options.maxTableEntries = 8;
  SolveResult result = eliminate(layered(3), options);
  EXPECT_EQ(result.status, Status::Unknown);
  EXPECT_EQ(result.statistics.stoppedBy, "table too large");
}

} // namespace
