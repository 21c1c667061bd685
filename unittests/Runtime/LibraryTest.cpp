//===- LibraryTest.cpp - oneDNN calls against plain loops -----------------===//
//
// Random descriptors of matmul, convolution and pooling, with strides, offsets,
// packed parameters and post-ops, are held against loops written from
// docs/Package.md.
//
//===----------------------------------------------------------------------===//
#include "device/Device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

using namespace kerf::rt;

namespace {

struct Data {
  std::vector<float> values;
  explicit Data(int64_t count, uint32_t seed = 0) : values(count) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float &value : values)
      value = uniform(random);
  }
};

Operand buffer(int64_t index, Shape strides = {}, int64_t offset = 0) {
  Operand operand;
  operand.kind = Operand::Buffer;
  operand.index = index;
  operand.strides = std::move(strides);
  operand.offset = offset;
  return operand;
}

Operand parameter(int64_t index, Shape strides = {}) {
  Operand operand = buffer(index, std::move(strides));
  operand.kind = Operand::Param;
  return operand;
}

float activate(const std::string &kind, float x, double alpha, double beta) {
  if (kind == "relu")
    return std::max(x, 0.f);
  if (kind == "leaky_relu")
    return x > 0 ? x : static_cast<float>(alpha) * x;
  if (kind == "tanh")
    return std::tanh(x);
  if (kind == "sigmoid")
    return 1 / (1 + std::exp(-x));
  if (kind == "gelu_erf")
    return 0.5f * x * (1 + std::erf(x / std::sqrt(2.f)));
  if (kind == "gelu_tanh")
    return 0.5f * x *
           (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
  if (kind == "silu")
    return x / (1 + std::exp(-x));
  if (kind == "exp")
    return std::exp(x);
  if (kind == "abs")
    return std::abs(x);
  if (kind == "square")
    return x * x;
  if (kind == "elu")
    return x > 0 ? x : static_cast<float>(alpha) * (std::exp(x) - 1);
  if (kind == "clip")
    return std::min(std::max(x, static_cast<float>(alpha)),
                    static_cast<float>(beta));
  if (kind == "linear")
    return static_cast<float>(alpha) * x + static_cast<float>(beta);
  if (kind == "hardswish")
    return x * std::min(std::max(x + 3, 0.f), 6.f) / 6;
  if (kind == "hardsigmoid")
    return std::min(
        std::max(static_cast<float>(alpha) * x + static_cast<float>(beta), 0.f),
        1.f);
  ADD_FAILURE() << kind;
  return 0;
}

void runCall(const LibraryDesc &desc, std::vector<void *> buffers,
             const std::vector<Data *> &parameters, int32_t threads = 2) {
  ::setenv("KERF_TEAMS", "always", 1); // small shapes on several threads, too
  auto device = makeCpuDevice(0, threads, makeCpuPackCache());
  auto call = device->prepare(desc, 0, [&](int64_t i) {
    Data &data = *parameters.at(i);
    return ParameterView{data.values.data(),
                         static_cast<int64_t>(data.values.size()),
                         "p" + std::to_string(i), nullptr};
  });
  auto scratch = device->allocate(call->scratchBytes(), "scratch");
  call->run(buffers.data(), scratch->data);
}

void expectNear(const std::vector<float> &got, const std::vector<float> &want,
                const char *what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 1e-4 + 1e-4 * std::abs(want[i]))
        << what << " at " << i;
}

LibraryDesc matmulOf(Shape batch, int64_t m, int64_t n, int64_t k) {
  LibraryDesc desc;
  desc.batch = std::move(batch);
  desc.m = m;
  desc.n = n;
  desc.k = k;
  desc.lhs = buffer(0);
  desc.rhs = buffer(1);
  desc.dst = buffer(2);
  return desc;
}

