//===- PostOpsTest.cpp - random chains of post-ops against plain loops ----===//
//
// Matmuls and convolutions with chains of post-ops whose second tensors lie in
// every way that the manifest can say: full, repeated along any dimensions,
// with dimensions in another order, as a slice of a larger tensor. NaN and
// infinities are among the operands of some. The expected values are loops over
// the definition of each post-op (docs/Package.md), in double.
//
//===----------------------------------------------------------------------===//
#include "device/Device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace kerf::rt;

namespace {

/// A tensor of the test: elements in order, and where they lie in memory.
struct Tensor {
  std::vector<double> values; ///< row-major over the result's dimensions
  std::vector<float> memory;
  Shape strides;
  int64_t offset = 0;
};

class PostOps : public ::testing::TestWithParam<uint32_t> {
protected:
  int64_t below(int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  }
  float number() {
    if (special && below(12) == 0) {
      constexpr float values[] = {NAN, INFINITY, -INFINITY};
      return values[below(3)];
    }
    return std::uniform_real_distribution<float>(-1, 1)(random);
  }

  /// A second tensor for a result of `dims`, laid out in a random way.
  Tensor secondTensor(const Shape &dims) {
    size_t rank = dims.size();
    std::vector<bool> repeats(rank);
    for (size_t d = 0; d < rank; ++d)
      repeats[d] = dims[d] == 1 ? below(2) : below(3) == 0;
    if (below(3) == 0)
      repeats.assign(rank, false);
    std::vector<size_t> order(rank); // innermost first
    for (size_t d = 0; d < rank; ++d)
      order[d] = rank - 1 - d;
    if (below(3) == 0)
      std::shuffle(order.begin(), order.end(), random);
    Tensor t;
    t.strides.assign(rank, 0);
    int64_t size = 1;
    for (size_t d : order) {
      if (repeats[d])
        continue;
      t.strides[d] = size;
      size *= dims[d] + (below(6) == 0); // a slice
    }
    t.offset = below(3) == 0 ? 16 : 0;
    t.memory.resize(t.offset + size);
    for (float &value : t.memory)
      value = number();
    forEach(dims, [&](int64_t, const Shape &index) {
      int64_t at = t.offset;
      for (size_t d = 0; d < rank; ++d)
        at += index[d] * t.strides[d];
      t.values.push_back(t.memory[at]);
    });
    return t;
  }

  template <typename Visit>
  static void forEach(const Shape &dims, Visit visit) {
    Shape index(dims.size(), 0);
    for (int64_t i = 0, n = numElements(dims); i < n; ++i) {
      visit(i, index);
      for (size_t d = dims.size(); d-- > 0;) {
        if (++index[d] < dims[d])
          break;
        index[d] = 0;
      }
    }
  }

  /// The largest chain is four; a sum comes first.
  void addChain(LibraryDesc &desc, const Shape &dims,
                std::vector<double> &want) {
    what = "result of";
    for (int64_t size : dims)
      what += " " + std::to_string(size);
    constexpr const char *unary[] = {
        "relu",     "leaky_relu", "tanh",      "sigmoid",
        "gelu_erf", "gelu_tanh",  "silu",      "exp",
        "abs",      "sqrt",       "square",    "elu",
        "clip",     "linear",     "hardswish", "hardsigmoid"};
    constexpr const char *binary[] = {"add", "sub", "mul", "div", "max", "min"};
    for (int64_t i = 0, n = 1 + below(4); i < n; ++i) {
      PostOp op;
      if (below(2)) {
        op.kind = unary[below(std::size(unary))];
        // The root of what is zero but for rounding may be NaN.
        if (op.kind == "sqrt" && i > 0)
          op.kind = "square";
        op.alpha = op.kind == "clip" ? -0.25 * below(3) : 0.25 * (1 + below(3));
        op.beta = 0.5 * (1 + below(2));
        for (double &x : want)
          x = applyUnary(op, x);
      } else {
        op.kind = binary[below(std::size(binary))];
        seconds.push_back(secondTensor(dims));
        Tensor &t = seconds.back();
        op.operand.kind = Operand::Buffer;
        op.operand.index = 2 + static_cast<int64_t>(seconds.size());
        op.operand.offset = t.offset;
        op.operand.strides = t.strides;
        for (size_t k = 0; k < want.size(); ++k)
          want[k] = applyBinary(op.kind, want[k], t.values[k]);
      }
      what += " " + op.kind;
      if (op.operand.kind == Operand::Buffer) {
        what += " of strides [";
        for (int64_t stride : op.operand.strides)
          what += " " + std::to_string(stride);
        what += " ]";
      }
      desc.postOps.push_back(op);
    }
  }

