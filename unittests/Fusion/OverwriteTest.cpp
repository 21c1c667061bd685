//===- OverwriteTest.cpp - the input over which a kernel writes -----------===//
#include "Graph.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

// All answers for up to four inputs that see up to three memories, one of which
// may be given already: what is chosen may be chosen, and nothing before it.
TEST(OverwriteTest, AllSmallCases) {
  Graph graph;
  SmallVector<Value> memories, inputs;
  for (int i = 0; i < 3; ++i)
    memories.push_back(graph.add({})->getResult(0));
  for (int i = 0; i < 4; ++i)
    inputs.push_back(graph.add({})->getResult(0));
  int64_t found = 0, none = 0;
  for (unsigned count = 0; count <= 4; ++count)
    for (unsigned code = 0; code < 1u << (4 * count); ++code)
      for (int before = -1; before < 3; ++before) {
        // Four bits of an input: which memory, whether it dies, may share.
        DenseMap<Value, unsigned> bits;
        bool valid = true;
        for (unsigned i = 0; i < count; ++i) {
          bits[inputs[i]] = code >> (4 * i) & 15;
          valid &= (bits[inputs[i]] & 3) < 3;
        }
        if (!valid)
          continue;
        auto memoryOf = [&](Value input) { return memories[bits[input] & 3]; };
        auto dies = [&](Value input) { return bool(bits[input] & 4); };
        auto mayShare = [&](unsigned i) { return bool(bits[inputs[i]] & 8); };
        DenseSet<Value> given;
        if (before >= 0)
          given.insert(memories[before]);
        auto isRight = [&](unsigned i) {
          if (!dies(inputs[i]) || !mayShare(i) ||
              (before >= 0 && memoryOf(inputs[i]) == memories[before]))
            return false;
          for (unsigned j = 0; j < count; ++j)
            if (i != j && memoryOf(inputs[i]) == memoryOf(inputs[j]))
              return false;
          return true;
        };
        int64_t chosen =
            chooseOverwritten(ArrayRef<Value>(inputs).take_front(count),
                              {memoryOf, dies, mayShare}, given);
        int64_t end = chosen < 0 ? count : chosen;
        ASSERT_LE(end, count);
        for (int64_t i = 0; i < end; ++i)
          ASSERT_FALSE(isRight(i)) << "input " << i << " of code " << code;
        if (chosen >= 0) {
          ASSERT_TRUE(isRight(chosen)) << "code " << code;
          // No other output gets the same.
          ASSERT_TRUE(given.contains(memoryOf(inputs[chosen])));
        }
        ASSERT_EQ(given.size(), size_t(before >= 0) + size_t(chosen >= 0));
        ++(chosen < 0 ? none : found);
      }
  EXPECT_GT(found, 1000);
  EXPECT_GT(none, 1000);
}

} // namespace