// Sizes of one and of odd numbers, rhs from a buffer and packed from a
// parameter, stored as [k, n] and as [n, k], with and without bias. Packed rows
// of whole KiB, which would map to the same cache sets, are stored further
// apart.
TEST(Library, Matmul) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                         {5, 7, 3},
                         {16, 64, 32},
                         {128, 96, 48},
                         {9, 768, 64}})
    for (bool packed : {false, true})
      for (bool transposed : {false, true})
        for (bool bias : {false, true}) {
          Data a(m * k, 1), b(k * n, 2), c(n, 3), d(m * n);
          LibraryDesc desc = matmulOf({}, m, n, k);
          if (packed)
            desc.rhs = parameter(0);
          desc.rhs.transpose = transposed;
          if (bias)
            desc.bias = parameter(1);
          runCall(desc, {a.values.data(), b.values.data(), d.values.data()},
                  {&b, &c});
          std::vector<float> want(m * n);
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
              float sum = bias ? c.values[j] : 0;
              for (int64_t x = 0; x < k; ++x)
                sum += a.values[i * k + x] *
                       b.values[transposed ? j * k + x : x * n + j];
              want[i * n + j] = sum;
            }
          expectNear(d.values, want, "matmul");
        }
}

// Attention: q and k as slices of one [t, 3, heads, d] buffer, scores [heads,
// t, t].
TEST(Library, BatchedMatmulOnStridedSlices) {
  int64_t t = 6, heads = 4, d = 8, row = 3 * heads * d;
  Data qkv(t * row, 4), scores(heads * t * t);
  LibraryDesc desc = matmulOf({heads}, t, t, d);
  desc.lhs = buffer(0, {d, row, 1});
  desc.rhs = buffer(0, {d, 1, row}, heads * d);
  desc.dst = buffer(1);
  desc.postOps = {{"linear", 0.5, 0, {}}};
  runCall(desc, {qkv.values.data(), scores.values.data()}, {});
  std::vector<float> want;
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < t; ++i)
      for (int64_t j = 0; j < t; ++j) {
        float sum = 0;
        for (int64_t x = 0; x < d; ++x)
          sum += qkv.values[i * row + h * d + x] *
                 qkv.values[j * row + (heads + h) * d + x];
        want.push_back(0.5f * sum);
      }
  expectNear(scores.values, want, "scores");
}

// A batch that shares one packed rhs is flattened; a real batch of rhs is not.
TEST(Library, BatchedMatmulBroadcastsRhs) {
  for (bool shared : {true, false}) {
    Data a(2 * 3 * 5 * 4, 1), b((shared ? 1 : 6) * 4 * 7, 2), d(2 * 3 * 5 * 7);
    LibraryDesc desc = matmulOf({2, 3}, 5, 7, 4);
    desc.rhs = shared ? parameter(0, {0, 0, 7, 1}) : parameter(0);
    desc.postOps = {{"relu", 0, 0, {}}};
    runCall(desc, {a.values.data(), nullptr, d.values.data()}, {&b});
    std::vector<float> want;
    for (int64_t g = 0; g < 6; ++g)
      for (int64_t i = 0; i < 5; ++i)
        for (int64_t j = 0; j < 7; ++j) {
          float sum = 0;
          for (int64_t x = 0; x < 4; ++x)
            sum += a.values[(g * 5 + i) * 4 + x] *
                   b.values[(shared ? 0 : g * 28) + x * 7 + j];
          want.push_back(std::max(sum, 0.f));
        }
    expectNear(d.values, want, "batch");
  }
}

