//===- ComputedTwiceTest.cpp - values that kernels compute twice ----------===//
#include "Graph.h"

#include "kerf/Fusion/ComputedTwice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

using testing::ElementsAre;
using testing::IsEmpty;

namespace {

/// Answers from tables: all that has operands is cheap, and everything that is
/// decided is taken by FusionGroups::copies.
class Twice : public TwiceQuestions {
public:
  explicit Twice(FusionGroups &map) : map(map) {}

  bool isCheap(Operation *op) const override {
    return op->getNumOperands() > 0 && !dear.contains(op);
  }
  bool isInline(Operation *) const override { return false; }
  bool isOverwritten(Value value) const override {
    return overwritten.contains(value.getDefiningOp());
  }
  bool staysInMemory(Value value) const override {
    return value.getDefiningOp()->getNumOperands() == 0;
  }
  bool isApart(OpOperand &read) const override {
    return apart.contains(read.getOwner());
  }
  int64_t bytesOf(Value memory) const override {
    auto it = bytes.find(memory.getDefiningOp());
    return it == bytes.end() ? 1 : it->second;
  }
  bool take(const ComputedTwice &twice) override {
    if (refuses)
      return false;
    taken.push_back(twice.value.getDefiningOp());
    chains.push_back(twice.chain);
    for (int64_t reader : twice.readers)
      for (Operation *op : twice.chain)
        if (!map.computes(reader, op)) {
          map.copies[op].push_back(reader);
          map.groups[reader].ops.push_back(op);
        }
    return true;
  }

  FusionGroups &map;
  DenseSet<Operation *> dear, overwritten, apart;
  DenseMap<Operation *, int64_t> bytes;
  bool refuses = false;
  std::vector<Operation *> taken;
  std::vector<SmallVector<Operation *>> chains;
};

class ComputedTwiceTest : public testing::Test {
protected:
  void group(llvm::ArrayRef<Operation *> ops, bool isKernel = true) {
    FusionGroup &group = map.groups.emplace_back();
    group.ops.assign(ops.begin(), ops.end());
    group.isKernel = isKernel;
    for (Operation *op : ops)
      map.groupOf[op] = static_cast<int64_t>(map.groups.size()) - 1;
  }
  void decide() {
    for (auto [place, op] : llvm::enumerate(graph.ops()))
      map.position[op] = static_cast<int64_t>(place);
    computeTwice(map, twice);
  }

  Graph graph;
  FusionGroups map;
  Twice twice{map};
};

// x -> shifted -> exp -> sum, and another kernel that reads exp.
TEST_F(ComputedTwiceTest, AChainIsComputedAgain) {
  Operation *x = graph.add({}), *shifted = graph.addReader({x}),
            *exp = graph.addReader({shifted}), *sum = graph.addReader({exp}),
            *gradient = graph.addReader({exp});
  group({shifted, exp, sum});
  group({gradient});
  decide();
  EXPECT_THAT(twice.taken, ElementsAre(exp));
  EXPECT_THAT(twice.chains[0], ElementsAre(shifted, exp));
  EXPECT_TRUE(map.computes(1, exp));
  EXPECT_TRUE(map.computes(0, exp));
}

TEST_F(ComputedTwiceTest, WhatReadsMoreThanItSavesIsStored) {
  Operation *x = graph.add({}), *y = graph.add({}), *z = graph.add({}),
            *made = graph.addReader({x, y, z}),
            *reader = graph.addReader({made});
  group({made});
  group({reader});
  twice.bytes[made] = 3;
  decide();
  EXPECT_THAT(twice.taken, ElementsAre(made)); // 3 for 6
  map.copies.clear();
  twice.taken.clear();
  twice.bytes[made] = 1;
  map.groups[1].ops = {reader};
  decide();
  EXPECT_THAT(twice.taken, IsEmpty()); // 3 for 2
}

// What is not there anyway would live longer.
TEST_F(ComputedTwiceTest, LeavesThatLiveLongerAreSmall) {
  Operation *x = graph.add({}), *call = graph.addReader({x}),
            *made = graph.addReader({call}), *reader = graph.addReader({made}),
            *other = graph.addReader({made});
  group({call}, /*isKernel=*/false);
  group({made});
  group({reader});
  group({other});
  twice.dear = {call};
  twice.bytes = {{made, 10}, {call, 21}};
  decide();
  EXPECT_THAT(twice.taken, IsEmpty());
  twice.bytes[call] = 13; // read twice for 10 written and read twice
  decide();
  EXPECT_THAT(twice.taken, ElementsAre(made));
}

TEST_F(ComputedTwiceTest, OnlyKernelsComputeAgain) {
  Operation *x = graph.add({}), *made = graph.addReader({x}),
            *reader = graph.addReader({made}), *call = graph.addReader({made});
  group({made});
  group({reader});
  group({call}, /*isKernel=*/false);
  decide();
  EXPECT_THAT(twice.taken, IsEmpty());
}

TEST_F(ComputedTwiceTest, WhatIsReadElsewhereIsStored) {
  Operation *x = graph.add({}), *made = graph.addReader({x}),
            *reader = graph.addReader({made});
  graph.addReader({made}); // in no group
  group({made});
  group({reader});
  decide();
  EXPECT_THAT(twice.taken, IsEmpty());
}

TEST_F(ComputedTwiceTest, WhatIsMovedOrWrittenOverIsStored) {
  Operation *x = graph.add({}), *made = graph.addReader({x}),
            *reader = graph.addReader({made});
  group({made});
  group({reader});
  twice.apart = {reader};
  decide();
  EXPECT_THAT(twice.taken, IsEmpty());
  twice.apart.clear();
  twice.overwritten = {x};
  decide();
  EXPECT_THAT(twice.taken, IsEmpty());
  twice.overwritten.clear();
  twice.refuses = true;
  decide();
  EXPECT_THAT(map.copies, IsEmpty());
  twice.refuses = false;
  decide();
  EXPECT_THAT(twice.taken, ElementsAre(made));
}

// A kernel that has a copy does not wait for the original, wherever that is.
TEST_F(ComputedTwiceTest, CopiesDependOnNothing) {
  Operation *x = graph.add({}), *made = graph.addReader({x}),
            *first = graph.addReader({made}),
            *second = graph.addReader({made, first});
  group({first});
  group({second, made}); // as if its own kernel had gone
  map.copies[made] = {0};
  map.groups[0].ops.push_back(made);
  decide();
  Answers answers;
  EXPECT_THAT(orderOf(map, answers), ElementsAre(0, 1));
}

} // namespace