  static double applyUnary(const PostOp &op, double x) {
    auto between = [](double x, double low, double high) {
      return std::isnan(x) ? x : x < low ? low : x > high ? high : x;
    };
    const std::string &kind = op.kind;
    if (kind == "relu")
      return x < 0 ? 0 : x;
    if (kind == "leaky_relu")
      return x < 0 ? op.alpha * x : x;
    if (kind == "tanh")
      return std::tanh(x);
    if (kind == "sigmoid")
      return 1 / (1 + std::exp(-x));
    if (kind == "gelu_erf")
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.)));
    if (kind == "gelu_tanh")
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    if (kind == "silu")
      return x / (1 + std::exp(-x));
    if (kind == "exp")
      return std::exp(x);
    if (kind == "abs")
      return std::abs(x);
    if (kind == "sqrt")
      return std::sqrt(x);
    if (kind == "square")
      return x * x;
    if (kind == "elu")
      return x > 0 ? x : op.alpha * (std::exp(x) - 1);
    if (kind == "clip")
      return between(x, op.alpha, op.beta);
    if (kind == "linear")
      return op.alpha * x + op.beta;
    if (kind == "hardswish")
      return x * between(x + 3, 0, 6) / 6;
    return between(op.alpha * x + op.beta, 0, 1); // hardsigmoid
  }

  static double applyBinary(const std::string &kind, double x, double y) {
    if (kind == "add")
      return x + y;
    if (kind == "sub")
      return x - y;
    if (kind == "mul")
      return x * y;
    if (kind == "div")
      return x / y;
    if (std::isnan(x) || std::isnan(y))
      return NAN;
    return kind == "max" ? std::max(x, y) : std::min(x, y);
  }

  /// What double can hold and float cannot is not compared.
  void runAndCompare(LibraryDesc desc, const Shape &dims, std::vector<float> &x,
                     std::vector<float> &w, const std::vector<double> &want) {
    // The result may lie transposed: rows stay whole.
    Shape strides = denseStrides(dims);
    if (below(3) == 0) {
      std::vector<size_t> order(dims.size() - 1);
      for (size_t d = 0; d < order.size(); ++d)
        order[d] = d;
      std::shuffle(order.begin(), order.end(), random);
      int64_t size = dims.back();
      for (size_t d : order) {
        strides[d] = size;
        size *= dims[d];
      }
      if (desc.kind == LibraryDesc::Matmul)
        desc.dst.strides = strides;
      else
        strides = denseStrides(dims);
    }
    std::vector<float> y(want.size(), 7);
    std::vector<void *> buffers = {x.data(), y.data(), w.data()};
    for (Tensor &t : seconds)
      buffers.push_back(t.memory.data());
    auto device = makeCpuDevice(0, 1, makeCpuPackCache());
    auto call = device->prepare(desc, 0, [&](int64_t) {
      return ParameterView{w.data(), static_cast<int64_t>(w.size()), "w",
                           nullptr};
    });
    auto scratch = device->allocate(call->scratchBytes(), "scratch");
    for (int run = 0; run < 2; ++run) // what is made at the first use is kept
      call->run(buffers.data(), scratch->data);
    std::vector<float> found;
    forEach(dims, [&](int64_t, const Shape &index) {
      int64_t at = 0;
      for (size_t d = 0; d < dims.size(); ++d)
        at += index[d] * strides[d];
      found.push_back(y[at]);
    });
    for (size_t i = 0; i < want.size(); ++i) {
      double a = found[i], b = want[i];
      if (std::abs(b) > 1e30 && !std::isinf(a) && !std::isinf(b))
        continue;
      if (std::isinf(a) && std::abs(b) > 3.4e38 && (a > 0) == (b > 0))
        continue;
      bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                  std::abs(a - b) <= 1e-3 + 1e-3 * std::abs(b);
      ASSERT_TRUE(same) << what << ": element " << i << " is " << a
                        << ", expected " << b;
    }
  }

  std::mt19937 random{GetParam()};
  bool special = GetParam() % 3 == 0;
  std::vector<Tensor> seconds;
  std::string what;
};

} // namespace

