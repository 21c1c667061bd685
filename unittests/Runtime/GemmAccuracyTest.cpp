//===- GemmAccuracyTest.cpp - how exact matmuls of our own are ------------===//
//
// Problem: a sum in another order is another number; whether it is a worse one
// shows only against sums in double, beside what the library makes of the same.
//
// Idea: the matmuls of training steps (a character model's, GPT-2's) with their
// layouts and post-ops. Errors are counted in units of 2^-24 times the sum of
// the products' absolute values, whose share a rounding costs. Every operand
// ends (or begins) at a page that may not be touched, and the same matmul at
// other addresses, with other threads and beside another rank's must give the
// same bits.
//
//===----------------------------------------------------------------------===//
#include "GemmLevels.h"
#include "device/cpu/gemm/GemmCall.h"
#ifdef KERF_HAVE_ONEDNN
#include "device/cpu/dnnl/DnnlCall.h"
#endif

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sys/mman.h>
#include <thread>

using namespace kerf::rt;

namespace {

/// Floats between two pages that may not be touched, at one end or the other.
class Fenced {
public:
  Fenced(size_t count, bool atEnd) : count(count) {
    size_t bytes = (count * sizeof(float) + page - 1) / page * page;
    length = bytes + 2 * page;
    base = static_cast<char *>(
        ::mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base, MAP_FAILED);
    ::mprotect(base + page, bytes, PROT_READ | PROT_WRITE);
    values = reinterpret_cast<float *>(
        base + page + (atEnd ? bytes - count * sizeof(float) : 0));
  }
  Fenced(const Fenced &) = delete;
  ~Fenced() { ::munmap(base, length); }

  float *values;
  const size_t count;

private:
  static constexpr size_t page = 4096;
  char *base;
  size_t length;
};

enum Follows { Nothing, Sum, Bias, BiasLinear, BiasAdd };

struct Case {
  const char *what;
  int64_t m, n, k;
  bool lhsTransposed, rhsTransposed;
  Follows follows;
  float scale = 1;
};

constexpr Case cases[] = {
    // The character model, dp=2 x tp=2.
    {"input's gradient", 512, 64, 32, false, true, Nothing},
    {"weights' gradient", 64, 32, 512, true, false, Nothing},
    {"weights' gradient, summed", 64, 32, 512, true, false, Sum},
    {"projection", 512, 32, 64, false, false, Bias},
    {"query, scaled", 512, 32, 64, false, false, BiasLinear},
    {"second of the MLP", 512, 32, 256, false, false, Bias},
    {"its input's gradient", 512, 256, 32, false, true, Nothing},
    {"head", 256, 128, 64, false, true, Nothing},
    {"head's input's gradient", 512, 32, 128, false, false, Nothing},
    // GPT-2 124M, 4 x 128 tokens.
    {"projection", 512, 768, 768, false, false, BiasAdd},
    {"query", 512, 768, 768, false, false, BiasLinear},
    {"first of the MLP", 512, 3072, 768, false, false, Bias},
    {"second of the MLP", 512, 768, 3072, false, false, BiasAdd},
    {"input's gradient", 512, 768, 3072, false, true, Nothing},
    {"input's gradient", 512, 3072, 768, false, true, Nothing},
    {"weights' gradient", 768, 3072, 512, true, false, Sum},
    {"weights' gradient", 3072, 768, 512, true, false, Nothing},
    // Its head, a quarter of the vocabulary and fewer rows.
    {"head", 50, 12577, 768, false, true, Nothing},
    {"head's input's gradient", 50, 768, 12577, false, false, Nothing},
    {"head's weights' gradient", 5025, 768, 512, true, false, Sum},
    // Ends of blocks, products below the normal numbers.
    {"odd", 129, 97, 1031, true, true, BiasAdd},
    {"odd", 31, 127, 257, false, true, Sum},
    {"tiny", 64, 64, 300, false, false, Nothing, 3e-20f},
};

class Matmul {
public:
  Matmul(const Case &given, bool atEnd)
      : given(given), m(given.m), n(given.n), k(given.k), a(m * k, atEnd),
        b(k * n, atEnd), c(m * n, atEnd), bias(n, atEnd), other(m * n, atEnd) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, given.scale);
    for (Fenced *data : {&a, &b, &c, &bias, &other})
      for (size_t i = 0; i < data->count; ++i)
        data->values[i] = normal(random);
    if (given.follows == Nothing || given.follows == Bias) {
      // What was there must not count.
      std::fill(c.values, c.values + c.count, NAN);
    }
    start.assign(c.values, c.values + c.count);
    desc.m = m, desc.n = n, desc.k = k;
    int64_t index = 0;
    for (Operand *operand : {&desc.lhs, &desc.rhs, &desc.dst, &desc.bias}) {
      operand->kind = Operand::Buffer;
      operand->index = index++;
    }
    desc.lhs.transpose = given.lhsTransposed;
    desc.rhs.transpose = given.rhsTransposed;
    if (given.follows == Nothing || given.follows == Sum)
      desc.bias = {};
    PostOp op;
    if (given.follows == Sum)
      op.kind = "sum";
    if (given.follows == BiasLinear)
      op.kind = "linear", op.alpha = 0.125, op.beta = 0;
    if (given.follows == BiasAdd) {
      op.kind = "add";
      op.operand.kind = Operand::Buffer, op.operand.index = 4;
    }
    if (!op.kind.empty())
      desc.postOps.push_back(op);
  }

  /// By these kernels, or by the library.
  std::vector<float> run(int32_t threads, const GemmKernels *kernels) {
    auto cache = makeCpuPackCache();
    auto device = makeCpuDevice(0, threads, cache);
    std::unique_ptr<LibraryCall> call;
#ifdef KERF_HAVE_ONEDNN
    DnnlContext context;
    KnownBounds known;
    if (!kernels)
      call = makeDnnlCall(
          desc, context, *device, static_cast<CpuPackCache &>(*cache), known,
          [](int64_t) -> ParameterView { return {}; }, threads);
#endif
    if (kernels)
      call = makeGemmCall(desc, *device, threads, kernels);
    if (!call) {
      ADD_FAILURE() << "refused";
      return {};
    }
    auto scratch = device->allocate(call->scratchBytes(), "scratch");
    // What lay in scratch memory must not count either.
    std::memset(scratch->data, 0xff, call->scratchBytes());
    std::copy(start.begin(), start.end(), c.values);
    void *buffers[] = {a.values, b.values, c.values, bias.values, other.values};
    call->run(buffers, scratch->data);
    return {c.values, c.values + c.count};
  }

  struct Errors {
    double largest = 0, mean = 0; ///< mean: root of the mean square
  };
  Errors errorsOf(const std::vector<float> &out) const {
    Errors errors;
    int64_t rows = 0;
    std::vector<double> sums(n), sizes(n);
    int64_t some = std::clamp<int64_t>((int64_t(1) << 25) / (n * k), 2, 6);
    for (int64_t i = 0; i < m; i += std::max<int64_t>(m / some, 1), ++rows) {
      std::fill(sums.begin(), sums.end(), 0);
      std::fill(sizes.begin(), sizes.end(), 0);
      auto multiply = [&](int64_t x, int64_t j, float r) {
        double p = double(given.lhsTransposed ? a.values[x * m + i]
                                              : a.values[i * k + x]) *
                   r;
        sums[j] += p;
        sizes[j] += std::abs(p);
      };
      if (given.rhsTransposed) {
        for (int64_t j = 0; j < n; ++j)
          for (int64_t x = 0; x < k; ++x)
            multiply(x, j, b.values[j * k + x]);
      } else {
        for (int64_t x = 0; x < k; ++x)
          for (int64_t j = 0; j < n; ++j)
            multiply(x, j, b.values[x * n + j]);
      }
      for (int64_t j = 0; j < n; ++j) {
        auto add = [&](double y) {
          sums[j] += y;
          sizes[j] += std::abs(y);
        };
        if (given.follows == Sum)
          add(start[i * n + j]);
        if (given.follows >= Bias)
          add(bias.values[j]);
        if (given.follows == BiasLinear)
          sums[j] *= 0.125, sizes[j] *= 0.125;
        if (given.follows == BiasAdd)
          add(other.values[i * n + j]);
        // Below the normal numbers a rounding costs half of 2^-149.
        double unit = std::max(std::ldexp(sizes[j], -24), std::ldexp(1, -150));
        double error = std::abs(out[i * n + j] - sums[j]) / unit;
        errors.largest = error > errors.largest || std::isnan(error)
                             ? error
                             : errors.largest;
        errors.mean += error * error;
      }
    }
    errors.mean = std::sqrt(errors.mean / (rows * n));
    return errors;
  }

