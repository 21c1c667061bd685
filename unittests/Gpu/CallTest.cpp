//===- CallTest.cpp - library calls that are kernels on GPUs --------------===//
//
// Sums of rows and gradients of pools on the emulated GPU, against the formulas
// of docs/Package.md written as plain loops. f32 sums are taken in the order
// that is promised, so results are equal to the last bit.
//
//===----------------------------------------------------------------------===//
#include "EmulatedCall.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <functional>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

std::string bufferOf(int64_t elements, const std::string &type) {
  return "memref<" + std::to_string(elements) + "x" + type + ">";
}

/// The text of operand number `at`, of the last type, in its role.
std::string operand(const std::string &role, size_t at,
                    const std::string &type) {
  return " " + role + "(%a" + std::to_string(at) + " : " + type + ")";
}

/// Runs a call on buffers of the given types and contents; the last type is
/// that of the result.
template <typename T>
std::vector<T> runCall(const std::string &text,
                       llvm::ArrayRef<std::string> types,
                       const std::vector<std::pair<const void *, size_t>> &in,
                       size_t elements, int64_t inPlace = -1) {
  EmulatedCall call(text, types.drop_back(), types.take_back());
  for (size_t n = 0; n < in.size(); ++n)
    memcpy(call.input(n), in[n].first, in[n].second);
  call.run(inPlace);
  auto *first =
      reinterpret_cast<T *>(inPlace < 0 ? call.result(0) : call.input(inPlace));
  return std::vector<T>(first, first + elements);
}

template <typename T> std::pair<const void *, size_t> bytesOf(const T &v) {
  return {v.data(), v.size() * sizeof(v[0])};
}

template <typename T> std::vector<T> draw(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<T> values(count);
  for (T &value : values)
    value = static_cast<T>(normal(random));
  return values;
}

/// What indices are, instead of random ones of which some are out of range.
struct Indices {
  int64_t period = 0; ///< of first, first + step, ...
  int64_t first = 0, step = 0;
};

template <typename T, typename I>
void checkScatter(int64_t outer, int64_t rows, int64_t inner, int64_t count,
                  bool partial, int base, Indices which = {}) {
  auto updates = draw<T>(outer * count * inner, 1);
  auto start = draw<T>(outer * rows * inner, 2);
  std::vector<I> indices(count);
  std::mt19937_64 random(3);
  for (I &index : indices)
    index = static_cast<I>(random() % (2 * rows + 4)) - rows - 2;
  for (int64_t at = 0; which.period && at < count; ++at)
    indices[at] = which.first + at % which.period * which.step;
  std::string element = sizeof(T) == 8 ? "f64" : "f32";
  std::vector<std::string> types = {
      bufferOf(count, sizeof(I) == 8 ? "i64" : "i32"),
      bufferOf(outer * count * inner, element)};
  std::string text =
      "exec.scatter_add 0 \"\" outer " + std::to_string(outer) + " rows " +
      std::to_string(rows) + " inner " + std::to_string(inner) + " count " +
      std::to_string(count) + (partial ? " partial" : "") +
      operand("indices", 0, types[0]) + operand("updates", 1, types[1]);
  for (const char *role : {"base", "dst"})
    if (base || role[0] == 'd') {
      types.push_back(bufferOf(outer * rows * inner, element));
      text += operand(role, types.size() - 1, types.back());
    }
  std::vector<std::pair<const void *, size_t>> inputs = {bytesOf(indices),
                                                         bytesOf(updates)};
  if (base)
    inputs.push_back(bytesOf(start));
  auto got =
      runCall<T>(text, types, inputs, outer * rows * inner, base == 2 ? 2 : -1);
  std::vector<T> expected = start;
  if (!base)
    std::fill(expected.begin(), expected.end(), T(0));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < count; ++i) {
      int64_t row = indices[i];
      if (row < 0 && !partial)
        row += rows;
      if (row < 0 || row >= rows)
        continue;
      for (int64_t k = 0; k < inner; ++k)
        expected[(o * rows + row) * inner + k] +=
            updates[(o * count + i) * inner + k];
    }
  EXPECT_EQ(got, expected) << text;
}