// Each elementwise post-op alone, and the chains that models have.
TEST(Library, PostOps) {
  std::vector<std::vector<PostOp>> chains;
  for (const char *kind : {"relu", "tanh", "sigmoid", "gelu_erf", "gelu_tanh",
                           "silu", "exp", "abs", "square", "hardswish"})
    chains.push_back({{kind, 0, 0, {}}});
  chains.push_back({{"leaky_relu", 0.1, 0, {}}});
  chains.push_back({{"elu", 0.7, 0, {}}});
  chains.push_back({{"clip", -0.5, 0.6, {}}});
  chains.push_back({{"linear", 2, 1, {}}});
  chains.push_back({{"hardsigmoid", 0.2, 0.5, {}}});
  chains.push_back({{"add", 0, 0, buffer(3)}, {"relu", 0, 0, {}}});
  chains.push_back({{"mul", 0, 0, buffer(3)},
                    {"sub", 0, 0, buffer(3)},
                    {"max", 0, 0, buffer(3)}});
  chains.push_back({{"gelu_tanh", 0, 0, {}}, {"add", 0, 0, buffer(3, {0, 1})}});
  chains.push_back({{"sum", 0, 0, {}}, {"tanh", 0, 0, {}}});
  for (auto &chain : chains) {
    int64_t m = 9, n = 33, k = 17;
    Data a(m * k, 1), b(k * n, 2), d(m * n, 3), e(m * n, 4);
    std::vector<float> want = d.values;
    LibraryDesc desc = matmulOf({}, m, n, k);
    desc.rhs = parameter(0);
    desc.postOps = chain;
    runCall(desc, {a.values.data(), nullptr, d.values.data(), e.values.data()},
            {&b});
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float value = 0;
        for (int64_t x = 0; x < k; ++x)
          value += a.values[i * k + x] * b.values[x * n + j];
        for (const PostOp &op : chain) {
          float other = e.values[op.operand.strides.empty() ? i * n + j : j];
          if (op.kind == "add")
            value += other;
          else if (op.kind == "sub")
            value -= other;
          else if (op.kind == "mul")
            value *= other;
          else if (op.kind == "max")
            value = std::max(value, other);
          else if (op.kind == "sum")
            value += want[i * n + j];
          else
            value = activate(op.kind, value, op.alpha, op.beta);
        }
        want[i * n + j] = value;
      }
    expectNear(d.values, want, chain[0].kind.c_str());
  }
}

// One row with a second tensor: not fused by oneDNN, the same result all the
// same.
TEST(Library, PostOpsOfOneRow) {
  int64_t n = 40, k = 24;
  Data a(k, 1), b(k * n, 2), c(n, 3), d(n, 4), e(n, 5);
  std::vector<float> old = d.values;
  for (bool sum : {false, true}) {
    d.values = old;
    LibraryDesc desc = matmulOf({}, 1, n, k);
    desc.rhs = parameter(0);
    desc.postOps = {{"linear", 0.5, 0, {}},
                    {"add", 0, 0, parameter(1, {0, 1})},
                    {"gelu_erf", 0, 0, {}},
                    {"mul", 0, 0, buffer(3)},
                    {"hardsigmoid", 0.2, 0.5, {}}};
    if (sum)
      desc.postOps.insert(desc.postOps.begin(), {"sum", 0, 0, {}});
    runCall(desc, {a.values.data(), nullptr, d.values.data(), e.values.data()},
            {&b, &c});
    std::vector<float> want(n);
    for (int64_t j = 0; j < n; ++j) {
      float value = sum ? old[j] : 0;
      for (int64_t x = 0; x < k; ++x)
        value += a.values[x] * b.values[x * n + j];
      value = activate("gelu_erf", 0.5f * value + c.values[j], 0, 0);
      want[j] = activate("hardsigmoid", value * e.values[j], 0.2, 0.5);
    }
    expectNear(d.values, want, "one row");
  }
}

/// A window op over NHWC in plain loops: visit(out index, channel, in index or
/// -1, kernel index) for every tap.
template <typename Visit> void forEachTap(const LibraryDesc &c, Visit &&visit) {
  for (int64_t b = 0; b < c.batch[0]; ++b)
    for (int64_t y = 0; y < c.out[0]; ++y)
      for (int64_t x = 0; x < c.out[1]; ++x)
        for (int64_t ky = 0; ky < c.kernel[0]; ++ky)
          for (int64_t kx = 0; kx < c.kernel[1]; ++kx) {
            int64_t iy = y * c.strides[0] - c.padsLow[0] + ky * c.dilations[0];
            int64_t ix = x * c.strides[1] - c.padsLow[1] + kx * c.dilations[1];
            bool inside = iy >= 0 && iy < c.in[0] && ix >= 0 && ix < c.in[1];
            visit((b * c.out[0] + y) * c.out[1] + x,
                  inside ? (b * c.in[0] + iy) * c.in[1] + ix : -1,
                  ky * c.kernel[1] + kx);
          }
}

