//===- GroupsTest.cpp - what is computed together -------------------------===//
//
// Single decisions by hand; then random blocks with random answers, of which
// every promise of Groups.h is checked from the outside: by paths between
// groups, not by how they were formed.
//
//===----------------------------------------------------------------------===//
#include "RandomBlock.h"

#include "../Support/Seeds.h"

#include "mlir/IR/Diagnostics.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

using Role = FusionQuestions::Role;
using testing::ElementsAre;

namespace {

using Ops = SmallVector<Operation *>;

class GroupsTest : public ::testing::Test {
protected:
  /// The ops of each group that is left, by the place of the last of them.
  std::vector<Ops> form() {
    FailureOr<FusionGroups> formed = formFusionGroups(graph.block, answers);
    if (failed(formed)) {
      ADD_FAILURE() << "an op cannot be computed";
      return {};
    }
    map = std::move(*formed);
    std::vector<Ops> groups;
    for (const FusionGroup &group : map.groups)
      if (!group.ops.empty())
        groups.push_back(group.ops);
    llvm::sort(groups, [](const Ops &a, const Ops &b) {
      return a.back()->isBeforeInBlock(b.back());
    });
    return groups;
  }

  Graph graph;
  Answers answers;
  FusionGroups map;
};

TEST_F(GroupsTest, AChainIsOneKernel) {
  Operation *a = graph.add({}), *b = graph.addReader({a}),
            *c = graph.addReader({b});
  EXPECT_THAT(form(), ElementsAre(Ops{a, b, c}));
  EXPECT_TRUE(map.groups[map.find(a)].isKernel);
  EXPECT_EQ(map.find(nullptr), -1);
}

TEST_F(GroupsTest, NoPathLeadsOutAndBack) {
  Operation *a = graph.add({}), *call = graph.addReader({a}),
            *c = graph.addReader({a, call});
  answers.roles[call] = Role::Call;
  EXPECT_THAT(form(), ElementsAre(Ops{a}, Ops{call}, Ops{c}));
  EXPECT_FALSE(map.groups[map.find(call)].isKernel);
}

// The producer between the two is drawn in first: then there is no detour.
TEST_F(GroupsTest, TheLatestProducerFirst) {
  Operation *a = graph.add({}), *b = graph.addReader({a}),
            *c = graph.addReader({a, b});
  answers.fuse = [&](Answers::Ops ops) {
    return ops.size() == 3 || llvm::is_contained(ops, c);
  };
  EXPECT_THAT(form(), ElementsAre(Ops{a, b, c}));
}

TEST_F(GroupsTest, WhatCannotBeFusedIsNot) {
  Operation *a = graph.add({}), *b = graph.addReader({a}),
            *c = graph.addReader({b});
  answers.fuse = [](Answers::Ops ops) { return ops.size() <= 2; };
  EXPECT_THAT(form(), ElementsAre(Ops{a, b}, Ops{c}));
}

TEST_F(GroupsTest, KernelsHaveALargestSize) {
  Operation *op = graph.add({});
  for (size_t i = 0; i < kMaxKernelOps; ++i)
    op = graph.addReader({op});
  std::vector<Ops> groups = form();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].size(), kMaxKernelOps);
  EXPECT_THAT(groups[1], ElementsAre(op));
}

TEST_F(GroupsTest, WhatIsComputedAtLoadIsApart) {
  Operation *a = graph.add({}), *b = graph.addReader({a}),
            *c = graph.addReader({b});
  answers.atLoad = {a, b};
  EXPECT_THAT(form(), ElementsAre(Ops{a, b}, Ops{c}));
  EXPECT_TRUE(map.groups[map.find(a)].isAtLoad);
  EXPECT_FALSE(map.groups[map.find(c)].isAtLoad);
}

TEST_F(GroupsTest, SomethingMustHappenInBetween) {
  Operation *a = graph.add({}), *b = graph.addReader({a, a});
  answers.apart.insert({b, 1});
  EXPECT_THAT(form(), ElementsAre(Ops{a}, Ops{b}));
}

TEST_F(GroupsTest, SomeOpsJoinNoOther) {
  Operation *a = graph.add({}), *b = graph.addReader({a}),
            *c = graph.addReader({b});
  answers.single = {b};
  EXPECT_THAT(form(), ElementsAre(Ops{a}, Ops{b}, Ops{c}));
}

TEST_F(GroupsTest, SourcesAndDeadOpsAreInNoGroup) {
  Operation *source = graph.add({}), *a = graph.addReader({source}),
            *unused = graph.addReader({a});
  answers.roles[source] = Role::None;
  answers.dead = {unused};
  EXPECT_THAT(form(), ElementsAre(Ops{a}));
  EXPECT_EQ(map.find(source), -1);
  EXPECT_EQ(map.find(unused), -1);
}