TEST(GpuCalls, ScatterAddInOrder) {
  checkScatter<float, int64_t>(1, 10, 4, 6, false, 0);
  checkScatter<float, int32_t>(1, 100, 768, 300, false, 0);
  checkScatter<float, int64_t>(2, 33, 30, 70, true, 0);
  checkScatter<double, int64_t>(3, 5, 7, 600, false, 0);
  checkScatter<float, int64_t>(1, 70, 1, 257, false, 0);
  checkScatter<float, int64_t>(1, 3, 1500, 20, false, 0);
}

/// All indices are equal, few rows have most of them, or none is a row.
TEST(GpuCalls, ScatterAddOfSkewedIndices) {
  checkScatter<float, int64_t>(1, 40, 20, 9000, false, 0, {1, 33, 0});
  checkScatter<float, int64_t>(1, 40, 20, 4097, false, 1, {1, -40, 0});
  checkScatter<float, int32_t>(1, 3, 1, 8192, false, 2, {3, -2, 1});
  checkScatter<double, int64_t>(1, 1000, 2, 4095, true, 0, {7, 11, 1});
  // Position embeddings.
  checkScatter<float, int64_t>(1, 64, 8, 640, false, 0, {64, 0, 1});
  for (bool partial : {false, true}) {
    checkScatter<float, int64_t>(1, 40, 20, 9000, partial, 1, {1, 40, 0});
    checkScatter<float, int64_t>(2, 40, 20, 300, partial, 0, {1, -41, 0});
    checkScatter<float, int64_t>(1, 40, 20, 256, partial, 0, {4, INT64_MIN, 1});
    checkScatter<float, int32_t>(1, 40, 20, 257, partial, 0, {1, INT32_MAX, 0});
    // Rows of the end, unless partial.
    checkScatter<float, int32_t>(1, 40, 20, 513, partial, 0, {40, -40, 1});
  }
}

/// So many rows that a block owns 32, over several groups of threads.
TEST(GpuCalls, ScatterAddToManyRows) {
  checkScatter<float, int64_t>(1, 16390, 1, 5000, false, 0);
  checkScatter<float, int32_t>(1, 16390, 64, 700, true, 1);
  checkScatter<float, int64_t>(1, 16390, 16, 5000, false, 2, {11, 3, 4});
}

/// The result is added to another gradient, aside or in place.
TEST(GpuCalls, ScatterAddToABase) {
  checkScatter<float, int64_t>(1, 40, 64, 90, false, 1);
  checkScatter<float, int64_t>(2, 40, 12, 90, false, 2);
}

template <typename T>
void checkRows(const std::string &update, int64_t outer, int64_t rows,
               int64_t inner, int64_t count, bool partial, bool inPlace,
               llvm::function_ref<T(T, T)> combine) {
  auto updates = draw<T>(outer * count * inner, 1);
  auto expected = draw<T>(outer * rows * inner, 2);
  std::vector<int64_t> indices(outer * count);
  std::mt19937_64 random(3);
  for (int64_t &index : indices)
    index = static_cast<int64_t>(random() % (2 * rows + 4)) - rows - 2;
  std::string element = std::is_integral_v<T>
                            ? (sizeof(T) == 8 ? "i64" : "i32")
                            : (sizeof(T) == 8 ? "f64" : "f32");
  std::vector<std::string> types = {bufferOf(outer * count, "i64"),
                                    bufferOf(outer * count * inner, element),
                                    bufferOf(outer * rows * inner, element),
                                    bufferOf(outer * rows * inner, element)};
  std::string text =
      "exec.scatter 0 \"\" " + update + " outer " + std::to_string(outer) +
      " rows " + std::to_string(rows) + " inner " + std::to_string(inner) +
      " count " + std::to_string(count) + (partial ? " partial" : "") +
      operand("indices", 0, types[0]) + operand("updates", 1, types[1]) +
      operand("base", 2, types[2]) + operand("dst", 3, types[3]);
  auto got = runCall<T>(text, types,
                        {bytesOf(indices), bytesOf(updates), bytesOf(expected)},
                        outer * rows * inner, inPlace ? 2 : -1);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < count; ++i) {
      int64_t row = indices[o * count + i];
      row += row < 0 && !partial ? rows : 0;
      if (row < 0 || row >= rows)
        continue;
      for (int64_t k = 0; k < inner; ++k) {
        T &to = expected[(o * rows + row) * inner + k];
        to = combine(to, updates[(o * count + i) * inner + k]);
      }
    }
  EXPECT_EQ(got, expected) << text;
}