LibraryDesc windowOf(LibraryDesc::Kind kind, int64_t batch, int64_t in,
                     int64_t out, Shape size, Shape kernel, Shape strides,
                     Shape low, Shape high, Shape dilations) {
  LibraryDesc c;
  c.kind = kind;
  c.batch = {batch};
  c.inChannels = in;
  c.outChannels = out;
  c.in = size;
  c.kernel = kernel;
  c.strides = strides;
  c.padsLow = low;
  c.padsHigh = high;
  c.dilations = dilations;
  for (int d = 0; d < 2; ++d)
    c.out.push_back(
        (size[d] + low[d] + high[d] - ((kernel[d] - 1) * dilations[d] + 1)) /
            strides[d] +
        1);
  c.lhs = buffer(0);
  c.dst = buffer(1);
  return c;
}

// Strides, asymmetric pads, dilations, groups, depthwise; bias, residual and
// relu.
TEST(Library, Convolution) {
  struct Case {
    int64_t batch, in, out, groups;
    Shape size, kernel, strides, low, high, dilations;
  } cases[] = {
      {1, 3, 8, 1, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
      {2, 16, 32, 1, {7, 10}, {1, 1}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},
      {1, 3, 16, 1, {17, 17}, {7, 7}, {2, 2}, {3, 3}, {3, 3}, {1, 1}},
      {1, 8, 12, 4, {6, 6}, {3, 3}, {1, 1}, {1, 0}, {0, 2}, {1, 1}},
      {2, 16, 16, 16, {8, 8}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 1}},
      {1, 4, 4, 1, {11, 11}, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}},
  };
  for (const Case &t : cases)
    for (bool packed : {true, false})
      for (bool rest : {false, true}) { // bias, residual, relu
        LibraryDesc c =
            windowOf(LibraryDesc::Conv, t.batch, t.in, t.out, t.size, t.kernel,
                     t.strides, t.low, t.high, t.dilations);
        c.groups = t.groups;
        int64_t perGroup = t.in / t.groups, taps = t.kernel[0] * t.kernel[1];
        int64_t points = t.batch * c.out[0] * c.out[1];
        Data x(t.batch * t.size[0] * t.size[1] * t.in, 1),
            w(t.out * perGroup * taps, 2), bias(t.out, 3),
            residual(points * t.out, 4), y(points * t.out);
        c.rhs = packed ? parameter(0) : buffer(2);
        if (rest) {
          c.bias = parameter(1);
          c.postOps = {{"add", 0, 0, buffer(3)}, {"relu", 0, 0, {}}};
        }
        runCall(c,
                {x.values.data(), y.values.data(), w.values.data(),
                 residual.values.data()},
                {&w, &bias});
        std::vector<float> want(points * t.out);
        for (int64_t i = 0; rest && i < points * t.out; ++i)
          want[i] = bias.values[i % t.out] + residual.values[i];
        forEachTap(c, [&](int64_t out, int64_t in, int64_t tap) {
          for (int64_t o = 0; in >= 0 && o < t.out; ++o)
            for (int64_t i = 0; i < perGroup; ++i)
              want[out * t.out + o] +=
                  x.values[in * t.in + o / (t.out / t.groups) * perGroup + i] *
                  w.values[(o * perGroup + i) * taps + tap];
        });
        for (float &value : want)
          value = rest ? std::max(value, 0.f) : value;
        expectNear(y.values, want, "conv");
      }
}

// Writing into the channels of a wider tensor (a concatenation without a copy).
TEST(Library, ConvolutionIntoASlice) {
  LibraryDesc c = windowOf(LibraryDesc::Conv, 1, 4, 8, {5, 5}, {1, 1}, {1, 1},
                           {0, 0}, {0, 0}, {1, 1});
  Data x(25 * 4, 1), w(32, 2), y(25 * 24, 3);
  std::vector<float> want = y.values;
  c.rhs = parameter(0);
  c.dst = buffer(1, {25 * 24, 5 * 24, 24, 1}, 16);
  runCall(c, {x.values.data(), y.values.data()}, {&w});
  for (int64_t p = 0; p < 25; ++p)
    for (int64_t o = 0; o < 8; ++o) {
      float sum = 0;
      for (int64_t i = 0; i < 4; ++i)
        sum += x.values[p * 4 + i] * w.values[o * 4 + i];
      want[p * 24 + 16 + o] = sum;
    }
  expectNear(y.values, want, "slice");
}

