//===- AttentionCalls.cpp - calls of attention in memory ------------------===//
#include "AttentionCalls.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

using namespace kerf::test;

/// The formulas of docs/Package.md; fills the results.
static void reference(const LibraryDesc &desc,
                      std::map<std::string, Dense> &t) {
  const AttentionDesc &a = desc.attention;
  int64_t group = a.heads / a.keyHeads;
  bool gradient = desc.kind == LibraryDesc::AttentionGradient;
  bool bias = desc.bias.kind != Operand::None;
  for (int64_t b = 0; b < desc.batch[0]; ++b)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t i = 0; i < a.queries; ++i) {
        int64_t count = a.causal ? std::min(i + 1, a.keys) : a.keys;
        std::vector<double> s(static_cast<size_t>(count));
        double max = -INFINITY, sum = 0, delta = 0;
        for (int64_t j = 0; j < count; ++j) {
          for (int64_t d = 0; d < a.headSize; ++d)
            s[j] +=
                a.scale * t["q"].at(b, h, i, d) * t["k"].at(b, h / group, j, d);
          if (bias)
            s[j] += t["bias"].at(b, h, i, j);
          max = std::max(max, s[j]);
        }
        for (double x : s)
          sum += std::exp(x - max);
        double stats = max + std::log(sum);
        for (int64_t e = 0; e < a.valueSize; ++e) {
          double y = 0;
          for (int64_t j = 0; j < count; ++j)
            y += std::exp(s[j] - stats) * t["v"].at(b, h / group, j, e);
          t["out"].at(b, h, i, e) = y;
          if (gradient)
            delta += y * t["diff"].at(b, h, i, e);
        }
        t["stats"].at(b, h, i) = stats;
        for (int64_t j = 0; gradient && j < count; ++j) {
          double p = std::exp(s[j] - stats), dp = 0;
          for (int64_t e = 0; e < a.valueSize; ++e) {
            dp += t["diff"].at(b, h, i, e) * t["v"].at(b, h / group, j, e);
            t["dv"].at(b, h / group, j, e) += p * t["diff"].at(b, h, i, e);
          }
          double ds = a.scale * p * (dp - delta);
          for (int64_t d = 0; d < a.headSize; ++d) {
            t["dq"].at(b, h, i, d) += ds * t["k"].at(b, h / group, j, d);
            t["dk"].at(b, h / group, j, d) += ds * t["q"].at(b, h, i, d);
          }
        }
      }
}

float kerf::test::rounded(double value, kerf_dtype_t dtype) {
  auto x = static_cast<float>(value);
  if (dtype == KERF_F32 || !std::isfinite(x) || x == 0)
    return x;
  int exponent;
  float fraction = std::frexp(x, &exponent);
  int digits = dtype == KERF_BF16 ? 8 : std::min(11, exponent + 24);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, digits)),
                    exponent - digits);
}

static uint16_t bitsOf(float value, kerf_dtype_t dtype) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (dtype == KERF_BF16)
    return static_cast<uint16_t>(bits >> 16);
  auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  if (value == 0)
    return sign;
  int exponent;
  float fraction = std::frexp(std::fabs(value), &exponent);
  if (exponent < -13)
    return sign | static_cast<uint16_t>(std::ldexp(std::fabs(value), 24));
  return sign | static_cast<uint16_t>((exponent + 14) << 10) |
         (static_cast<uint16_t>(std::ldexp(fraction, 11)) & 1023);
}