/// Each outer index has indices of its own; the last update of a row stays.
TEST(GpuCalls, Scatter) {
  checkRows<float>("set", 3, 10, 4, 6, false, false,
                   [](float, float u) { return u; });
  checkRows<float>("set", 1, 300, 48, 700, true, true,
                   [](float, float u) { return u; });
  checkRows<double>("add", 2, 40, 7, 90, false, true,
                    [](double x, double u) { return x + u; });
  checkRows<int32_t>("mul", 2, 5, 12, 9, false, false,
                     [](int32_t x, int32_t u) { return x * u; });
  checkRows<int64_t>("min", 4, 7, 1, 20, false, false,
                     [](int64_t x, int64_t u) { return std::min(x, u); });
  checkRows<float>("max", 1, 33, 30, 70, false, false,
                   [](float x, float u) { return std::max(x, u); });
}

template <typename T>
void checkTopK(int64_t outer, int64_t rows, int64_t count, bool smallest,
               bool specials) {
  auto x = draw<T>(outer * rows, 4);
  if constexpr (!std::is_integral_v<T>)
    for (size_t at = 0; at < x.size(); ++at)
      x[at] = specials && at % 5 == 0 ? (at % 2 ? NAN : -INFINITY)
                                      : std::round(x[at]);
  std::string element = std::is_integral_v<T> ? "i32" : "f32";
  std::vector<std::string> types = {bufferOf(outer * rows, element),
                                    bufferOf(outer * count, "i64")};
  std::string text = "exec.top_k 0 \"\" outer " + std::to_string(outer) +
                     " rows " + std::to_string(rows) + " count " +
                     std::to_string(count) + (smallest ? " smallest" : "") +
                     operand("src", 0, types[0]) + operand("dst", 1, types[1]);
  auto got = runCall<int64_t>(text, types, {bytesOf(x)}, outer * count);
  std::vector<int64_t> expected;
  for (int64_t o = 0; o < outer; ++o) {
    std::vector<int64_t> order(rows);
    for (int64_t i = 0; i < rows; ++i)
      order[i] = i;
    const T *row = x.data() + o * rows;
    auto larger = [&](int64_t a, int64_t b) {
      return std::isnan(row[a]) ? !std::isnan(row[b]) : row[a] > row[b];
    };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return smallest ? larger(b, a) : larger(a, b);
    });
    expected.insert(expected.end(), order.begin(), order.begin() + count);
  }
  EXPECT_EQ(got, expected) << text;
}

/// Of equal elements the one with the lower index comes first.
TEST(GpuCalls, TopK) {
  checkTopK<float>(300, 8, 2, false, false);
  checkTopK<float>(3, 700, 50, true, false);
  checkTopK<float>(2, 40, 40, false, true);
  checkTopK<float>(2, 40, 11, true, true);
  checkTopK<int32_t>(4, 33, 7, false, false);
}