TEST_P(PostOps, OfAMatmul) {
  LibraryDesc desc;
  for (int64_t d = below(3); d > 0; --d)
    desc.batch.push_back(1 + below(3));
  desc.m = 1 + below(20), desc.n = 1 + below(20), desc.k = 1 + below(20);
  Shape dims = desc.batch;
  dims.push_back(desc.m);
  dims.push_back(desc.n);
  int64_t batch = numElements(desc.batch);
  std::vector<float> x(batch * desc.m * desc.k), w(desc.k * desc.n);
  for (float &value : x)
    value = number();
  for (float &value : w)
    value = std::uniform_real_distribution<float>(-1, 1)(random);
  desc.lhs.kind = desc.dst.kind = Operand::Buffer;
  desc.dst.index = 1;
  desc.rhs.kind = below(2) ? Operand::Param : Operand::Buffer;
  desc.rhs.index = desc.rhs.kind == Operand::Param ? 0 : 2;
  if (!desc.batch.empty()) {
    desc.rhs.strides.assign(dims.size(), 0);
    desc.rhs.strides[dims.size() - 2] = desc.n;
    desc.rhs.strides.back() = 1;
  }
  std::vector<double> want;
  for (int64_t i = 0; i < batch * desc.m; ++i)
    for (int64_t j = 0; j < desc.n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < desc.k; ++k)
        sum += static_cast<double>(x[i * desc.k + k]) * w[k * desc.n + j];
      want.push_back(sum);
    }
  addChain(desc, dims, want);
  runAndCompare(desc, dims, x, w, want);
}

TEST_P(PostOps, OfAConvolution) {
  LibraryDesc desc;
  desc.kind = LibraryDesc::Conv;
  desc.batch = {1 + below(2)};
  desc.inChannels = 1 + below(6), desc.outChannels = 1 + below(20);
  for (int64_t d = 1 + below(2); d > 0; --d) {
    desc.in.push_back(1 + below(7));
    desc.kernel.push_back(1);
    desc.strides.push_back(1);
    desc.padsLow.push_back(0);
    desc.padsHigh.push_back(0);
    desc.dilations.push_back(1);
  }
  desc.out = desc.in;
  Shape dims = desc.batch;
  dims.insert(dims.end(), desc.out.begin(), desc.out.end());
  int64_t points = numElements(dims), c = desc.inChannels;
  dims.push_back(desc.outChannels);
  std::vector<float> x(points * c), w(desc.outChannels * c);
  for (float &value : x)
    value = number();
  for (float &value : w)
    value = std::uniform_real_distribution<float>(-1, 1)(random);
  desc.lhs.kind = desc.dst.kind = Operand::Buffer;
  desc.dst.index = 1;
  desc.rhs.kind = below(2) ? Operand::Param : Operand::Buffer;
  desc.rhs.index = desc.rhs.kind == Operand::Param ? 0 : 2;
  std::vector<double> want;
  for (int64_t i = 0; i < points; ++i)
    for (int64_t o = 0; o < desc.outChannels; ++o) {
      double sum = 0;
      for (int64_t k = 0; k < c; ++k)
        sum += static_cast<double>(x[i * c + k]) * w[o * c + k];
      want.push_back(sum);
    }
  addChain(desc, dims, want);
  runAndCompare(desc, dims, x, w, want);
}

INSTANTIATE_TEST_SUITE_P(Random, PostOps, ::testing::Range(1u, 301u));
