//===- GemmTest.cpp - matmuls by kernels of our own -----------------------===//
//
// Random shapes, layouts and post-ops against sums in double. Elements that are
// not of the matrices are NaN and must neither be read into a result nor be
// written; any number of threads must give the same bits.
//
//===----------------------------------------------------------------------===//
#include "GemmLevels.h"
#include "device/cpu/gemm/GemmCall.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace kerf::rt;

namespace {

/// A matrix inside a buffer of NaN.
struct Laid {
  Operand operand;
  std::vector<float> values;
  int64_t rowStride = 0, columnStride = 0;

  float &at(int64_t i, int64_t j) {
    return values[operand.offset + i * rowStride + j * columnStride];
  }
};

class GemmCase {
public:
  GemmCase(uint32_t seed, const GemmKernels *kernels)
      : random(seed), kernels(kernels) {
    static constexpr int64_t sizes[] = {16, 17, 31, 32, 33, 64, 100, 129, 300};
    static constexpr int64_t depths[] = {16, 50, 256, 257, 600, 1100};
    auto pick = [&](auto &list) { return list[random() % std::size(list)]; };
    m = pick(sizes), n = pick(sizes), k = pick(depths);
    if (random() % 8 == 0)
      (random() % 2 ? m : n) = 2100; // panels of several chunks and groups
    desc.m = m, desc.n = n, desc.k = k;
    lhs = lay(m, k, 0, random() % 2);
    rhs = lay(k, n, 1, random() % 2);
    dst = lay(m, n, 2, false);
    desc.lhs = lhs.operand, desc.rhs = rhs.operand, desc.dst = dst.operand;
    for (int64_t index = 3, count = random() % 4; index < 3 + count; ++index)
      addPostOp(index);
    if (random() % 3 == 0) {
      bias = lay(1, n, 3 + others.size(), false);
      desc.bias = bias.operand;
      desc.bias.strides = {1};
    }
  }

  std::vector<float> run(int32_t threads) {
    auto device = makeCpuDevice(0, threads, makeCpuPackCache());
    auto call = makeGemmCall(desc, *device, threads, kernels);
    if (!call) {
      ADD_FAILURE() << "refused";
      return {};
    }
    auto scratch = device->allocate(call->scratchBytes(), "scratch");
    std::vector<float> out = dst.values;
    std::vector<void *> buffers = {lhs.values.data(), rhs.values.data(),
                                   out.data()};
    for (Laid &other : others)
      buffers.push_back(other.values.data());
    buffers.push_back(bias.values.data());
    call->run(buffers.data(), scratch->data);
    return out;
  }

  void check(const std::vector<float> &out) {
    std::vector<float> want = dst.values;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t x = 0; x < k; ++x)
          sum += double(lhs.at(i, x)) * rhs.at(x, j);
        size_t at = &dst.at(i, j) - dst.values.data();
        ASSERT_NEAR(out[at], follow(i, j, sum), 1e-5 * std::sqrt(k))
            << m << "x" << n << "x" << k << " at " << i << ", " << j;
        want[at] = out[at];
      }
    ASSERT_EQ(0, std::memcmp(want.data(), out.data(), want.size() * 4))
        << "wrote outside of the result";
  }

private:
  Laid lay(int64_t rows, int64_t columns, int64_t index, bool transposed) {
    Laid laid;
    laid.operand.kind = Operand::Buffer;
    laid.operand.index = index;
    int64_t gap = random() % 3 * 5;
    laid.operand.offset = random() % 2 * 7;
    laid.rowStride = transposed ? 1 : columns + gap;
    laid.columnStride = transposed ? rows + gap : 1;
    if (index < 2 && random() % 6 == 0) // neither is contiguous
      laid.rowStride *= 2, laid.columnStride *= 2;
    if (random() % 2 || gap || laid.operand.offset ||
        laid.rowStride * laid.columnStride > std::max(rows, columns))
      laid.operand.strides = {laid.rowStride, laid.columnStride};
    else
      laid.operand.transpose = transposed;
    laid.values.assign(laid.operand.offset + (rows - 1) * laid.rowStride +
                           (columns - 1) * laid.columnStride + 1 + 40,
                       std::numeric_limits<float>::quiet_NaN());
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        laid.at(i, j) = uniform(random);
    return laid;
  }

  void addPostOp(int64_t index) {
    PostOp op;
    static constexpr const char *kinds[] = {"sum", "linear", "relu",
                                            "add", "sub",    "mul"};
    op.kind = kinds[random() % 6];
    if (op.kind == "sum" && index != 3)
      op.kind = "relu";
    op.alpha = 0.5, op.beta = -0.25;
    others.push_back(lay(m, n, index, false));
    if (random() % 3 == 0) { // one value per column
      others.back().rowStride = 0;
      others.back().operand.strides = {0, 1};
    }
    op.operand = others.back().operand;
    desc.postOps.push_back(op);
  }

  double follow(int64_t i, int64_t j, double x) {
    bool sums = !desc.postOps.empty() && desc.postOps[0].kind == "sum";
    if (sums) // before the bias
      x += dst.at(i, j);
    if (!bias.values.empty())
      x += bias.at(0, j);
    for (size_t s = sums ? 1 : 0; s < desc.postOps.size(); ++s) {
      const std::string &kind = desc.postOps[s].kind;
      double y = others[s].at(i, j);
      x = kind == "linear" ? 0.5 * x - 0.25
          : kind == "relu" ? std::max(x, 0.0)
          : kind == "add"  ? x + y
          : kind == "sub"  ? x - y
                           : x * y;
    }
    return x;
  }

  std::mt19937 random;
  const GemmKernels *kernels;
  int64_t m, n, k;
  LibraryDesc desc;
  Laid lhs, rhs, dst, bias;
  std::vector<Laid> others;
};

