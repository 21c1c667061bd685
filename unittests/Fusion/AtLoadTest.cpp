//===- AtLoadTest.cpp - what is computed once, at load --------------------===//
#include "Graph.h"

#include "../Support/Seeds.h"

#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

TEST(AtLoadTest, WhatDependsOnParametersAlone) {
  Graph graph;
  Operation *w = graph.add({}), *x = graph.add({}), *exp = graph.addReader({w}),
            *transpose = graph.addReader({w}), *inner = graph.addReader({exp}),
            *neg = graph.addReader({inner}), *add = graph.addReader({x, neg}),
            *product = graph.addReader({add, transpose});
  graph.addReader({product}, 0);
  auto isConstant = [&](Operation *op) { return op != x; };
  auto isShapeOp = [&](Operation *op) {
    return op == transpose || op == inner;
  };
  // The transpose is left to the product; `inner` moves what is derived for
  // what is derived.
  EXPECT_EQ(findAtLoad(graph.block, isConstant, isShapeOp),
            (DenseSet<Operation *>{w, exp, inner, neg}));
}

// The definition, as two fixed points over random blocks: constant is what
// reads only constants; of that no shape op stays that anything else reads.
TEST(AtLoadTest, RandomBlocks) {
  int64_t found = 0, left = 0;
  bool all = forEachSeed(0, 500, [&](unsigned seed) {
    std::mt19937 random(seed);
    Graph graph;
    DenseSet<Operation *> changing, shapeOps;
    SmallVector<Operation *> made;
    for (unsigned count = 1 + random() % 15; count > 0; --count) {
      SmallVector<Operation *> makers;
      if (!made.empty())
        for (unsigned k = random() % 3; k > 0; --k)
          makers.push_back(made[random() % made.size()]);
      made.push_back(graph.addReader(makers));
      if (random() % 5 == 0)
        changing.insert(made.back());
      if (makers.size() == 1 && random() % 2)
        shapeOps.insert(made.back());
    }
    Operation *end = graph.addReader({made.back()}, 0);
    DenseSet<Operation *> expected(made.begin(), made.end());
    auto eraseUntilNone = [&](auto isWrong) {
      for (bool changed = true; changed;) {
        changed = false;
        for (Operation *op : made)
          if (expected.contains(op) && isWrong(op))
            changed |= expected.erase(op);
      }
    };
    eraseUntilNone([&](Operation *op) {
      return changing.contains(op) ||
             llvm::any_of(op->getOperands(), [&](Value operand) {
               return !expected.contains(operand.getDefiningOp());
             });
    });
    size_t constants = expected.size();
    eraseUntilNone([&](Operation *op) {
      return shapeOps.contains(op) &&
             llvm::any_of(op->getUsers(), [&](Operation *user) {
               return !expected.contains(user);
             });
    });
    auto isConstant = [&](Operation *op) {
      return op != end && !changing.contains(op);
    };
    auto isShapeOp = [&](Operation *op) { return shapeOps.contains(op); };
    ASSERT_EQ(findAtLoad(graph.block, isConstant, isShapeOp), expected);
    ASSERT_FALSE(expected.contains(end));
    found += expected.size();
    left += constants - expected.size();
  });
  if (all) {
    EXPECT_GT(found, 500);
    EXPECT_GT(left, 100);
  }
}

} // namespace
