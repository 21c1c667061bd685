//===- KeptValuesTest.cpp - what one part of a step leaves for another ----===//
//
// The oracle tries every set of values. A set is enough if all that is needed
// can be had from it: a value is there if it is kept or free, or can be
// repeated and its operands are there.
//
//===----------------------------------------------------------------------===//
#include "kerf/Fusion/KeptValues.h"

#include "Graph.h"

#include "../Support/Seeds.h"

#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

class Problem {
public:
  SmallVector<Value> solve() {
    return chooseKeptValues(
        {needed, [&](Value value) { return free.contains(value); },
         [&](Value value) { return repeatable.contains(value); },
         [&](Value value) { return bytes.lookup(value); }});
  }

  /// Adds what is computed anew to `repeated`. False if it cannot be had.
  bool canHave(Value value, const DenseSet<Value> &kept,
               DenseSet<Value> &repeated) const {
    if (kept.contains(value) || free.contains(value) ||
        repeated.contains(value))
      return true;
    if (!repeatable.contains(value))
      return false;
    repeated.insert(value);
    return llvm::all_of(
        value.getDefiningOp()->getOperands(),
        [&](Value operand) { return canHave(operand, kept, repeated); });
  }

  struct Cost {
    int64_t bytes = 0, repeated = 0;
    bool operator<(const Cost &other) const {
      return std::pair(bytes, repeated) <
             std::pair(other.bytes, other.repeated);
    }
  };
  /// None if the set is not enough.
  std::optional<Cost> costOf(ArrayRef<Value> kept) const {
    DenseSet<Value> set(kept.begin(), kept.end()), repeated;
    if (!llvm::all_of(
            needed, [&](Value value) { return canHave(value, set, repeated); }))
      return std::nullopt;
    Cost cost;
    for (Value value : kept)
      cost.bytes += bytes.lookup(value);
    cost.repeated = repeated.size();
    return cost;
  }

  SmallVector<Value> needed;
  DenseSet<Value> free, repeatable;
  DenseMap<Value, int64_t> bytes;
};

// The example of KeptValues.cpp: of the type that is wide and the one that is
// narrow the latter is kept, unless the former is needed anyway.
TEST(KeptValuesTest, TheNarrowOne) {
  Graph graph;
  Value a = graph.add({})->getResult(0), b = graph.add({a})->getResult(0),
        c = graph.add({b})->getResult(0);
  Problem problem;
  problem.needed = {c};
  problem.repeatable = {b, c};
  problem.bytes = {{a, 4}, {b, 2}, {c, 2}};
  // Of two that are as large the one that repeats less.
  EXPECT_THAT(problem.solve(), testing::ElementsAre(c));
  problem.needed = {c, a};
  EXPECT_THAT(problem.solve(), testing::ElementsAre(a));
  problem.needed = {c};
  problem.free = {a};
  EXPECT_THAT(problem.solve(), testing::IsEmpty());
  // What is kept already costs nothing.
  problem.free.clear();
  problem.bytes[a] = 0;
  EXPECT_THAT(problem.solve(), testing::ElementsAre(a));
}

TEST(KeptValuesTest, EverySetOfSmallProblems) {
  int64_t repeats = 0, ties = 0;
  bool all = forEachSeed(0, 1500, [&](unsigned seed) {
    std::mt19937 random(seed);
    Graph graph;
    Problem problem;
    SmallVector<Value> values;
    for (unsigned count = 1 + random() % 8; count > 0; --count) {
      SmallVector<Value> operands;
      if (!values.empty())
        for (unsigned k = random() % 3; k > 0; --k)
          operands.push_back(values[random() % values.size()]);
      Value value = graph.add(operands)->getResult(0);
      values.push_back(value);
      problem.bytes[value] = random() % 5;
      if (random() % 10 == 0)
        problem.free.insert(value);
      else if (!operands.empty() && random() % 4)
        problem.repeatable.insert(value);
      if (random() % 3 == 0)
        problem.needed.push_back(value);
    }
    SmallVector<Value> kept = problem.solve();
    auto cost = problem.costOf(kept);
    ASSERT_TRUE(cost) << "what is kept is not enough";
    for (Value value : kept)
      ASSERT_FALSE(problem.free.contains(value));
    std::optional<Problem::Cost> best;
    for (unsigned set = 0; set < 1u << values.size(); ++set) {
      SmallVector<Value> some;
      for (auto [i, value] : llvm::enumerate(values))
        if (set >> i & 1)
          some.push_back(value);
      auto other = problem.costOf(some);
      if (other && best && other->bytes == best->bytes)
        ++ties;
      if (other && (!best || *other < *best))
        best = other;
    }
    ASSERT_EQ(cost->bytes, best->bytes);
    ASSERT_EQ(cost->repeated, best->repeated);
    ASSERT_EQ(problem.solve(), kept);
    repeats += cost->repeated;
  });
  if (all) {
    EXPECT_GT(repeats, 200);
    EXPECT_GT(ties, 200);
  }
}

TEST(MovesOrCastsTest, NoArithmetic) {
  LoadedContext loaded;
  auto module = parseSourceString<ModuleOp>(
      R"(func.func @moves(%x: tensor<2x3xf32>, %i: tensor<2xi64>) {
           %0 = nn.transpose %x perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
           %1 = nn.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
           %2 = nn.slice %x from [0, 1] : (tensor<2x3xf32>) -> tensor<2x2xf32>
           %3 = nn.cast %x : (tensor<2x3xf32>) -> tensor<2x3xbf16>
           return
         }
         func.func @computes(%x: tensor<2x3xf32>, %w: tensor<3x2xf32>) {
           %0 = nn.exp %x : tensor<2x3xf32>
           %1 = nn.add %x, %x : tensor<2x3xf32>
           %2 = nn.matmul %x, %w : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
           %3 = nn.reduce sum %x dims [0] : (tensor<2x3xf32>) -> tensor<3xf32>
           return
         })",
      &loaded.context);
  ASSERT_TRUE(module);
  for (bool moves : {true, false}) {
    auto function =
        module->lookupSymbol<func::FuncOp>(moves ? "moves" : "computes");
    for (Operation &op : function.getBody().front())
      EXPECT_EQ(movesOrCasts(&op), moves && !isa<func::ReturnOp>(op))
          << op.getName().getStringRef().str();
  }
}

} // namespace