/// Boxes that crowd, some turned, some without area; scores of which some are
/// equal and some are none; fewer and more boxes than a block has threads.
void checkGreedySuppress(int64_t outer, int64_t classes, int64_t rows,
                         int64_t count, int64_t most, float threshold) {
  auto boxes = draw<float>(outer * rows * 4, 7);
  auto scores = draw<float>(outer * classes * rows, 8);
  for (int64_t i = 0; i < outer * rows; ++i)
    if (i % 11 == 5)
      boxes[4 * i + 2] = boxes[4 * i];
  for (int64_t i = 0; i < outer * classes * rows; ++i) {
    scores[i] = std::round(scores[i] * 8) / 8;
    if (i % 7 == 3)
      scores[i] = NAN;
    if (i % 13 == 4)
      scores[i] = -INFINITY;
  }
  std::vector<std::string> types = {bufferOf(outer * rows * 4, "f32"),
                                    bufferOf(outer * classes * rows, "f32"),
                                    bufferOf(1, "f32"), bufferOf(1, "i64"),
                                    bufferOf(outer * classes * count, "i64")};
  std::string text =
      "exec.greedy_suppress 0 \"\" outer " + std::to_string(outer) +
      " classes " + std::to_string(classes) + " rows " + std::to_string(rows) +
      " count " + std::to_string(count) + operand("boxes", 0, types[0]) +
      operand("scores", 1, types[1]) + operand("threshold", 2, types[2]) +
      operand("most", 3, types[3]) + operand("dst", 4, types[4]);
  std::vector<float> limit = {threshold};
  std::vector<int64_t> wanted = {most};
  auto got = runCall<int64_t>(
      text, types,
      {bytesOf(boxes), bytesOf(scores), bytesOf(limit), bytesOf(wanted)},
      outer * classes * count);
  auto shared = [&](int64_t a, int64_t b) -> double {
    double area[2], common = 1;
    for (int64_t box = 0; box < 2; ++box) {
      const float *at = boxes.data() + 4 * (box ? b : a);
      area[box] = std::fabs((double(at[2]) - at[0]) * (double(at[3]) - at[1]));
    }
    for (int64_t axis = 0; axis < 2; ++axis) {
      const float *x = boxes.data() + 4 * a + axis,
                  *y = boxes.data() + 4 * b + axis;
      common *= std::max(
          0.0, double(std::min(std::max(x[0], x[2]), std::max(y[0], y[2]))) -
                   std::max(std::min(x[0], x[2]), std::min(y[0], y[2])));
    }
    return common == 0 ? 0 : common / (area[0] + area[1] - common);
  };
  std::vector<int64_t> expected(outer * classes * count, -1);
  for (int64_t row = 0; row < outer * classes; ++row) {
    const float *score = scores.data() + row * rows;
    int64_t first = row / classes * rows, kept = 0;
    std::vector<bool> seen(rows);
    while (kept < std::min(most, count)) {
      int64_t best = -1;
      for (int64_t i = 0; i < rows; ++i)
        if (!seen[i] && !std::isnan(score[i]) &&
            (best < 0 || score[i] > score[best]))
          best = i;
      if (best < 0)
        break;
      seen[best] = true;
      bool isFree = true;
      for (int64_t k = 0; k < kept; ++k)
        isFree &= shared(first + expected[row * count + k], first + best) <=
                  threshold;
      if (isFree)
        expected[row * count + kept++] = best;
    }
  }
  EXPECT_EQ(got, expected) << text;
}

TEST(GpuCalls, GreedySuppress) {
  checkGreedySuppress(3, 1, 40, 40, 40, 0.4f);
  checkGreedySuppress(2, 3, 700, 20, 1000, 0.1f);
  checkGreedySuppress(1, 1, 1, 1, 1, 0.5f);
  checkGreedySuppress(4, 10, 8, 5, 3, 0.0f);
  checkGreedySuppress(1, 2, 300, 9, 0, 0.2f);
  checkGreedySuppress(1, 2, 300, 9, -1, 0.2f);
}

struct Pool {
  int64_t batch, channels;
  std::vector<int64_t> in, kernel, strides, low, high, dilations;
  std::vector<int64_t> out() const {
    std::vector<int64_t> result;
    for (size_t d = 0; d < in.size(); ++d)
      result.push_back(
          (in[d] + low[d] + high[d] - ((kernel[d] - 1) * dilations[d] + 1)) /
              strides[d] +
          1);
    return result;
  }
};

