//===- AttentionTest.cpp - attention's own kernels on the emulated GPU ----===//
//
// What runs where cuDNN takes no attention: random sizes, groups of heads,
// moved heads, masks, against the formulas of docs/Package.md in double.
//
//===----------------------------------------------------------------------===//
#include "EmulatedCall.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

using Floats = std::vector<float>;

struct Sizes {
  int64_t batch, heads, keyHeads, queries, keys, size, width;
  bool causal, bias, moved;
};

/// Position of an element: heads before rows, or rows before heads.
int64_t placeOf(const Sizes &s, int64_t heads, int64_t rows, int64_t columns,
                int64_t b, int64_t h, int64_t i, int64_t c) {
  return s.moved ? ((b * rows + i) * heads + h) * columns + c
                 : ((b * heads + h) * rows + i) * columns + c;
}

/// The call's buffers: q, k, v, (out, stats, diff,) (bias,) results.
struct Call {
  Sizes s;
  bool gradient, bf16;
  std::vector<Floats> in, out, want;

  float &at(std::vector<Floats> &list, size_t n, bool key, bool value,
            int64_t b, int64_t h, int64_t i, int64_t c) {
    return list[n][static_cast<size_t>(
        placeOf(s, key ? s.keyHeads : s.heads, key ? s.keys : s.queries,
                value ? s.width : s.size, b, h, i, c))];
  }

  std::vector<std::string> types; ///< of the buffers, in order

  /// An operand of so many elements; `narrow`: of the call's type.
  std::string operand(const std::string &name, size_t elements, bool narrow,
                      const std::string &view) {
    types.push_back("memref<" + std::to_string(elements) + "x" +
                    (narrow && bf16 ? "bf16" : "f32") + ">");
    return " " + name + "(%a" + std::to_string(types.size() - 1) + " : " +
           types.back() + view + ")";
  }
  std::string tensor(const std::string &name, size_t elements, bool key,
                     bool value) {
    std::string view;
    if (s.moved) {
      int64_t heads = key ? s.keyHeads : s.heads,
              rows = key ? s.keys : s.queries,
              columns = value ? s.width : s.size;
      for (int64_t stride :
           {rows * heads * columns, columns, heads * columns, int64_t(1)})
        view += (view.empty() ? " strides [" : ", ") + std::to_string(stride);
      view += "]";
    }
    return operand(name, elements, true, view);
  }
  std::string text() {
    auto number = [](const char *key, int64_t value) {
      return std::string(key) + " = " + std::to_string(value);
    };
    std::string text =
        std::string("exec.attention") + (gradient ? "_gradient" : "") +
        " 0 \"\" sizes <" + number("batch", s.batch) +
        number(", heads", s.heads) + number(", key_heads", s.keyHeads) +
        number(", queries", s.queries) + number(", keys", s.keys) +
        number(", head_size", s.size) + number(", value_size", s.width) +
        "> scale 0.5" + (s.causal ? " causal" : "");
    text += tensor("q", in[0].size(), false, false);
    text += tensor("k", in[1].size(), true, false);
    text += tensor("v", in[2].size(), true, true);
    if (gradient) {
      text += tensor("out", in[3].size(), false, true);
      text += operand("stats", in[4].size(), false, "");
      text += tensor("diff", in[5].size(), false, true);
    }
    if (s.bias)
      text += operand("bias", in[gradient ? 6 : 3].size(), false,
                      " strides [" + std::to_string(s.keys) + ", 0, 0, 1]");
    text += tensor("dst", want[0].size(), false, !gradient);
    if (gradient) {
      text += tensor("dk", want[1].size(), true, false);
      text += tensor("dv", want[2].size(), true, true);
    } else {
      text += operand("stats", want[1].size(), false, "");
    }
    return text;
  }