TEST_F(GroupsTest, ACallTakesInItsOnlyReaders) {
  Operation *call = graph.add({}), *bias = graph.addReader({call}),
            *view = graph.addReader({bias}), *relu = graph.addReader({view}),
            *x = graph.addReader({relu}), *y = graph.addReader({relu});
  answers.roles[call] = Role::Call;
  answers.addView(view);
  answers.taken = {bias, relu, x, y};
  // The result of relu has two readers.
  EXPECT_THAT(form(), ElementsAre(Ops{call, bias, relu}, Ops{x}, Ops{y}));
  EXPECT_FALSE(map.groups[map.find(relu)].isKernel);
  answers.taken = {relu};
  EXPECT_THAT(form(), ElementsAre(Ops{call}, Ops{bias, relu, x, y}));
  answers.taken = {bias, relu};
  answers.apart.insert({relu, 0});
  EXPECT_THAT(form(), ElementsAre(Ops{call, bias}, Ops{relu, x, y}));
}

// One op is taken in by one call, the first.
TEST_F(GroupsTest, TwoCallsWithOneReader) {
  Operation *a = graph.add({}), *b = graph.add({}),
            *sum = graph.addReader({a, b});
  answers.roles[a] = answers.roles[b] = Role::Call;
  answers.taken = {sum};
  EXPECT_THAT(form(), ElementsAre(Ops{b}, Ops{a, sum}));
}

TEST_F(GroupsTest, WhatFollowsIsWhereItsReaderIs) {
  Operation *a = graph.add({}), *slice = graph.addReader({a}),
            *kernel = graph.addReader({slice}),
            *other = graph.addReader({kernel}),
            *gather = graph.addReader({other});
  answers.followers = {slice, other};
  answers.roles[a] = answers.roles[gather] = Role::Alone;
  // A reader that is no kernel reads what a kernel has computed.
  EXPECT_THAT(form(),
              ElementsAre(Ops{a}, Ops{slice, kernel, other}, Ops{gather}));
}

TEST_F(GroupsTest, WhatFollowsIsComputedFirstWhereItMustBe) {
  Operation *a = graph.add({}), *slice = graph.addReader({a}),
            *kernel = graph.addReader({slice});
  answers.roles[a] = Role::Alone;
  answers.followers = {slice};
  answers.refusal = [](Answers::Ops ops) {
    return ops.size() > 1 ? std::string("one at a time") : std::string();
  };
  answers.fuse = [](Answers::Ops) { return false; };
  EXPECT_THAT(form(), ElementsAre(Ops{a}, Ops{slice}, Ops{kernel}));

  // Where it cannot be, nothing can.
  answers.inlined = {slice};
  std::string message;
  ScopedDiagnosticHandler handler(&graph.context, [&](Diagnostic &diagnostic) {
    message = diagnostic.str();
    return success();
  });
  EXPECT_TRUE(failed(formFusionGroups(graph.block, answers)));
  EXPECT_THAT(message, testing::HasSubstr("cannot be compiled: one at a time"));
}

// One that is computed first is refused itself: each op is computed once.
TEST_F(GroupsTest, WhatFollowsWhatIsComputedFirst) {
  Operation *a = graph.add({}), *outer = graph.addReader({a}),
            *inner = graph.addReader({outer}),
            *kernel = graph.addReader({inner});
  answers.roles[a] = Role::Alone;
  answers.followers = {outer, inner};
  answers.refusal = [](Answers::Ops ops) {
    return ops.size() > 1 ? std::string("one at a time") : std::string();
  };
  answers.fuse = [](Answers::Ops) { return false; };
  EXPECT_THAT(form(), ElementsAre(Ops{a}, Ops{outer}, Ops{inner}, Ops{kernel}));
}

TEST(FollowEpilogueTest, StopsAtSeveralReadersAndWhatIsNotTaken) {
  Graph graph;
  Operation *a = graph.add({}), *b = graph.addReader({a}),
            *c = graph.addReader({b}), *two = graph.addReader({c}, 2),
            *d = graph.addReader({two});
  auto onlyReader = [](Value value) -> OpOperand * {
    return value.hasOneUse() ? value.use_begin().getOperand() : nullptr;
  };
  auto takeAll = [](OpOperand &read) { return read.getOwner()->getResult(0); };
  // An op with two results is not taken in.
  EXPECT_EQ(followEpilogue(a->getResult(0), onlyReader, takeAll),
            c->getResult(0));
  EXPECT_EQ(followEpilogue(two->getResult(0), onlyReader, takeAll),
            d->getResult(0));
  auto takeOne = [&](OpOperand &read) {
    return read.getOwner() == b ? b->getResult(0) : Value();
  };
  EXPECT_EQ(followEpilogue(a->getResult(0), onlyReader, takeOne),
            b->getResult(0));
  graph.addReader({b});
  EXPECT_EQ(followEpilogue(a->getResult(0), onlyReader, takeAll),
            b->getResult(0));
}