class Gemm : public GemmLevels {};
INSTANTIATE_TEST_SUITE_P(Levels, Gemm, gemmLevels(), gemmLevelName);

TEST_P(Gemm, RandomShapesAndLayouts) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    GemmCase random(seed, kernels);
    std::vector<float> one = random.run(1);
    random.check(one);
    for (int32_t threads : {2, 3, 5}) {
      std::vector<float> more = random.run(threads);
      ASSERT_EQ(0, std::memcmp(one.data(), more.data(), one.size() * 4))
          << threads << " threads";
    }
    if (HasFatalFailure())
      return;
  }
}

/// lhs and rhs as they lie in memory, or both transposed, and their product.
struct Plain {
  Plain(int64_t m, int64_t n, int64_t k, bool transposed)
      : m(m), n(n), k(k), transposed(transposed), a(m * k), b(k * n), c(m * n) {
    std::mt19937 random(5 + transposed);
    std::normal_distribution<float> normal;
    for (std::vector<float> *data : {&a, &b})
      for (float &x : *data)
        x = normal(random);
  }
  float &lhs(int64_t i, int64_t x) {
    return a[transposed ? x * m + i : i * k + x];
  }
  float &rhs(int64_t x, int64_t j) {
    return b[transposed ? j * k + x : x * n + j];
  }
  float out(int64_t i, int64_t j) const { return c[i * n + j]; }

  void run(const GemmKernels *kernels, std::vector<PostOp> follows = {}) {
    LibraryDesc desc;
    desc.m = m, desc.n = n, desc.k = k;
    for (Operand *operand : {&desc.lhs, &desc.rhs, &desc.dst})
      operand->kind = Operand::Buffer;
    desc.rhs.index = 1, desc.dst.index = 2;
    desc.lhs.transpose = desc.rhs.transpose = transposed;
    desc.postOps = std::move(follows);
    auto device = makeCpuDevice(0, 2, makeCpuPackCache());
    auto call = makeGemmCall(desc, *device, 2, kernels);
    ASSERT_TRUE(call);
    auto scratch = device->allocate(call->scratchBytes(), "scratch");
    void *buffers[] = {a.data(), b.data(), c.data()};
    call->run(buffers, scratch->data);
  }

  const int64_t m, n, k;
  const bool transposed;
  std::vector<float> a, b, c;
};

constexpr float infinity = std::numeric_limits<float>::infinity();

// NaN is not lost, whatever follows the sum.
TEST_P(Gemm, NaNStays) {
  for (bool transposed : {false, true}) {
    Plain matmul(32, 48, 40, transposed);
    matmul.lhs(5, 3) = std::numeric_limits<float>::quiet_NaN();
    matmul.rhs(7, 20) = std::numeric_limits<float>::quiet_NaN();
    matmul.run(kernels, {{"relu", 0, 0, {}}});
    for (int64_t i = 0; i < matmul.m; ++i)
      for (int64_t j = 0; j < matmul.n; ++j)
        EXPECT_EQ(i == 5 || j == 20, std::isnan(matmul.out(i, j)))
            << i << ", " << j;
  }
}

// One infinity makes an infinity or NaN of each element that it is part of, and
// of no other.
TEST_P(Gemm, InfinitiesStay) {
  for (bool transposed : {false, true}) {
    Plain matmul(40, 50, 70, transposed);
    matmul.lhs(3, 17) = infinity;
    matmul.lhs(35, 69) = -infinity;
    matmul.rhs(40, 20) = -infinity;
    matmul.rhs(17, 7) = 0; // infinity times 0
    matmul.run(kernels);
    for (int64_t i = 0; i < matmul.m; ++i)
      for (int64_t j = 0; j < matmul.n; ++j) {
        double sum = 0;
        for (int64_t x = 0; x < matmul.k; ++x)
          sum += double(matmul.lhs(i, x)) * matmul.rhs(x, j);
        float out = matmul.out(i, j);
        if ((i == 3 || i == 35) && j == 20) // two of them
          EXPECT_FALSE(std::isfinite(out));
        else if (std::isnan(sum))
          EXPECT_TRUE(std::isnan(out)) << i << ", " << j << ": " << out;
        else if (std::isinf(sum))
          EXPECT_EQ(out, float(sum)) << i << ", " << j;
        else
          EXPECT_NEAR(out, sum, 1e-4) << i << ", " << j;
      }
  }
}