  void reference() {
    size_t biasAt = gradient ? 6 : 3;
    int64_t group = s.heads / s.keyHeads;
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t i = 0; i < s.queries; ++i) {
          int64_t hk = h / group,
                  count = s.causal ? std::min(i + 1, s.keys) : s.keys;
          std::vector<double> p(static_cast<size_t>(count));
          double max = -INFINITY, sum = 0, delta = 0;
          for (int64_t j = 0; j < count; ++j) {
            for (int64_t d = 0; d < s.size; ++d)
              p[j] += 0.5 * at(in, 0, false, false, b, h, i, d) *
                      at(in, 1, true, false, b, hk, j, d);
            if (s.bias)
              p[j] += in[biasAt][static_cast<size_t>(b * s.keys + j)];
            max = std::max(max, p[j]);
          }
          for (double &x : p)
            sum += std::exp(x - max);
          auto row = static_cast<size_t>((b * s.heads + h) * s.queries + i);
          double stats = max + std::log(sum);
          for (double &x : p)
            x = std::exp(x - stats);
          for (int64_t e = 0; e < s.width; ++e) {
            double y = 0;
            for (int64_t j = 0; j < count; ++j)
              y += p[j] * at(in, 2, true, true, b, hk, j, e);
            at(gradient ? in : want, gradient ? 3 : 0, false, true, b, h, i,
               e) = static_cast<float>(y);
            if (gradient)
              delta += y * at(in, 5, false, true, b, h, i, e);
          }
          (gradient ? in[4] : want[1])[row] = static_cast<float>(stats);
          for (int64_t j = 0; gradient && j < count; ++j) {
            double dp = 0;
            for (int64_t e = 0; e < s.width; ++e) {
              double dy = at(in, 5, false, true, b, h, i, e);
              dp += dy * at(in, 2, true, true, b, hk, j, e);
              at(want, 2, true, true, b, hk, j, e) +=
                  static_cast<float>(p[j] * dy);
            }
            for (int64_t d = 0; d < s.size; ++d) {
              at(want, 0, false, false, b, h, i, d) +=
                  static_cast<float>(0.5 * p[j] * (dp - delta) *
                                     at(in, 1, true, false, b, hk, j, d));
              at(want, 1, true, false, b, hk, j, d) +=
                  static_cast<float>(0.5 * p[j] * (dp - delta) *
                                     at(in, 0, false, false, b, h, i, d));
            }
          }
        }
  }

  bool isNarrow(bool input, size_t n) const {
    if (!bf16)
      return false;
    if (input)
      return !(gradient && n == 4) && n != (gradient ? 6u : 3u);
    return gradient || n == 0;
  }

  void run() {
    std::string callText = text();
    llvm::ArrayRef<std::string> all(types);
    EmulatedCall call(callText, all.take_front(in.size()),
                      all.drop_front(in.size()));
    auto place = [](const Floats &data, bool narrow, char *to) {
      for (size_t i = 0; i < data.size(); ++i) {
        uint32_t bits;
        memcpy(&bits, &data[i], 4);
        auto upper = static_cast<uint16_t>(bits >> 16);
        narrow ? memcpy(to + i * 2, &upper, 2) : memcpy(to + i * 4, &bits, 4);
      }
    };
    for (size_t n = 0; n < in.size(); ++n)
      place(in[n], isNarrow(true, n), call.input(n));
    for (size_t n = 0; n < want.size(); ++n)
      place(Floats(want[n].size(), NAN), isNarrow(false, n), call.result(n));
    ASSERT_NO_FATAL_FAILURE(call.run());
    for (size_t n = 0; n < want.size(); ++n) {
      const char *from = call.result(n);
      for (size_t i = 0; i < want[n].size(); ++i) {
        uint32_t bits = 0;
        bool narrow = isNarrow(false, n);
        memcpy(reinterpret_cast<char *>(&bits) + (narrow ? 2 : 0),
               from + i * (narrow ? 2 : 4), narrow ? 2 : 4);
        float got;
        memcpy(&got, &bits, 4);
        ASSERT_NEAR(got, want[n][i],
                    (bf16 ? 2e-2 : 2e-5) * (1 + std::fabs(want[n][i])))
            << "result " << n << " at " << i;
      }
    }
  }
};

void check(unsigned seed, bool gradient, bool bf16) {
  std::mt19937 random(seed);
  auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % (high - low + 1));
  };
  Sizes s{draw(1, 2),      0,
          draw(1, 2),      draw(1, 5),
          draw(1, 5),      draw(1, 9),
          draw(1, 9),      draw(0, 1) == 1,
          draw(0, 1) == 1, draw(0, 1) == 1};
  s.heads = s.keyHeads * draw(1, 2);
  Call call{s, gradient, bf16, {}, {}, {}};
  auto fill = [&](int64_t count, bool narrow) {
    Floats data(static_cast<size_t>(count));
    for (float &x : data) {
      x = static_cast<float>(draw(-1000, 1000)) / 1000;
      uint32_t bits;
      memcpy(&bits, &x, 4);
      bits &= narrow && bf16 ? 0xffff0000u : 0xffffffffu;
      memcpy(&x, &bits, 4);
    }
    call.in.push_back(std::move(data));
  };
  int64_t q = s.batch * s.heads * s.queries, k = s.batch * s.keyHeads * s.keys;
  fill(q * s.size, true);
  fill(k * s.size, true);
  fill(k * s.width, true);
  if (gradient) {
    fill(q * s.width, true);
    fill(q, false);
    fill(q * s.width, true);
  }
  if (s.bias)
    fill(s.batch * s.keys, false);
  auto result = [&](int64_t count) {
    call.want.push_back(Floats(static_cast<size_t>(count), 0));
  };
  result(q * (gradient ? s.size : s.width));
  result(gradient ? k * s.size : q);
  if (gradient)
    result(k * s.width);
  call.reference();
  call.run();
}

TEST(AttentionTest, Forward) {
  for (unsigned seed = 0; seed < 6 && !::testing::Test::HasFatalFailure();
       ++seed) {
    SCOPED_TRACE(seed);
    check(seed, false, seed % 3 == 2);
  }
}

TEST(AttentionTest, Gradient) {
  for (unsigned seed = 0; seed < 6 && !::testing::Test::HasFatalFailure();
       ++seed) {
    SCOPED_TRACE(seed);
    check(seed, true, seed % 3 == 2);
  }
}

} // namespace
