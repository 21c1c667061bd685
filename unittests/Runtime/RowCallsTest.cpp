//===- RowCallsTest.cpp - calls that choose elements of rows --------------===//
//
// The largest elements, and the boxes that no better one overlaps, against the
// sentences of docs/Package.md written as plain loops: one element after the
// other is looked for among all that are left. Several threads give the same.
//
//===----------------------------------------------------------------------===//
#include "device/Device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

using namespace kerf::rt;

namespace {

Operand buffer(int64_t index) {
  Operand operand;
  operand.kind = Operand::Buffer;
  operand.index = index;
  return operand;
}

void runCall(const LibraryDesc &desc, std::vector<void *> buffers,
             int32_t threads) {
  auto device = makeCpuDevice(0, threads, makeCpuPackCache());
  auto call = device->prepare(desc, 0, nullptr);
  auto scratch = device->allocate(call->scratchBytes(), "scratch");
  call->run(buffers.data(), scratch->data);
}

/// The place of the element that comes first of those that are left, or -1;
/// NaN is larger than every number.
template <typename T>
int64_t firstOf(const T *x, const std::vector<bool> &seen, bool smallest) {
  auto larger = [](T a, T b) { return a != a ? b == b : a > b; };
  int64_t best = -1;
  for (size_t i = 0; i < seen.size(); ++i)
    if (!seen[i] && (best < 0 || (smallest ? larger(x[best], x[i])
                                           : larger(x[i], x[best]))))
      best = static_cast<int64_t>(i);
  return best;
}

template <typename T>
void checkTopK(kerf_dtype_t dtype, std::vector<T> x, int64_t outer,
               int64_t count) {
  LibraryDesc desc;
  desc.kind = LibraryDesc::TopK;
  desc.dtype = dtype;
  desc.dstDtype = KERF_I64;
  desc.outer = outer;
  desc.rows = static_cast<int64_t>(x.size()) / outer;
  desc.count = count;
  desc.lhs = buffer(0), desc.dst = buffer(1);
  for (bool smallest : {false, true}) {
    desc.smallest = smallest;
    std::vector<int64_t> expected;
    for (int64_t o = 0; o < outer; ++o) {
      std::vector<bool> seen(desc.rows);
      for (int64_t p = 0; p < count; ++p) {
        int64_t next = firstOf(x.data() + o * desc.rows, seen, smallest);
        expected.push_back(next);
        seen[next] = true;
      }
    }
    for (int32_t threads : {1, 3}) {
      std::vector<int64_t> got(expected.size(), -7);
      runCall(desc, {x.data(), got.data()}, threads);
      EXPECT_EQ(got, expected) << desc.rows << " " << count << " " << smallest;
    }
  }
}

std::vector<float> drawFloats(int64_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(size);
  for (float &number : x)
    number = std::round(normal(random) * 64) / 64; // some are equal
  return x;
}

/// Few and many of short and long rows: a heap, and keys that are sorted.
TEST(RowCalls, LargestFloats) {
  constexpr float odd[] = {NAN,  -NAN,  INFINITY, -INFINITY,
                           0.0f, -0.0f, 1e-42f,   -1e-42f};
  for (int64_t rows : {1, 40, 513, 1500})
    for (int64_t count : {int64_t(1), std::min<int64_t>(rows, 9), rows}) {
      std::vector<float> x = drawFloats(2 * rows, 3);
      checkTopK(KERF_F32, x, 2, count);
      for (size_t i = 0; i < x.size(); i += 3)
        x[i] = odd[i / 3 % std::size(odd)];
      checkTopK(KERF_F32, x, 2, count);
    }
}

/// Masks, and integers of all sizes.
TEST(RowCalls, LargestIntegers) {
  std::mt19937 random(5);
  std::vector<int32_t> mask(3000), any(3000);
  for (size_t i = 0; i < mask.size(); ++i) {
    mask[i] = random() % 4 == 0;
    any[i] = static_cast<int32_t>(random());
  }
  any[7] = std::numeric_limits<int32_t>::min();
  any[8] = std::numeric_limits<int32_t>::max();
  for (int64_t count : {1, 700, 1500}) {
    checkTopK(KERF_I32, mask, 2, count);
    checkTopK(KERF_I32, any, 2, count);
  }
  checkTopK<double>(KERF_F64, {2, NAN, -1, 2, 9, -0.0, 0}, 1, 7);
  checkTopK<int64_t>(KERF_I64, {2, -1, 2, int64_t(1) << 40, 9}, 1, 5);
}

struct Boxes {
  int64_t outer, classes, rows, count, most;
  float threshold;
};

/// As ONNX Runtime computes it, product by product.
bool overlaps(const float *a, const float *b, float threshold) {
  volatile float area[2], common;
  float low[2], high[2];
  for (int box = 0; box < 2; ++box) {
    const float *at = box ? b : a;
    area[box] = std::abs(at[2] - at[0]) * std::abs(at[3] - at[1]);
  }
  for (int axis = 0; axis < 2; ++axis) {
    low[axis] = std::max(std::min(a[axis], a[axis + 2]),
                         std::min(b[axis], b[axis + 2]));
    high[axis] = std::min(std::max(a[axis], a[axis + 2]),
                          std::max(b[axis], b[axis + 2]));
    if (high[axis] <= low[axis])
      return false;
  }
  common = (high[0] - low[0]) * (high[1] - low[1]);
  volatile float sum = area[0] + area[1];
  float both = sum - common;
  return area[0] > 0 && area[1] > 0 && common > 0 && both > 0 &&
         common / both > threshold;
}

void checkSuppress(const Boxes &sizes, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<float> boxes(sizes.outer * sizes.rows * 4);
  for (size_t i = 0; i < boxes.size(); i += 4) {
    for (size_t axis = 0; axis < 2; ++axis) {
      boxes[i + axis] = spread * uniform(random);
      boxes[i + axis + 2] = boxes[i + axis] + uniform(random);
    }
    if (random() % 9 == 0)
      std::swap(boxes[i], boxes[i + 2]);
    if (random() % 9 == 0)
      boxes[i + 1] = boxes[i + 3];
  }
  std::vector<float> scores(sizes.outer * sizes.classes * sizes.rows);
  for (float &score : scores)
    score = random() % 8 == 0    ? NAN
            : random() % 20 == 0 ? -INFINITY
                                 : std::round(uniform(random) * 500) / 500;
  LibraryDesc desc;
  desc.kind = LibraryDesc::GreedySuppress;
  desc.dstDtype = KERF_I64;
  desc.outer = sizes.outer;
  desc.inner = sizes.classes;
  desc.rows = sizes.rows;
  desc.count = sizes.count;
  desc.lhs = buffer(0), desc.rhs = buffer(1), desc.bias = buffer(2),
  desc.most = buffer(3), desc.dst = buffer(4);
  std::vector<int64_t> expected(sizes.outer * sizes.classes * sizes.count, -1);
  for (int64_t row = 0; row < sizes.outer * sizes.classes; ++row) {
    const float *score = scores.data() + row * sizes.rows,
                *box = boxes.data() + row / sizes.classes * sizes.rows * 4;
    int64_t *kept = expected.data() + row * sizes.count, numKept = 0;
    std::vector<bool> seen(sizes.rows);
    for (int64_t i = 0; i < sizes.rows; ++i)
      seen[i] = std::isnan(score[i]);
    while (numKept < std::min(sizes.count, sizes.most)) {
      int64_t next = firstOf(score, seen, false);
      if (next < 0)
        break;
      seen[next] = true;
      bool isFree = true;
      for (int64_t k = 0; k < numKept; ++k)
        isFree &= !overlaps(box + 4 * kept[k], box + 4 * next, sizes.threshold);
      if (isFree)
        kept[numKept++] = next;
    }
  }
  for (int32_t threads : {1, 3}) {
    std::vector<int64_t> got(expected.size(), -7);
    std::vector<int64_t> most = {sizes.most};
    std::vector<float> threshold = {sizes.threshold};
    runCall(desc,
            {boxes.data(), scores.data(), threshold.data(), most.data(),
             got.data()},
            threads);
    EXPECT_EQ(got, expected)
        << sizes.rows << " " << sizes.count << " " << sizes.most << " " << seed;
  }
}

/// All, some or none of few and of many boxes, that hardly overlap or crowd so
/// that those which are put in order first do not do.
TEST(RowCalls, GreedySuppress) {
  const Boxes cases[] = {
      {1, 1, 1, 1, 1, 0.5f},        {2, 3, 40, 40, 40, 0.4f},
      {2, 3, 40, 7, 100, 0.0f},     {1, 2, 40, 7, 3, 0.2f},
      {1, 2, 40, 7, 0, 0.2f},       {1, 2, 40, 7, -1, 0.2f},
      {1, 3, 2000, 20, 20, 0.3f},   {1, 2, 2000, 100, 100, 0.1f},
      {1, 2, 2000, 2000, 50, 0.5f}, {1, 1, 1200, 1200, 1200, 0.6f},
      {1, 2, 700, 300, 300, 1.0f},
  };
  for (const Boxes &sizes : cases)
    for (float spread : {0.1f, 4.0f, 40.0f})
      checkSuppress(sizes, spread, static_cast<uint32_t>(spread * 10));
}

} // namespace