// Images whose pixels would map to the same cache sets are copied into blocks
// of channels: with strides, into a slice, and where relu would lose NaN.
TEST(Library, ConvolutionInBlocks) {
  for (int64_t stride : {1, 2})
    for (bool nan : {false, true}) {
      int64_t in = 128, out = 64, row = out + 16;
      LibraryDesc c = windowOf(LibraryDesc::Conv, 2, in, out, {3, 64}, {3, 3},
                               {1, stride}, {1, 1}, {1, 1}, {1, 1});
      int64_t points = 2 * c.out[0] * c.out[1];
      Data x(2 * 3 * 64 * in, 1), w(out * in * 9, 2), bias(out, 3),
          y(points * row, 4);
      c.rhs = parameter(0);
      c.bias = parameter(1);
      c.postOps = {{"relu", 0, 0, {}}};
      c.dst =
          buffer(1, {c.out[0] * c.out[1] * row, c.out[1] * row, row, 1}, 16);
      if (nan)
        x.values[0] = NAN;
      std::vector<float> want = y.values;
      runCall(c, {x.values.data(), y.values.data()}, {&w, &bias});
      for (int64_t p = 0; p < points; ++p)
        for (int64_t o = 0; o < out; ++o)
          want[p * row + 16 + o] = bias.values[o];
      forEachTap(c, [&](int64_t p, int64_t from, int64_t tap) {
        for (int64_t o = 0; from >= 0 && o < out; ++o)
          for (int64_t i = 0; i < in; ++i)
            want[p * row + 16 + o] +=
                x.values[from * in + i] * w.values[(o * in + i) * 9 + tap];
      });
      for (int64_t p = 0; p < points; ++p)
        for (int64_t o = 0; o < out; ++o) {
          float &value = want[p * row + 16 + o],
                &got = y.values[p * row + 16 + o];
          EXPECT_EQ(std::isnan(value), std::isnan(got)) << p << " " << o;
          if (std::isnan(value))
            value = got = 0;
          value = std::max(value, 0.f);
        }
      expectNear(y.values, want, "conv in blocks");
    }
}

TEST(Library, Pooling) {
  for (const char *algorithm :
       {"max", "avg_include_padding", "avg_exclude_padding"}) {
    LibraryDesc c = windowOf(LibraryDesc::Pool, 2, 16, 16, {7, 8}, {3, 2},
                             {2, 2}, {1, 0}, {1, 1}, {1, 1});
    c.algorithm = algorithm;
    int64_t points = 2 * c.out[0] * c.out[1];
    Data x(2 * 7 * 8 * 16, 1), y(points * 16);
    runCall(c, {x.values.data(), y.values.data()}, {});
    bool max = c.algorithm == "max";
    std::vector<float> want(points * 16, max ? -INFINITY : 0),
        count(points * 16);
    forEachTap(c, [&](int64_t out, int64_t in, int64_t) {
      for (int64_t ch = 0; ch < 16; ++ch) {
        float &value = want[out * 16 + ch];
        if (in >= 0)
          value = max ? std::max(value, x.values[in * 16 + ch])
                      : value + x.values[in * 16 + ch];
        count[out * 16 + ch] += in >= 0 || c.algorithm == "avg_include_padding";
      }
    });
    for (size_t i = 0; !max && i < want.size(); ++i)
      want[i] /= count[i];
    expectNear(y.values, want, algorithm);
  }
}

// One and three dimensions of space.
TEST(Library, ConvolutionOfOneDimension) {
  LibraryDesc c;
  c.kind = LibraryDesc::Conv;
  c.batch = {1};
  c.inChannels = 2;
  c.outChannels = 3;
  c.in = {6};
  c.out = {4};
  c.kernel = {3};
  c.strides = {1};
  c.padsLow = c.padsHigh = {0};
  c.dilations = {1};
  c.lhs = buffer(0);
  c.rhs = parameter(0);
  c.dst = buffer(1);
  Data x(12, 1), w(18, 2), y(12);
  runCall(c, {x.values.data(), y.values.data()}, {&w});
  std::vector<float> want(12);
  for (int64_t p = 0; p < 4; ++p)
    for (int64_t o = 0; o < 3; ++o)
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t k = 0; k < 3; ++k)
          want[p * 3 + o] +=
              x.values[(p + k) * 2 + i] * w.values[(o * 2 + i) * 3 + k];
  expectNear(y.values, want, "conv1d");
}