int64_t productOf(const std::vector<int64_t> &sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

/// All indices below `sizes`, in row-major order.
void forAll(const std::vector<int64_t> &sizes,
            const std::function<void(const std::vector<int64_t> &)> &body) {
  std::vector<int64_t> index(sizes.size());
  for (int64_t at = 0; at < productOf(sizes); ++at) {
    int64_t rest = at;
    for (size_t d = sizes.size(); d-- > 0;) {
      index[d] = rest % sizes[d];
      rest /= sizes[d];
    }
    body(index);
  }
}

void checkPool(const Pool &pool, bool max, bool padding, bool specials) {
  std::vector<int64_t> out = pool.out();
  int64_t image = productOf(pool.in), windows = productOf(out);
  auto x = draw<float>(pool.batch * image * pool.channels, 4);
  // Ties and NaN decide which is the first largest.
  for (float &value : x)
    value = std::round(value);
  if (specials)
    for (size_t at = 0; at < x.size(); at += 5)
      x[at] = at % 2 ? NAN : -INFINITY;
  auto dy = draw<float>(pool.batch * windows * pool.channels, 5);
  auto list = [](const char *key, const std::vector<int64_t> &values) {
    std::string text = std::string(key) + " [";
    for (size_t at = 0; at < values.size(); ++at)
      text += (at ? ", " : "") + std::to_string(values[at]);
    return text + "] ";
  };
  std::string text =
      std::string("exec.") + (max ? "max" : "avg") +
      "_pool_gradient 0 \"\" batch " + std::to_string(pool.batch) +
      " channels " + std::to_string(pool.channels) + " window <" +
      list("in", pool.in) + list("out", out) + list("kernel", pool.kernel) +
      list("strides", pool.strides) + list("low", pool.low) +
      list("high", pool.high) + list("dilations", pool.dilations) + ">" +
      (padding ? " count_padding" : "");
  std::string imageType = bufferOf(static_cast<int64_t>(x.size()), "f32");
  std::vector<std::string> types;
  auto add = [&](const char *role, const std::string &type) {
    text += operand(role, types.size(), type);
    types.push_back(type);
  };
  if (max)
    add("src", imageType);
  add("diff", bufferOf(static_cast<int64_t>(dy.size()), "f32"));
  add("dst", imageType);
  std::vector<std::pair<const void *, size_t>> inputs;
  if (max)
    inputs.push_back(bytesOf(x));
  inputs.push_back(bytesOf(dy));
  auto got = runCall<float>(text, types, inputs, x.size());

  std::vector<float> expected(x.size(), 0.0f);
  auto flat = [&](int64_t n, const std::vector<int64_t> &index,
                  const std::vector<int64_t> &sizes, int64_t c) {
    for (size_t d = 0; d < sizes.size(); ++d)
      n = n * sizes[d] + index[d];
    return n * pool.channels + c;
  };
  for (int64_t n = 0; n < pool.batch; ++n)
    forAll(out, [&](const std::vector<int64_t> &o) {
      for (int64_t c = 0; c < pool.channels; ++c) {
        std::vector<int64_t> places;
        int64_t best = -1, counted = 0;
        forAll(pool.kernel, [&](const std::vector<int64_t> &k) {
          std::vector<int64_t> p(k.size());
          bool inside = true, within = true;
          for (size_t d = 0; d < k.size(); ++d) {
            p[d] =
                o[d] * pool.strides[d] + k[d] * pool.dilations[d] - pool.low[d];
            inside &= p[d] >= 0 && p[d] < pool.in[d];
            within &= p[d] >= -pool.low[d] && p[d] < pool.in[d] + pool.high[d];
          }
          counted += padding ? within : inside;
          if (!inside)
            return;
          int64_t at = flat(n, p, pool.in, c);
          places.push_back(at);
          if (best < 0 || x[at] > x[best] ||
              (std::isnan(x[at]) && !std::isnan(x[best])))
            best = at;
        });
        float gradient = dy[flat(n, o, out, c)];
        if (max && best >= 0)
          expected[best] += gradient;
        if (!max)
          for (int64_t at : places)
            expected[at] += gradient / static_cast<float>(counted);
      }
    });
  EXPECT_EQ(got, expected) << text;
}

TEST(GpuCalls, MaxPoolGradientGoesToTheFirstLargest) {
  checkPool({2, 3, {8, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, true, false,
            false);
  checkPool({1, 5, {7, 7}, {2, 3}, {1, 2}, {0, 1}, {0, 1}, {2, 1}}, true, false,
            true);
  checkPool({2, 4, {17}, {4}, {3}, {1}, {2}, {1}}, true, false, true);
}

TEST(GpuCalls, AvgPoolGradientOverWindows) {
  checkPool({2, 3, {8, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, false,
            false, false);
  checkPool({2, 3, {8, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, false, true,
            false);
  checkPool(
      {1, 6, {5, 4, 6}, {2, 2, 3}, {1, 2, 1}, {0, 1, 1}, {1, 0, 1}, {1, 1, 2}},
      false, false, false);
}

} // namespace
