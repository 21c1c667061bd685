//===- BoxesTest.cpp - copying boxes of dense tensors ---------------------===//
#include "base/Boxes.h"

#include <gtest/gtest.h>

using namespace kerf::rt;

namespace {

std::vector<int> iota(int64_t count) {
  std::vector<int> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<int>(i);
  return values;
}

// All boxes of a 2x3x4 tensor, element by element.
TEST(Boxes, EveryBoxOfASmallTensor) {
  Shape shape = {2, 3, 4};
  std::vector<int> src = iota(24);
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t b = 0; b < 3; ++b)
      for (int64_t c = 0; c < 4; ++c)
        for (int64_t x = 1; a + x <= 2; ++x)
          for (int64_t y = 1; b + y <= 3; ++y)
            for (int64_t z = 1; c + z <= 4; ++z) {
              std::vector<int> dst(x * y * z, -1);
              makeBoxCopy(shape, {a, b, c}, {x, y, z}, {0, 0, 0}, {x, y, z}, 4)
                  .run(src.data(), dst.data());
              for (int64_t i = 0; i < x * y * z; ++i) {
                int64_t p = i / (y * z), q = i / z % y, r = i % z;
                ASSERT_EQ(dst[i], (a + p) * 12 + (b + q) * 4 + c + r);
              }
            }
}

// Whole inner dimensions become one run.
TEST(Boxes, RunsAreMerged) {
  BoxCopy copy =
      makeBoxCopy({4, 3, 5}, {1, 0, 0}, {2, 3, 5}, {0, 0, 0}, {2, 3, 5}, 2);
  EXPECT_TRUE(copy.loops.empty());
  EXPECT_EQ(copy.runBytes, 2 * 3 * 5 * 2);
  EXPECT_EQ(copy.srcOffset, 15 * 2);
  copy = makeBoxCopy({4, 6}, {0, 2}, {4, 3}, {0, 0}, {4, 3}, 2);
  EXPECT_EQ(copy.loops.size(), 1u);
  EXPECT_EQ(copy.totalBytes(), 24);
}

TEST(Boxes, EmptyAndScalar) {
  int src = 7, dst = 0;
  makeBoxCopy({}, {}, {}, {}, {}, 4).run(&src, &dst);
  EXPECT_EQ(dst, 7);
  EXPECT_EQ(makeBoxCopy({3, 0}, {0, 0}, {3, 0}, {0, 0}, {3, 0}, 4).totalBytes(),
            0);
}

TEST(Boxes, Contiguity) {
  int64_t offset = 0;
  EXPECT_TRUE(isContiguousBox({4, 6}, {1, 0}, {2, 6}, offset));
  EXPECT_EQ(offset, 6);
  EXPECT_TRUE(isContiguousBox({4, 6}, {3, 2}, {1, 3}, offset));
  EXPECT_EQ(offset, 20);
  EXPECT_FALSE(isContiguousBox({4, 6}, {0, 0}, {2, 5}, offset));
}
} // namespace