private:
  const Case &given;
  int64_t m, n, k;
  Fenced a, b, c, bias, other;
  std::vector<float> start;
  LibraryDesc desc;
};

bool same(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class GemmAccuracy : public GemmLevels {};
INSTANTIATE_TEST_SUITE_P(Levels, GemmAccuracy, gemmLevels(), gemmLevelName);

// The root mean square may be a quarter above the library's (some sums are in
// one order luckier than in another), and no element may be off by more than
// roundings of that number can explain.
TEST_P(GemmAccuracy, AsExactAsTheLibrary) {
  for (const Case &each : cases) {
    SCOPED_TRACE(each.what);
    Matmul matmul(each, true);
    Matmul::Errors ours = matmul.errorsOf(matmul.run(2, kernels));
    EXPECT_LT(ours.largest, 64) << each.m << "x" << each.n << "x" << each.k;
#ifdef KERF_HAVE_ONEDNN
    Matmul::Errors library = matmul.errorsOf(matmul.run(2, nullptr));
    EXPECT_LE(ours.mean, 1.25 * library.mean + 0.01)
        << each.m << "x" << each.n << "x" << each.k;
    if (std::getenv("KERF_TEST_PRINT"))
      std::printf("%6ld x %5ld x %5ld %-28s ours %.3f / %.2f, library %.3f / "
                  "%.2f (mean / largest)\n",
                  each.m, each.n, each.k, each.what, ours.mean, ours.largest,
                  library.mean, library.largest);
#endif
  }
}

TEST_P(GemmAccuracy, SameBitsWhereverItRuns) {
  for (const Case &each : cases) {
    if (each.m * each.n * each.k > int64_t(1) << 28)
      continue;
    SCOPED_TRACE(each.what);
    Matmul atEnd(each, true), atBegin(each, false);
    std::vector<float> first = atEnd.run(1, kernels);
    for (int32_t threads : {1, 2, 3, 4})
      EXPECT_TRUE(same(first, atBegin.run(threads, kernels))) << threads;
    // Two ranks at the same time, each with a team of its own.
    std::vector<float> results[2];
    std::thread ranks[2];
    for (int r = 0; r < 2; ++r)
      ranks[r] = std::thread([&, r] {
        Matmul &mine = r ? atBegin : atEnd;
        for (int i = 0; i < 4; ++i) {
          results[r] = mine.run(2, kernels);
          if (!same(first, results[r]))
            return;
        }
      });
    for (std::thread &rank : ranks)
      rank.join();
    EXPECT_TRUE(same(first, results[0]));
    EXPECT_TRUE(same(first, results[1]));
  }
}

} // namespace