/// Bytes of this process that may be executed and are of no file.
size_t generatedCode() {
  std::ifstream maps("/proc/self/maps");
  size_t bytes = 0, begin = 0, end = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.find("xp ") != std::string::npos && // rwxp, r-xp
        line.find('/') == std::string::npos &&
        line.find('[') == std::string::npos &&
        std::sscanf(line.c_str(), "%zx-%zx", &begin, &end) == 2)
      bytes += end - begin;
  return bytes;
}

// Code is generated when a call is prepared, not in the first step.
TEST(Library, StepsGenerateNoCode) {
  for (int64_t m : {2, 4, 15}) {
    LibraryDesc desc = matmulOf({}, m, 24, 16);
    desc.rhs = parameter(0);
    Data a(m * 16, 1), b(16 * 24, 2), d(m * 24);
    auto device = makeCpuDevice(0, 1, makeCpuPackCache());
    auto call = device->prepare(desc, 0, [&](int64_t) {
      return ParameterView{b.values.data(), 16 * 24, "w", nullptr};
    });
    auto scratch =
        device->allocate(std::max<int64_t>(call->scratchBytes(), 1), "scratch");
    void *buffers[] = {a.values.data(), nullptr, d.values.data()};
    size_t before = generatedCode();
    call->run(buffers, scratch->data);
    EXPECT_EQ(generatedCode(), before) << m << " rows";
  }
}

// Ranks that hold the same part share one packed copy.
TEST(Library, PackedWeightsAreShared) {
  auto cache = makeCpuPackCache();
  Data b(256 * 256, 1);
  LibraryDesc desc = matmulOf({}, 64, 256, 256);
  desc.rhs = parameter(0);
  auto device = makeCpuDevice(0, 1, cache), other = makeCpuDevice(1, 1, cache);
  auto view = [&](int64_t) {
    return ParameterView{b.values.data(), 256 * 256, "w", nullptr};
  };
  auto one = device->prepare(desc, 0, view),
       two = other->prepare(desc, 0, view);
  Data a(64 * 256, 2), x(64 * 256), y(64 * 256);
  auto scratch =
      device->allocate(std::max<int64_t>(one->scratchBytes(), 1), "scratch");
  void *first[] = {a.values.data(), nullptr, x.values.data()};
  void *second[] = {a.values.data(), nullptr, y.values.data()};
  one->run(first, scratch->data);
  two->run(second, scratch->data);
  EXPECT_EQ(x.values, y.values);
}

TEST(Library, WhatTheLibraryCannotDoIsAnError) {
  LibraryDesc desc = matmulOf({}, 2, 2, 2);
  desc.dtype = KERF_I64;
  EXPECT_THROW(runCall(desc, {}, {}), Error);
  desc = matmulOf({}, 2, 2, 0);
  EXPECT_THROW(runCall(desc, {}, {}), Error);
  desc = matmulOf({}, 0, 2, 2);
  runCall(desc, {nullptr, nullptr, nullptr}, {}); // nothing to do
}

// Kernels see every iteration exactly once, on as many threads as asked for.
TEST(Device, LaunchCoversTheRange) {
  for (auto [threads, teams] : {std::pair<int32_t, const char *>{1, "by work"},
                                {2, "by work"},
                                {3, "always"},
                                {5, "by work"},
                                {5, "always"}}) {
    ::setenv("KERF_TEAMS", teams, 1);
    auto device = makeCpuDevice(0, threads, makeCpuPackCache());
    for (int64_t count : {0, 1, 2, 7, 100})
      for (int64_t grain : {1, 3, 1000}) {
        std::vector<int32_t> seen(count + 1);
        void *buffers[] = {seen.data()};
        device->launch(
            [](void *const *b, const int64_t *, int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i)
                ++static_cast<int32_t *>(b[0])[i];
            },
            buffers, nullptr, count, grain);
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(seen[i], 1);
        EXPECT_EQ(seen[count], 0);
      }
    std::vector<char> src(100003, 'a'), dst(100003, 'b');
    device->copy(src.data(), dst.data(), 100003);
    EXPECT_EQ(src, dst);
  }
}
} // namespace