// Rows and columns of very different sizes, from subnormal numbers to the
// largest: what is small in one must not be lost beside another.
TEST_P(Gemm, LanesOfAllSizes) {
  for (bool transposed : {false, true}) {
    Plain matmul(48, 80, 300, transposed);
    for (int64_t x = 0; x < matmul.k; ++x) {
      for (int64_t i = 0; i < matmul.m; ++i)
        matmul.lhs(i, x) =
            std::ldexp(matmul.lhs(i, x), std::min<int64_t>(6 * i - 140, 120));
      for (int64_t j = 0; j < matmul.n; ++j)
        matmul.rhs(x, j) = std::ldexp(matmul.rhs(x, j), 3 * j - 120);
    }
    matmul.run(kernels);
    int64_t held = 0;
    for (int64_t i = 0; i < matmul.m; ++i)
      for (int64_t j = 0; j < matmul.n; ++j) {
        double sum = 0, size = 0;
        for (int64_t x = 0; x < matmul.k; ++x) {
          double product = double(matmul.lhs(i, x)) * matmul.rhs(x, j);
          sum += product;
          size += std::abs(product);
        }
        if (size > std::numeric_limits<float>::max()) {
          // Parts of the sum may be infinite where all of it is not.
          if (std::abs(sum) > std::numeric_limits<float>::max())
            EXPECT_FALSE(std::isfinite(matmul.out(i, j))) << i << ", " << j;
          continue;
        }
        ++held;
        EXPECT_NEAR(matmul.out(i, j), sum,
                    64 * std::max(std::ldexp(size, -24), std::ldexp(1, -149)))
            << i << ", " << j;
      }
    EXPECT_GT(held, matmul.m * matmul.n / 3);
  }
}

// The bits of a row and of a column are their own, whatever lies beside them:
// a neighbour that has to be scaled, or is no number, changes nothing.
TEST_P(Gemm, NeighboursDoNotMatter) {
  for (bool transposed : {false, true}) {
    Plain alone(48, 80, 300, transposed), beside(48, 80, 300, transposed);
    for (int64_t x = 0; x < beside.k; ++x) {
      beside.lhs(4, x) = std::ldexp(beside.lhs(4, x), -90);
      beside.lhs(20, x) = std::ldexp(beside.lhs(20, x), 70);
      beside.rhs(x, 33) = std::ldexp(beside.rhs(x, 33), -60);
    }
    beside.lhs(40, 7) = infinity;
    beside.rhs(9, 70) = std::numeric_limits<float>::quiet_NaN();
    alone.run(kernels);
    beside.run(kernels);
    for (int64_t i = 0; i < alone.m; ++i)
      for (int64_t j = 0; j < alone.n; ++j)
        if (i != 4 && i != 20 && i != 40 && j != 33 && j != 70)
          ASSERT_EQ(alone.out(i, j), beside.out(i, j)) << i << ", " << j;
  }
}

// What it leaves to the library: other types, packed parameters, results whose
// columns are apart, post-ops that it has no code for, and what is too small.
TEST_P(Gemm, WhatIsLeftToTheLibrary) {
  auto device = makeCpuDevice(0, 1, makeCpuPackCache());
  LibraryDesc good;
  good.m = good.n = good.k = 64;
  for (Operand *operand : {&good.lhs, &good.rhs, &good.dst})
    operand->kind = Operand::Buffer;
  EXPECT_TRUE(makeGemmCall(good, *device, 1, kernels));
  auto refused = [&](auto &&change) {
    LibraryDesc desc = good;
    change(desc);
    return makeGemmCall(desc, *device, 1, kernels) == nullptr;
  };
  EXPECT_TRUE(refused([](LibraryDesc &d) { d.dtype = KERF_BF16; }));
  EXPECT_TRUE(refused([](LibraryDesc &d) { d.rhs.kind = Operand::Param; }));
  EXPECT_TRUE(refused([](LibraryDesc &d) { d.dst.strides = {1, 64}; }));
  EXPECT_TRUE(refused([](LibraryDesc &d) { d.dst.transpose = true; }));
  EXPECT_TRUE(refused([](LibraryDesc &d) { d.m = 1; }));
  EXPECT_TRUE(refused(
      [](LibraryDesc &d) { d.postOps.push_back({"gelu_tanh", 0, 0, {}}); }));
}

} // namespace