static float valueOf(uint16_t bits, kerf_dtype_t dtype) {
  if (dtype == KERF_BF16) {
    uint32_t wide = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
  }
  int exponent = (bits >> 10) & 31;
  float magnitude = exponent
                        ? std::ldexp(float((bits & 1023) | 1024), exponent - 25)
                        : std::ldexp(float(bits & 1023), -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

void AttentionCallData::write(const AttentionOperand &o, int64_t at,
                              double value) {
  char *base = memory[static_cast<size_t>(o.operand->index)].data();
  float x = rounded(value, o.dtype);
  if (o.dtype == KERF_F32) {
    std::memcpy(base + at * 4, &x, 4);
    return;
  }
  uint16_t bits = bitsOf(x, o.dtype);
  std::memcpy(base + at * 2, &bits, 2);
}

double AttentionCallData::read(const AttentionOperand &o, int64_t at) const {
  const char *base = memory[static_cast<size_t>(o.operand->index)].data();
  if (o.dtype == KERF_F32) {
    float x;
    std::memcpy(&x, base + at * 4, 4);
    return x;
  }
  uint16_t bits;
  std::memcpy(&bits, base + at * 2, 2);
  return valueOf(bits, o.dtype);
}

static int64_t placeOf(const AttentionOperand &o, const Shape &at) {
  Shape strides = o.strides();
  int64_t flat = o.operand->offset;
  for (size_t d = 0; d < at.size(); ++d)
    flat += at[d] * strides[d];
  return flat;
}

static bool isForwards(const AttentionOperand &o) {
  return std::string(o.name) == "out" || std::string(o.name) == "stats";
}

void AttentionCallData::finish() {
  std::vector<AttentionOperand> operands = attentionOperands(desc);
  for (const AttentionOperand &o : operands) {
    if (o.operand->kind == Operand::None)
      continue;
    auto index = static_cast<size_t>(o.operand->index);
    int64_t last = o.operand->offset + 1;
    Shape strides = o.strides();
    for (size_t d = 0; d < o.dims.size(); ++d)
      last += (o.dims[d] - 1) * strides[d];
    if (memory.size() <= index)
      memory.resize(index + 1);
    memory[index].assign(static_cast<size_t>(last * dtypeSize(o.dtype)), 0x7f);
    Dense &t = tensors[logical(o.name)];
    if (t.values.empty()) {
      t.dims = o.dims;
      t.values.assign(static_cast<size_t>(numElements(o.dims)), 0);
    }
    if (o.writes || isForwards(o))
      continue;
    forEachPlace(o.dims, [&](const Shape &at, int64_t n) {
      write(o, placeOf(o, at), t.values[static_cast<size_t>(n)]);
    });
    forEachPlace(o.dims, [&](const Shape &at, int64_t n) {
      t.values[static_cast<size_t>(n)] = read(o, placeOf(o, at));
    });
  }
  const AttentionDesc &a = desc.attention;
  for (const char *name : {"out", "stats"}) {
    Dense &t = tensors[name];
    t.dims = {desc.batch[0], a.heads, a.queries};
    if (std::string(name) == "out")
      t.dims.push_back(a.valueSize);
    t.values.assign(static_cast<size_t>(numElements(t.dims)), 0);
  }
  reference(desc, tensors);
  for (const AttentionOperand &o : operands)
    if (!o.writes && isForwards(o))
      forEachPlace(o.dims, [&](const Shape &at, int64_t n) {
        write(o, placeOf(o, at),
              tensors[o.name].values[static_cast<size_t>(n)]);
      });
}

void AttentionCallData::compare(double unit) {
  for (const AttentionOperand &o : attentionOperands(desc)) {
    if (!o.writes)
      continue;
    const Dense &want = tensors[logical(o.name)];
    // Gradients are small differences of terms that were rounded.
    double largest = gradient() && o.dtype != KERF_F32 ? 0.5 : 1e-3;
    for (double x : want.values)
      largest = std::max(largest, std::fabs(x));
    // Sums over queries and keys lose what products were rounded to.
    double allowed = unit * largest;
    if (o.dtype == KERF_F32)
      allowed = 1e-4 * (1 + largest);
    forEachPlace(o.dims, [&](const Shape &at, int64_t n) {
      ASSERT_NEAR(read(o, placeOf(o, at)), want.values[static_cast<size_t>(n)],
                  allowed)
          << o.name << " at " << n;
    });
  }
}

double kerf::test::unitOf(kerf_dtype_t dtype) {
  return dtype == KERF_F32 ? 1e-5 : dtype == KERF_F16 ? 4e-3 : 3e-2;
}

Operand kerf::test::bufferOperand(int64_t index) {
  Operand operand;
  operand.kind = Operand::Buffer;
  operand.index = index;
  return operand;
}

AttentionCallData kerf::test::randomAttention(unsigned seed, bool gradient,
                                              kerf_dtype_t dtype) {
  std::mt19937 random(seed);
  auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % (high - low + 1));
  };
  std::uniform_real_distribution<double> uniform(-2, 2);
  AttentionCallData call;
  LibraryDesc &desc = call.desc;
  AttentionDesc &a = desc.attention;
  desc.kind =
      gradient ? LibraryDesc::AttentionGradient : LibraryDesc::Attention;
  desc.dtype = desc.dstDtype = dtype;
  desc.batch = {draw(1, 3)};
  a.keyHeads = draw(1, 3);
  a.heads = a.keyHeads * draw(1, 2);
  a.queries = draw(1, 6);
  a.keys = draw(1, 6);
  a.headSize = 8 * draw(1, 2);
  a.valueSize = draw(0, 1) ? a.headSize : 8 * draw(1, 2);
  a.scale = 0.1 + 0.1 * static_cast<double>(draw(0, 3));
  a.causal = draw(0, 1);
  a.biasDtype = draw(0, 1) ? dtype : KERF_F32;
  int64_t next = 0;
  if (draw(0, 1))
    desc.bias = bufferOperand(next++);
  for (Operand *operand : {&desc.lhs, &desc.rhs, &a.v, &desc.dst, &a.stats})
    *operand = bufferOperand(next++);
  if (gradient)
    for (Operand *operand : {&a.out, &a.diff, &a.dk, &a.dv})
      *operand = bufferOperand(next++);
  for (const AttentionOperand &o : attentionOperands(desc)) {
    auto &operand = const_cast<Operand &>(*o.operand);
    if (operand.kind == Operand::None)
      continue;
    bool isBias = std::string(o.name) == "bias";
    if (o.dims.size() == 4 && !isBias && draw(0, 1)) {
      // [batch, rows, heads, columns]
      int64_t row = o.dims[1] * o.dims[3];
      operand.strides = {o.dims[2] * row, o.dims[3], row, 1};
      operand.offset = 8 * draw(0, 2);
    }
    if (o.writes || isForwards(o))
      continue;
    Dense &t = call.tensors[o.name];
    t.dims = o.dims;
    t.values.resize(static_cast<size_t>(numElements(o.dims)));
    for (double &x : t.values)
      x = uniform(random);
    if (!isBias)
      continue;
    Shape kept = o.dims;
    for (size_t d = 0; d < 3; ++d)
      if (draw(0, 1))
        kept[d] = 1;
    operand.strides = denseStrides(kept);
    for (size_t d = 0; d < 3; ++d)
      if (kept[d] == 1)
        operand.strides[d] = 0;
    // One hidden key, as masks do it.
    if (a.keys > 1 && draw(0, 1))
      for (size_t n = 0; n < t.values.size(); ++n)
        if (static_cast<int64_t>(n) % a.keys == a.keys - 1)
          t.values[n] = dtype == KERF_F16 ? -6e4 : -1e30;
  }
  call.finish();
  return call;
}
