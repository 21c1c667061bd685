//===- PlanTest.cpp - what cuBLASLt and cuDNN are asked, evaluated --------===//
//
// No GPU is needed to know what a call means: a plan is evaluated by plain
// loops over column-major matrices (or cuDNN's tensors) and compared with the
// meaning of the descriptor in docs/Package.md, element by element, for random
// views.
//
//===----------------------------------------------------------------------===//
#include "device/cuda/cudnn/ConvPlan.h"
#include "device/cuda/cudnn/ConvSteps.h"
#include "device/cuda/matmul/AlgorithmCache.h"
#include "device/cuda/matmul/MatmulPlan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

using namespace kerf::rt;

namespace {

Operand buffer(int64_t index, Shape strides = {}, int64_t offset = 0) {
  Operand operand;
  operand.kind = Operand::Buffer;
  operand.index = index;
  operand.strides = std::move(strides);
  operand.offset = offset;
  return operand;
}

Shape stridesOf(const Operand &o, const Shape &dims) {
  if (!o.strides.empty())
    return o.strides;
  Shape s = denseStrides(dims);
  if (o.transpose) {
    s[dims.size() - 2] = 1;
    s[dims.size() - 1] = dims[dims.size() - 2];
  }
  return s;
}

double activate(MatmulPlan::Activation a, double x) {
  if (a == MatmulPlan::Relu)
    return std::max(x, 0.0);
  if (a == MatmulPlan::Gelu)
    return 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
  return x;
}

/// What cuBLASLt does with the plan; every pointer is the operand's offset.
void evaluate(const MatmulPlan &p, const double *a, const double *b,
              const double *c, double *d, const double *bias, size_t depth) {
  if (depth < p.loops.size()) {
    const auto &loop = p.loops[depth];
    for (int64_t i = 0; i < loop.count; ++i)
      evaluate(p, a + i * loop.a, b + i * loop.b, c + i * loop.c,
               d + i * loop.d, bias, depth + 1);
    return;
  }
  auto at = [](const LtMatrix &x, int64_t i, int64_t j) {
    if (x.transposed)
      std::swap(i, j);
    EXPECT_LT(i, x.rows);
    EXPECT_LT(j, x.cols);
    EXPECT_GE(x.ld, x.rows);
    return i + j * x.ld;
  };
  for (int64_t batch = 0; batch < p.batch; ++batch)
    for (int64_t j = 0; j < p.n; ++j)
      for (int64_t i = 0; i < p.m; ++i) {
        double sum = 0;
        for (int64_t x = 0; x < p.k; ++x)
          sum += a[batch * p.a.batchStride + at(p.a, i, x)] *
                 b[batch * p.b.batchStride + at(p.b, x, j)];
        sum *= p.alpha;
        double side = c[batch * p.c.batchStride + at(p.c, i, j)];
        if (p.usesC())
          sum += side;
        if (p.aux)
          sum *= side; // stands for the slope there
        if (p.bias)
          sum += bias[i];
        d[batch * p.d.batchStride + at(p.d, i, j)] =
            activate(p.activation, sum);
      }
}

/// Visits all indices of a shape.
template <typename Visit> void forEach(const Shape &dims, Visit &&visit) {
  if (numElements(dims) == 0)
    return;
  Shape index(dims.size(), 0);
  while (true) {
    visit(index);
    size_t d = dims.size();
    while (d > 0 && ++index[d - 1] == dims[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

int64_t dot(const Shape &a, const Shape &b) {
  int64_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

class MatmulPlans : public testing::Test {
protected:
  std::mt19937 random{7};
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  }

  /// A random layout of dims in which one of the last two has stride 1.
  Shape layout(const Shape &dims, bool mayBroadcast, bool rowMajor) {
    // The order of dimensions in memory, innermost first.
    std::vector<size_t> order;
    for (size_t d = 0; d + 2 < dims.size(); ++d)
      order.push_back(d);
    std::shuffle(order.begin(), order.end(), random);
    size_t last = dims.size() - 1;
    bool transposed = !rowMajor && pick(0, 1);
    size_t outerMatrix = transposed ? last : last - 1,
           innerMatrix = transposed ? last - 1 : last;
    order.insert(order.begin() + pick(0, static_cast<int64_t>(order.size())),
                 outerMatrix);
    Shape strides(dims.size());
    strides[innerMatrix] = 1;
    int64_t next = dims[innerMatrix] + pick(0, 2);
    for (size_t d : order) {
      strides[d] = next;
      next = next * dims[d] + (pick(0, 3) == 0 ? pick(0, 3) : 0);
    }
    if (mayBroadcast)
      for (size_t d = 0; d + 2 < dims.size(); ++d)
        if (pick(0, 3) == 0)
          strides[d] = 0;
    return strides;
  }

  std::vector<double> data(int64_t size) {
    std::vector<double> values(static_cast<size_t>(size));
    for (double &v : values)
      v = std::uniform_real_distribution<double>(-1, 1)(random);
    return values;
  }

  static int64_t extent(const Shape &dims, const Shape &strides) {
    int64_t last = 1;
    for (size_t d = 0; d < dims.size(); ++d)
      last += (dims[d] - 1) * strides[d];
    return last;
  }

  void check(const LibraryDesc &desc) {
    auto with = [&](int64_t x, int64_t y) {
      Shape dims = desc.batch;
      dims.push_back(x);
      dims.push_back(y);
      return dims;
    };
    Shape lhsDims = with(desc.m, desc.k), rhsDims = with(desc.k, desc.n),
          dstDims = with(desc.m, desc.n);
    Shape ls = stridesOf(desc.lhs, lhsDims), rs = stridesOf(desc.rhs, rhsDims),
          ds = stridesOf(desc.dst, dstDims);
    const PostOp *addend = nullptr;
    double factor = 1;
    bool sums = false, slope = false;
    for (const PostOp &op : desc.postOps) {
      slope |= op.kind == "gelu_tanh_gradient";
      if (op.kind == "linear")
        factor = op.alpha;
      sums |= op.kind == "sum";
      if (op.kind == "add" || op.kind == "gelu_tanh_gradient")
        addend = &op;
    }
    bool adds = addend;
    Shape cs = adds ? stridesOf(addend->operand, dstDims) : ds;
    std::vector<double> lhs = data(extent(lhsDims, ls)),
                        rhs = data(extent(rhsDims, rs)),
                        added = data(extent(dstDims, cs)),
                        dst = data(extent(dstDims, ds)), bias = data(desc.n);
    std::vector<double> want = dst, got = dst;
    std::string last = desc.postOps.empty() ? "" : desc.postOps.back().kind;
    auto a = last == "relu"        ? MatmulPlan::Relu
             : last == "gelu_tanh" ? MatmulPlan::Gelu
                                   : MatmulPlan::None;
    forEach(dstDims, [&](const Shape &index) {
      Shape l = index, r = index;
      double sum = 0;
      for (int64_t x = 0; x < desc.k; ++x) {
        l.back() = x;
        r[r.size() - 2] = x;
        sum += lhs[dot(l, ls)] * rhs[dot(r, rs)];
      }
      sum *= factor;
      if (desc.bias.kind != Operand::None)
        sum += bias[index.back()];
      if (slope)
        sum *= added[dot(index, cs)];
      else if (adds)
        sum += added[dot(index, cs)];
      if (sums)
        sum += dst[dot(index, ds)];
      want[dot(index, ds)] = activate(a, sum);
    });
    MatmulPlan plan = planMatmul(desc);
    const double *A = plan.lhsIsA ? lhs.data() : rhs.data(),
                 *B = plan.lhsIsA ? rhs.data() : lhs.data();
    evaluate(plan, A, B, adds ? added.data() : got.data(), got.data(),
             bias.data(), 0);
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-9) << i;
    // Nothing beyond what the descriptor gives is touched.
    auto within = [&](const LtMatrix &x, int64_t MatmulPlan::Loop::*s,
                      size_t size) {
      ASSERT_LE(extentOf(plan, x, s), static_cast<int64_t>(size));
    };
    within(plan.a, &MatmulPlan::Loop::a, plan.lhsIsA ? lhs.size() : rhs.size());
    within(plan.b, &MatmulPlan::Loop::b, plan.lhsIsA ? rhs.size() : lhs.size());
    within(plan.d, &MatmulPlan::Loop::d, dst.size());
    ++checked;
    batched += plan.batch > 1;
    looped += !plan.loops.empty();
    swapped += plan.lhsIsA;
  }
  int checked = 0, batched = 0, looped = 0, swapped = 0;
};

TEST_F(MatmulPlans, RandomViews) {
  for (int i = 0; i < 3000; ++i) {
    LibraryDesc desc;
    for (int64_t d = pick(0, 3); d > 0; --d)
      desc.batch.push_back(pick(1, 3));
    desc.m = pick(1, 4);
    desc.n = pick(1, 4);
    desc.k = pick(1, 4);
    auto dims = [&](int64_t x, int64_t y) {
      Shape all = desc.batch;
      all.push_back(x);
      all.push_back(y);
      return all;
    };
    desc.lhs = buffer(0, layout(dims(desc.m, desc.k), true, false));
    desc.rhs = buffer(1, layout(dims(desc.k, desc.n), true, false));
    desc.dst = buffer(2, layout(dims(desc.m, desc.n), false, false));
    bool rowMajor = desc.dst.strides.back() == 1;
    if (rowMajor && pick(0, 1))
      desc.bias = buffer(3);
    else if (pick(0, 2) == 0)
      desc.postOps.push_back({"linear", 0.25, 0, {}});
    int64_t form = pick(0, 2);
    if (form == 1)
      desc.postOps.push_back({"sum", 0, 0, {}});
    if (form == 2 && rowMajor)
      desc.postOps.push_back(
          {"add", 0, 0, buffer(4, layout(dims(desc.m, desc.n), false, true))});
    if (int64_t a = pick(0, 2))
      desc.postOps.push_back({a == 1 ? "relu" : "gelu_tanh", 0, 0, {}});
    if (rowMajor && desc.bias.kind == Operand::None && desc.postOps.empty())
      desc.postOps.push_back(
          {"gelu_tanh_gradient", 0, 0,
           buffer(4, layout(dims(desc.m, desc.n), false, true))});
    check(desc);
    if (HasFatalFailure())
      return;
  }
  // The forms that the test is about have all been there.
  EXPECT_GT(batched, 200);
  EXPECT_GT(looped, 50);
  EXPECT_GT(swapped, 200);
}

// Attention: heads lie inside of rows, [batch, position, 3, heads, size].
TEST_F(MatmulPlans, Attention) {
  int64_t b = 2, s = 5, h = 3, e = 4;
  LibraryDesc scores;
  scores.batch = {b, h};
  scores.m = scores.n = s;
  scores.k = e;
  int64_t row = 3 * h * e;
  scores.lhs = buffer(0, {s * row, e, row, 1});
  scores.rhs = buffer(0, {s * row, e, 1, row}, h * e);
  scores.dst = buffer(1);
  check(scores);
  LibraryDesc context;
  context.batch = {b, h};
  context.m = s;
  context.n = e;
  context.k = s;
  context.lhs = buffer(1);
  context.rhs = buffer(0, {s * row, e, row, 1}, 2 * h * e);
  context.dst = buffer(2, {s * h * e, e, h * e, 1});
  check(context);
  EXPECT_EQ(looped, 2);
}

// Batches of one weight become one matrix with more rows.
TEST_F(MatmulPlans, SharedWeight) {
  LibraryDesc desc;
  desc.batch = {2, 3};
  desc.m = 4;
  desc.n = 5;
  desc.k = 6;
  desc.lhs = buffer(0);
  desc.rhs = buffer(1, {0, 0, 5, 1});
  desc.dst = buffer(2);
  check(desc);
  MatmulPlan plan = planMatmul(desc);
  EXPECT_EQ(plan.n, 24);
  EXPECT_EQ(plan.batch, 1);
  desc.rhs = buffer(1, {0, 0, 1, 6}); // stored [n, k]
  check(desc);
}

TEST_F(MatmulPlans, Refused) {
  auto message = [](const LibraryDesc &desc) {
    try {
      planMatmul(desc);
    } catch (const Error &error) {
      return error.message;
    }
    return std::string();
  };
  LibraryDesc desc;
  desc.m = desc.n = desc.k = 4;
  desc.lhs = buffer(0, {0, 1});
  desc.rhs = buffer(1);
  desc.dst = buffer(2);
  EXPECT_EQ(message(desc), "matmul on a GPU: lhs has strides 1 and 0, expected "
                           "one of them to be 1 and none to be 0");
  desc.lhs = buffer(0);
  desc.postOps = {{"gelu_erf", 0, 0, {}}};
  EXPECT_EQ(message(desc),
            "matmul on a GPU: post-op gelu_erf is none of its epilogues");
  desc.postOps = {};
  desc.dst = buffer(2, {1, 4});
  desc.bias = buffer(3);
  EXPECT_EQ(message(desc), "matmul on a GPU: a bias along a dimension of dst "
                           "whose stride is not 1");
}

/// cuDNN's cross-correlation over (N, C, spatial..) tensors.
void evaluateConv(
    const ConvPlan &p, int64_t groups,
    const std::function<void(int64_t x, int64_t w, int64_t y)> &visit) {
  Shape spatial(p.result.dims.begin() + 2, p.result.dims.end());
  Shape window(p.weights.dims.begin() + 2, p.weights.dims.end());
  int64_t perGroup = p.weights.dims[1],
          outPerGroup = p.weights.dims[0] / groups;
  forEach(p.result.dims, [&](const Shape &y) {
    for (int64_t c = 0; c < perGroup; ++c)
      forEach(window, [&](const Shape &k) {
        Shape x = y, w{y[1], c};
        x[1] = y[1] / outPerGroup * perGroup + c;
        bool inside = true;
        for (size_t d = 0; d < k.size(); ++d) {
          x[d + 2] = y[d + 2] * p.strides[d] + k[d] * p.dilations[d] - p.pre[d];
          inside = inside && x[d + 2] >= 0 && x[d + 2] < p.image.dims[d + 2];
          w.push_back(k[d]);
        }
        if (inside)
          visit(dot(x, p.image.strides), dot(w, p.storedWeights.strides),
                dot(y, p.result.strides));
      });
  });
}

TEST(ConvPlans, RandomWindows) {
  std::mt19937 random(3);
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 400; ++i) {
    LibraryDesc desc;
    desc.kind = LibraryDesc::Conv;
    size_t spatial = static_cast<size_t>(pick(1, 3));
    desc.batch = {pick(1, 2)};
    desc.groups = pick(1, 2);
    desc.inChannels = desc.groups * pick(1, 3);
    desc.outChannels = desc.groups * pick(1, 3);
    for (size_t d = 0; d < spatial; ++d) {
      desc.in.push_back(pick(3, 6));
      desc.kernel.push_back(pick(1, 3));
      desc.strides.push_back(pick(1, 2));
      desc.padsLow.push_back(pick(0, 2));
      desc.padsHigh.push_back(pick(0, 2));
      desc.dilations.push_back(desc.kernel[d] == 1 ? 1 : pick(1, 2));
      int64_t room = desc.in[d] + desc.padsLow[d] + desc.padsHigh[d] -
                     ((desc.kernel[d] - 1) * desc.dilations[d] + 1);
      if (room < 0) {
        desc.padsHigh[d] -= room;
        room = 0;
      }
      desc.out.push_back(room / desc.strides[d] + 1);
    }
    desc.lhs = buffer(0);
    desc.rhs = buffer(1);
    desc.dst = buffer(2);
    Shape inDims{desc.batch[0]}, outDims{desc.batch[0]},
        weightDims{desc.outChannels, desc.inChannels / desc.groups};
    inDims.insert(inDims.end(), desc.in.begin(), desc.in.end());
    outDims.insert(outDims.end(), desc.out.begin(), desc.out.end());
    weightDims.insert(weightDims.end(), desc.kernel.begin(), desc.kernel.end());
    inDims.push_back(desc.inChannels);
    outDims.push_back(desc.outChannels);
    if (pick(0, 1)) { // a slice of channels
      Shape wide = inDims;
      wide.back() += 2;
      desc.lhs.strides = denseStrides(wide);
    }
    Shape xs = stridesOf(desc.lhs, inDims), ys = denseStrides(outDims),
          ws = denseStrides(weightDims);
    // Pairs of terms, by element of the result, in the descriptor's meaning.
    using Terms = std::map<int64_t, std::multiset<std::pair<int64_t, int64_t>>>;
    Terms want, got;
    int64_t perGroup = desc.inChannels / desc.groups,
            outPerGroup = desc.outChannels / desc.groups;
    forEach(outDims, [&](const Shape &y) {
      for (int64_t c = 0; c < perGroup; ++c)
        forEach(desc.kernel, [&](const Shape &k) {
          Shape x = y, w{y.back(), c};
          x.back() = y.back() / outPerGroup * perGroup + c;
          bool inside = true;
          for (size_t d = 0; d < spatial; ++d) {
            x[d + 1] = y[d + 1] * desc.strides[d] + k[d] * desc.dilations[d] -
                       desc.padsLow[d];
            inside = inside && x[d + 1] >= 0 && x[d + 1] < desc.in[d];
            w.push_back(k[d]);
          }
          if (inside)
            want[dot(y, ys)].insert({dot(x, xs), dot(w, ws)});
        });
    });
    ConvPlan plan = planConv(desc);
    ASSERT_GE(plan.image.dims.size(), 4u);
    evaluateConv(plan, desc.groups, [&](int64_t x, int64_t w, int64_t y) {
      got[y].insert({x, w});
    });
    ASSERT_EQ(got, want);
    // The order that cuDNN gets holds every weight once.
    std::set<int64_t> places;
    forEach(plan.weights.dims, [&](const Shape &w) {
      places.insert(dot(w, plan.weights.strides));
    });
    ASSERT_EQ(static_cast<int64_t>(places.size()), numElements(weightDims));
    ASSERT_EQ(*places.rbegin(), numElements(weightDims) - 1);
    // Gradients name the same three tensors.
    LibraryDesc input = desc, weights = desc;
    input.kind = LibraryDesc::ConvInputGradient;
    input.lhs = desc.rhs;
    input.rhs = desc.dst;
    input.dst = desc.lhs;
    weights.kind = LibraryDesc::ConvWeightGradient;
    weights.rhs = desc.dst;
    weights.dst = desc.rhs;
    for (const LibraryDesc &gradient : {input, weights}) {
      ConvPlan other = planConv(gradient);
      EXPECT_EQ(other.image.strides, plan.image.strides);
      EXPECT_EQ(other.result.strides, plan.result.strides);
      EXPECT_EQ(other.weights.strides, plan.weights.strides);
    }
  }
}

// cuDNN's elementwise kernels have a block for each 32 channels in a direction
// of the grid that ends at 65535; seen on an H100 with 512 x 512 x 3 x 3.
TEST(ConvPlans, RowsHaveFewChannels) {
  for (int64_t n : {2, 3, 480, 65535, 65536, 512 * 512 * 9, 50257 * 768,
                    (1 << 20) + 2, 64 * 112 * 112}) {
    DnnTensor row = dnnRow(n);
    EXPECT_EQ(row.dims[1] * row.dims[2], n);
    EXPECT_EQ(row.strides[1], 1);
    EXPECT_EQ(row.strides[2], row.dims[1]);
    EXPECT_GT(row.dims[1], 1);
    EXPECT_LT(row.dims[1], 65536);
  }
}

TEST(AlgorithmCache, KeepsWhatWasMeasured) {
  std::string folder = std::filesystem::temp_directory_path() /
                       ("kerf-cache-" + std::to_string(::getpid()));
  std::string bytes("\0\x01\xff four", 8);
  {
    AlgorithmCache cache("cublaslt-130000", "NVIDIA H200 (sm_90)", folder);
    EXPECT_EQ(cache.find("a b"), "");
    cache.set("a b", bytes);
    AlgorithmCache other("cublaslt-130000", "NVIDIA H200 (sm_90)", folder);
    other.set("c", "x");
  }
  AlgorithmCache again("cublaslt-130000", "NVIDIA H200 (sm_90)", folder);
  EXPECT_EQ(again.find("a b"), bytes);
  EXPECT_EQ(again.find("c"), "x");
  EXPECT_EQ(AlgorithmCache("cublaslt-130000", "another", folder).find("c"), "");
  std::ofstream(again.path()) << "nonsense\na = 0g\nb = 123\nok = 41\n";
  AlgorithmCache damaged("cublaslt-130000", "NVIDIA H200 (sm_90)", folder);
  EXPECT_EQ(damaged.find("a"), "");
  EXPECT_EQ(damaged.find("b"), "");
  EXPECT_EQ(damaged.find("ok"), "A");
  AlgorithmCache nowhere("l", "g", "/proc/nowhere");
  nowhere.set("a", "b");
  nowhere.save();
  std::filesystem::remove_all(folder);
}
} // namespace