/// Whether a group that a call has opened is the longest that it may be.
void checkCall(const Answers &answers, const Ops &ops,
               const FusionGroups &map) {
  ASSERT_EQ(answers.roleOf(ops.front()), Role::Call);
  for (auto [i, op] : llvm::enumerate(ops)) {
    SmallVector<OpOperand *> reads = answers.readsOf(op);
    bool isLast = i + 1 == ops.size();
    bool goesOn = reads.size() == 1 && !answers.isApart(*reads[0]) &&
                  answers.takesIn(ArrayRef(ops).take_front(i + 1), *reads[0]);
    if (!isLast) {
      ASSERT_TRUE(goesOn);
      ASSERT_EQ(reads[0]->getOwner(), ops[i + 1]);
    } else if (goesOn) {
      // Another call was there before.
      Operation *next = reads[0]->getOwner();
      ASSERT_GE(map.find(next), 0);
      ASSERT_FALSE(map.groups[map.find(next)].isKernel);
    }
  }
}

void checkKernel(const Answers &answers, const Ops &ops) {
  ASSERT_LE(ops.size(), kMaxKernelOps);
  DenseSet<Operation *> members(ops.begin(), ops.end());
  int64_t own = 0;
  for (Operation *op : ops) {
    bool follows = op->hasOneUse() && answers.followers.contains(op) &&
                   members.contains(*op->user_begin());
    own += !follows;
    ASSERT_EQ(answers.roleOf(op), Role::Kernel);
    for (OpOperand &operand : op->getOpOperands())
      if (members.contains(answers.makerOf(operand)))
        ASSERT_FALSE(answers.isApart(operand));
  }
  if (own == 1)
    return;
  ASSERT_TRUE(answers.canFuse(ops));
  for (Operation *op : ops)
    ASSERT_TRUE(answers.mayJoin(op));
}

TEST(RandomGroupsTest, GroupsAreWhatIsPromised) {
  int64_t merged = 0;
  bool all = forEachSeed(0, 3000, [&](unsigned seed) {
    RandomBlock random(seed, /*fusesAll=*/false);
    const Answers &answers = random.answers;
    FailureOr<FusionGroups> map = formFusionGroups(random.graph.block, answers);
    ASSERT_TRUE(succeeded(map));
    // Each op is in one group, but for sources and views.
    DenseMap<Operation *, int64_t> groupOf;
    for (auto [id, group] : llvm::enumerate(map->groups)) {
      for (auto [i, op] : llvm::enumerate(group.ops)) {
        ASSERT_TRUE(groupOf.insert({op, id}).second);
        ASSERT_TRUE(i == 0 || group.ops[i - 1]->isBeforeInBlock(op));
        if (group.isKernel)
          ASSERT_EQ(answers.isAtLoad(op), group.isAtLoad);
      }
      if (group.ops.empty())
        continue;
      merged += group.ops.size() > 1;
      if (group.isKernel)
        ASSERT_NO_FATAL_FAILURE(checkKernel(answers, group.ops));
      else if (group.ops.size() > 1)
        ASSERT_NO_FATAL_FAILURE(checkCall(answers, group.ops, *map));
    }
    int64_t number = 0;
    for (Operation *op : random.graph.ops()) {
      ASSERT_EQ(map->position.lookup(op), number++);
      ASSERT_EQ(groupOf.contains(op), answers.roleOf(op) != Role::None);
      ASSERT_EQ(map->find(op), groupOf.contains(op) ? groupOf[op] : -1);
    }
    // No group reads itself by way of another.
    auto before = closure(readGroups(*map, answers));
    for (auto [id, reached] : llvm::enumerate(before))
      ASSERT_FALSE(reached.count(id));
  });
  if (all)
    EXPECT_GT(merged, 3000);
}

// Where any union could be computed, no kernel is left beside one that it
// reads, unless a path leads from one to the other by way of a third, or
// something must happen in between.
TEST(RandomGroupsTest, NothingIsLeftThatCouldBeOne) {
  int64_t neighbours = 0;
  bool all = forEachSeed(10000, 2000, [&](unsigned seed) {
    RandomBlock random(seed, /*fusesAll=*/true);
    const Answers &answers = random.answers;
    FailureOr<FusionGroups> map = formFusionGroups(random.graph.block, answers);
    ASSERT_TRUE(succeeded(map));
    auto reads = readGroups(*map, answers), before = closure(reads);
    for (auto [reader, makers] : llvm::enumerate(reads))
      for (int64_t maker : makers) {
        const FusionGroup &a = map->groups[maker], &b = map->groups[reader];
        if (!a.isKernel || !b.isKernel || a.isAtLoad != b.isAtLoad)
          continue;
        ++neighbours;
        bool detour = llvm::any_of(makers, [&, maker = maker](int64_t other) {
          return other != maker && before[other].count(maker);
        });
        bool apart = llvm::any_of(b.ops, [&](Operation *op) {
          return llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
            return map->find(answers.makerOf(operand)) == maker &&
                   answers.isApart(operand);
          });
        });
        ASSERT_TRUE(detour || apart) << maker << " and " << reader;
      }
  });
  if (all)
    EXPECT_GT(neighbours, 100);
}

} // namespace
