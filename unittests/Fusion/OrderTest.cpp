//===- OrderTest.cpp - the order in which groups run ----------------------===//
#include "RandomBlock.h"

#include "../Support/Seeds.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <set>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

using Role = FusionQuestions::Role;
using testing::ElementsAre;
using Numbers = SmallVector<int64_t>;

namespace {

//===----------------------------------------------------------------------===//
// orderByPriority
//===----------------------------------------------------------------------===//

TEST(OrderByPriorityTest, TheLeastOfWhatIsReady) {
  // 2 waits for 0; 3 is in nobody's way.
  Numbers successors[] = {{2}, {}, {}, {}};
  Numbers priorities = {5, 1, 0, 5};
  EXPECT_THAT(
      orderByPriority(successors, [&](int64_t i) { return priorities[i]; }),
      ElementsAre(1, 0, 2, 3));
  EXPECT_TRUE(orderByPriority({}, [](int64_t) { return 0; }).empty());
}

TEST(OrderByPriorityTest, ACycleIsLeftOut) {
  Numbers successors[] = {{1}, {2}, {1, 3}, {}, {}};
  EXPECT_THAT(orderByPriority(successors, [](int64_t) { return 0; }),
              ElementsAre(0, 4));
}

// The definition, number by number.
TEST(OrderByPriorityTest, RandomGraphs) {
  int64_t cycles = 0;
  bool all = forEachSeed(0, 1000, [&](unsigned seed) {
    std::mt19937 random(seed);
    int64_t count = 1 + random() % 10;
    std::vector<Numbers> successors(count);
    Numbers priorities;
    for (int64_t i = 0; i < count; ++i)
      priorities.push_back(random() % 4);
    for (unsigned edges = random() % (2 * count); edges > 0; --edges) {
      int64_t from = random() % count, to = random() % count;
      // Mostly forward; the same edge may be there twice.
      if (from > to && random() % 8)
        std::swap(from, to);
      if (from != to)
        successors[from].push_back(to);
    }
    Numbers expected;
    std::vector<bool> done(count);
    while (true) {
      int64_t best = -1;
      for (int64_t i = 0; i < count; ++i) {
        bool ready = !done[i];
        for (int64_t j = 0; j < count; ++j)
          ready &= done[j] || !llvm::is_contained(successors[j], i);
        if (ready && (best < 0 || priorities[i] < priorities[best]))
          best = i;
      }
      if (best < 0)
        break;
      done[best] = true;
      expected.push_back(best);
    }
    cycles += static_cast<int64_t>(expected.size()) < count;
    ASSERT_EQ(
        orderByPriority(successors, [&](int64_t i) { return priorities[i]; }),
        expected);
  });
  if (all)
    EXPECT_GT(cycles, 20);
}

//===----------------------------------------------------------------------===//
// orderOf
//===----------------------------------------------------------------------===//

FusionGroups groupsOf(Graph &graph, ArrayRef<SmallVector<Operation *>> groups) {
  FusionGroups map;
  for (auto [i, op] : llvm::enumerate(graph.ops()))
    map.position[op] = i;
  for (auto [id, ops] : llvm::enumerate(groups)) {
    map.groups.push_back({ops, /*isKernel=*/true, /*isAtLoad=*/false});
    for (Operation *op : ops)
      map.groupOf[op] = id;
  }
  return map;
}

/// The most bytes of results that are live at once, time by time. A kernel
/// writes over what nobody reads behind it, where that has the same size.
int64_t peakBytes(const FusionGroups &map, const Answers &answers,
                  ArrayRef<int64_t> order) {
  int64_t peak = 0;
  for (size_t time = 0; time < order.size(); ++time) {
    auto isReadFrom = [&](size_t first, size_t made, Operation *op) {
      return llvm::any_of(answers.readsOf(op), [&](OpOperand *read) {
        int64_t reader = map.find(read->getOwner());
        for (size_t later = first; later < order.size(); ++later)
          if (later != made && order[later] == reader)
            return true;
        return reader < 0; // to the end
      });
    };
    int64_t live = 0;
    std::multiset<int64_t> freed;
    for (size_t made = 0; made <= time; ++made)
      for (Operation *op : map.groups[order[made]].ops) {
        if (map.groups[order[made]].isAtLoad || !isReadFrom(time, made, op))
          continue;
        int64_t bytes = answers.bytesOf(op->getResult(0));
        live += bytes;
        if (made < time && !isReadFrom(time + 1, made, op))
          freed.insert(bytes);
        auto over = freed.find(bytes);
        if (made == time && map.groups[order[time]].isKernel &&
            over != freed.end()) {
          freed.erase(over);
          live -= bytes;
        }
      }
    peak = std::max(peak, live);
  }
  return peak;
}

TEST(OrderOfTest, TheProgramsOrder) {
  Graph graph;
  Operation *a = graph.add({}), *b = graph.add({}),
            *c = graph.addReader({a, b});
  Answers answers;
  EXPECT_THAT(orderOf(groupsOf(graph, {{c}, {b}, {a}}), answers),
              ElementsAre(2, 1, 0));
}

// {a, d} ends behind its reader c. c can have it computed at once, or wait:
// what it would keep alive decides.
TEST(OrderOfTest, TheOrderThatNeedsLessMemory) {
  Graph graph;
  Operation *x = graph.add({}), *a = graph.addReader({x}),
            *b = graph.addReader({x}), *c = graph.addReader({a, b}),
            *e = graph.addReader({b}), *d = graph.addReader({a}),
            *end = graph.addReader({c, d, e});
  FusionGroups map = groupsOf(graph, {{x}, {a, d}, {b}, {c}, {e}, {end}});
  Answers answers;
  for (int64_t large : {0, 1}) {
    answers.bytes[d] = large ? 100 : 1;
    answers.bytes[b] = large ? 1 : 100;
    Numbers order = orderOf(map, answers);
    ASSERT_EQ(order.size(), 6u);
    Numbers demand = {0, 2, 1, 3, 4, 5}, position = {0, 2, 4, 1, 3, 5};
    int64_t least = std::min(peakBytes(map, answers, demand),
                             peakBytes(map, answers, position));
    EXPECT_EQ(peakBytes(map, answers, order), least);
  }
}

// g, which frees nothing, waits for its reader behind w, which frees y; x waits
// for its reader as well.
TEST(OrderOfTest, WhatGivesMoreThanItFreesWaitsForItsReader) {
  for (int64_t large : {100, 1}) {
    Graph graph;
    Operation *x = graph.add({}), *y = graph.add({}), *g = graph.addReader({x}),
              *w = graph.addReader({x, y}), *e = graph.addReader({g, w});
    graph.addReader({e});
    FusionGroups map = groupsOf(graph, {{x}, {y}, {g}, {w}, {e}});
    Answers answers;
    answers.bytes = {{x, 20}, {y, 100}, {g, large}, {w, 2}, {e, 3}};
    EXPECT_THAT(orderOf(map, answers), large > 20 ? ElementsAre(0, 1, 3, 2, 4)
                                                  : ElementsAre(0, 1, 2, 3, 4));
  }
}

// k, which gives a little more than it frees, does not pass t, which waits for
// the same reader: before p t would be held while p and d are.
TEST(OrderOfTest, OfSeveralThatWaitTheLargestIsLast) {
  Graph graph;
  Operation *b = graph.add({}), *d = graph.add({}), *p = graph.addReader({d}),
            *k = graph.addReader({p}), *t = graph.add({}),
            *c = graph.addReader({k, t}), *e = graph.addReader({b, c});
  FusionGroups map = groupsOf(graph, {{b}, {d}, {p}, {k}, {t}, {c}, {e}});
  Answers answers;
  answers.bytes = {{b, 200}, {d, 15}, {p, 62}, {k, 63}, {t, 46}, {c, 1}};
  EXPECT_THAT(orderOf(map, answers), ElementsAre(1, 2, 3, 4, 5, 0, 6));
}

// Where the most is held elsewhere: b is made when its reader can run.
TEST(OrderOfTest, OfTwoWithOnePeakTheOneThatHoldsLess) {
  Graph graph;
  Operation *x = graph.add({}), *y = graph.addReader({x}), *a = graph.add({}),
            *c = graph.addReader({a}), *b = graph.add({}),
            *e = graph.addReader({b, c}), *d = graph.addReader({a}),
            *end = graph.addReader({y, e, d});
  FusionGroups map = groupsOf(graph, {{x}, {y}, {a, d}, {c}, {b}, {e}, {end}});
  Answers answers;
  answers.bytes = {{x, 100}, {b, 10}};
  EXPECT_THAT(orderOf(map, answers), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

// The first call waits for a group that ends behind the second: by its place in
// the program that would come first.
TEST(OrderOfTest, CommunicationStaysInOrder) {
  Graph graph;
  Operation *a = graph.add({}), *first = graph.addReader({a}),
            *second = graph.add({}), *tail = graph.addReader({a}),
            *end = graph.addReader({first, second, tail});
  FusionGroups map = groupsOf(graph, {{a, tail}, {first}, {second}, {end}});
  Answers answers;
  answers.bytes[second] = 0;
  EXPECT_THAT(orderOf(map, answers), ElementsAre(2, 0, 1, 3));
  answers.communication = {first, second};
  EXPECT_THAT(orderOf(map, answers), ElementsAre(0, 1, 2, 3));
}

TEST(OrderOfTest, ACycleIsLeftOut) {
  Graph graph;
  Operation *a = graph.add({}), *b = graph.addReader({a}),
            *c = graph.addReader({b}), *d = graph.addReader({c});
  FusionGroups map = groupsOf(graph, {{a, c}, {b}, {d}});
  Answers answers;
  for (Operation *large : {a, b, c, d}) {
    answers.bytes.clear();
    answers.bytes[large] = 100;
    EXPECT_LT(orderOf(map, answers).size(), 3u);
  }
}

// A cycle beside groups of which the order that is taken otherwise needs less.
TEST(OrderOfTest, ACycleIsNoticedWhateverItCosts) {
  for (int64_t large : {0, 1}) {
    Graph graph;
    Operation *x = graph.add({}), *a = graph.addReader({x}),
              *b = graph.addReader({x}), *c = graph.addReader({a, b}),
              *e = graph.addReader({b}), *d = graph.addReader({a}),
              *end = graph.addReader({c, d, e}), *p = graph.addReader({end}),
              *q = graph.addReader({p}), *r = graph.addReader({q});
    FusionGroups map =
        groupsOf(graph, {{x}, {a, d}, {b}, {c}, {e}, {end}, {p, r}, {q}});
    Answers answers;
    answers.bytes[d] = large ? 100 : 1;
    answers.bytes[b] = large ? 1 : 100;
    EXPECT_EQ(orderOf(map, answers).size(), 6u);
  }
}

// Groups as they are formed, and random groups, which may form cycles.
TEST(OrderOfTest, RandomBlocks) {
  int64_t interleaved = 0, cycles = 0, waiting = 0;
  bool all = forEachSeed(0, 3000, [&](unsigned seed) {
    RandomBlock random(seed, /*fusesAll=*/false);
    const Answers &answers = random.answers;
    FailureOr<FusionGroups> formed =
        formFusionGroups(random.graph.block, answers);
    ASSERT_TRUE(succeeded(formed));
    FusionGroups map = std::move(*formed);
    bool arbitrary = seed % 3 == 0;
    if (arbitrary) {
      // Two kernels become one, whatever leads from one to the other.
      std::mt19937 draw(seed);
      SmallVector<int64_t> kernels;
      for (auto [id, group] : llvm::enumerate(map.groups))
        if (group.isKernel && !group.ops.empty() && !group.isAtLoad)
          kernels.push_back(id);
      if (kernels.size() < 2)
        return;
      std::shuffle(kernels.begin(), kernels.end(), draw);
      FusionGroup &into = map.groups[kernels[0]],
                  &from = map.groups[kernels[1]];
      for (Operation *op : from.ops)
        map.groupOf[op] = kernels[0];
      into.ops.append(from.ops);
      from.ops.clear();
      llvm::sort(into.ops, [](Operation *a, Operation *b) {
        return a->isBeforeInBlock(b);
      });
    }
    size_t count = llvm::count_if(map.groups, [](const FusionGroup &group) {
      return !group.ops.empty();
    });
    auto reads = readGroups(map, answers), before = closure(reads);
    bool cycle = false;
    for (auto [id, reached] : llvm::enumerate(before))
      cycle |= reached.count(id) > 0;
    Numbers order = orderOf(map, answers);
    if (cycle) {
      ++cycles;
      ASSERT_LT(order.size(), count);
      return;
    }
    ASSERT_EQ(order.size(), count);
    ASSERT_EQ(orderOf(map, answers), order);
    // Every group once, behind all that it reads.
    std::vector<int64_t> turn(map.groups.size(), -1);
    for (auto [time, id] : llvm::enumerate(order)) {
      ASSERT_FALSE(map.groups[id].ops.empty());
      ASSERT_EQ(turn[id], -1);
      turn[id] = time;
    }
    auto positionOf = [&](int64_t id) {
      return map.position.lookup(map.groups[id].ops.back());
    };
    bool isInterleaved = false;
    for (int64_t id : order)
      for (int64_t maker : reads[id]) {
        ASSERT_LT(turn[maker], turn[id]);
        isInterleaved |= positionOf(maker) > positionOf(id);
      }
    // The order of the program, where no group ends behind its reader, but
    // for groups that wait to lower the peak.
    interleaved += isInterleaved;
    Numbers inTurn = order;
    llvm::sort(inTurn, [&](int64_t a, int64_t b) {
      return positionOf(a) < positionOf(b);
    });
    if (!isInterleaved && order != inTurn) {
      ++waiting;
      ASSERT_LT(peakBytes(map, answers, order),
                peakBytes(map, answers, inTurn));
    }
    // Communication keeps its order, but where a call waits for a later one.
    Numbers calls;
    for (int64_t id : order)
      if (answers.isCommunication(map.groups[id].ops.front()))
        calls.push_back(id);
    llvm::sort(calls, [&](int64_t a, int64_t b) {
      return positionOf(a) < positionOf(b);
    });
    auto chained = reads;
    for (size_t i = 1; i < calls.size(); ++i)
      if (turn[calls[i - 1]] < turn[calls[i]])
        chained[calls[i]].insert(calls[i - 1]);
    auto waits = closure(chained);
    for (size_t i = 1; i < calls.size(); ++i)
      if (turn[calls[i - 1]] > turn[calls[i]])
        ASSERT_TRUE(waits[calls[i - 1]].count(calls[i]));
    // Not more memory than where each group has its turn as soon as it can, by
    // its place in the program.
    std::vector<Numbers> successors(map.groups.size());
    for (int64_t id : order)
      for (int64_t maker : chained[id])
        successors[maker].push_back(id);
    Numbers byPosition = orderByPriority(successors, [&](int64_t id) {
      return map.groups[id].ops.empty() ? -1 : positionOf(id);
    });
    llvm::erase_if(byPosition,
                   [&](int64_t id) { return map.groups[id].ops.empty(); });
    ASSERT_LE(peakBytes(map, answers, order),
              peakBytes(map, answers, byPosition));
  });
  if (all) {
    EXPECT_GT(interleaved, 50);
    EXPECT_GT(cycles, 50);
    EXPECT_GT(waiting, 20);
  }
}

} // namespace
