//===- AttentionCall.cpp - attention on the CPU ---------------------------===//
//
// The CPU is faster with attention in its parts, which is what it gets unless
// `--fused-attention` asks for this call; recording drivers answer with it, and
// other answers are tested against it. All arithmetic is in
// f32, operands and results are rounded as they are stored. An iteration is one
// head, of the gradient one key head, whose sums over its queries are kept in
// scratch memory in a fixed order: the bits do not depend on the number of
// threads.
//
//===----------------------------------------------------------------------===//
#include "AttentionCall.h"

#include "../../package/AttentionOperands.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kerf::rt;

namespace {

float fromHalf(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 31,
           fraction = bits & 1023;
  float magnitude;
  if (exponent == 31) {
    magnitude = fraction ? NAN : INFINITY;
  } else {
    magnitude = exponent
                    ? std::ldexp(float(fraction + 1024), int(exponent) - 25)
                    : std::ldexp(float(fraction), -24);
  }
  return sign ? -magnitude : magnitude;
}

uint16_t toHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  float magnitude = std::fabs(value);
  if (std::isnan(value))
    return sign | 0x7e00;
  if (magnitude >= 65520)
    return sign | 0x7c00;
  if (magnitude < 6.103515625e-05f) // subnormal; rounds to even
    return sign |
           static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  std::memcpy(&bits, &magnitude, 4);
  bits += 0xfff + ((bits >> 13) & 1);
  return sign | static_cast<uint16_t>((bits >> 13) - (112 << 10));
}

float fromBfloat(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

uint16_t toBfloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (std::isnan(value))
    return static_cast<uint16_t>((bits >> 16) | 64);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// An operand as the call sees it while it runs.
struct View {
  int64_t buffer = -1, offset = 0, width = 0;
  Shape strides;
  kerf_dtype_t dtype = KERF_F32;

  int64_t row(int64_t b, int64_t h, int64_t i) const {
    return offset + b * strides[0] + h * strides[1] + i * strides[2];
  }
  void load(void *const *buffers, int64_t b, int64_t h, int64_t i, float *to,
            int64_t count) const {
    int64_t at = row(b, h, i), step = strides[3];
    const void *from = buffers[buffer];
    if (dtype == KERF_F32)
      for (int64_t c = 0; c < count; ++c)
        to[c] = static_cast<const float *>(from)[at + c * step];
    else if (dtype == KERF_BF16)
      for (int64_t c = 0; c < count; ++c)
        to[c] = fromBfloat(static_cast<const uint16_t *>(from)[at + c * step]);
    else
      for (int64_t c = 0; c < count; ++c)
        to[c] = fromHalf(static_cast<const uint16_t *>(from)[at + c * step]);
  }
  void store(void *const *buffers, int64_t b, int64_t h, int64_t i,
             const float *from) const {
    int64_t at = row(b, h, i), step = strides[3];
    void *to = buffers[buffer];
    if (dtype == KERF_F32)
      for (int64_t c = 0; c < width; ++c)
        static_cast<float *>(to)[at + c * step] = from[c];
    else if (dtype == KERF_BF16)
      for (int64_t c = 0; c < width; ++c)
        static_cast<uint16_t *>(to)[at + c * step] = toBfloat(from[c]);
    else
      for (int64_t c = 0; c < width; ++c)
        static_cast<uint16_t *>(to)[at + c * step] = toHalf(from[c]);
  }
  float &statistic(void *const *buffers, int64_t b, int64_t h,
                   int64_t i) const {
    return static_cast<float *>(buffers[buffer])[row(b, h, i)];
  }
};

float dot(const float *x, const float *y, int64_t count) {
  float sum = 0;
  for (int64_t c = 0; c < count; ++c)
    sum += x[c] * y[c];
  return sum;
}

class AttentionCall : public LibraryCall {
public:
  AttentionCall(const LibraryDesc &desc, Device &device)
      : a(desc.attention), device(device), batch(desc.batch[0]),
        gradient(desc.kind == LibraryDesc::AttentionGradient) {
    for (const AttentionOperand &o : attentionOperands(desc)) {
      View *view = find(o.name);
      if (o.operand->kind != Operand::Buffer)
        continue;
      *view = {o.operand->index, o.operand->offset, o.dims.back(), o.strides(),
               o.dtype};
    }
    group = a.heads / a.keyHeads;
    iterations = batch * (gradient ? a.keyHeads : a.heads);
    // What one iteration needs, in floats.
    int64_t rows = a.headSize + a.valueSize;
    room = gradient ? a.keys * (2 * rows + 1) + 2 * a.headSize + 2 * a.valueSize
                    : a.keys + 2 * rows;
    int64_t work = a.keys * rows * a.queries * (gradient ? 3 * group : 1);
    grain = std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(work, 1));
  }
  int64_t scratchBytes() const override {
    return mulChecked(mulChecked(iterations, room), 4);
  }
  void run(void *const *buffers, void *scratch) override {
    void *job[] = {this, const_cast<void **>(buffers), scratch};
    device.launch(
        [](void *const *data, const int64_t *, int64_t begin, int64_t end) {
          const auto &self = *static_cast<const AttentionCall *>(data[0]);
          auto *const *operands = static_cast<void *const *>(data[1]);
          for (int64_t at = begin; at < end; ++at) {
            float *own = static_cast<float *>(data[2]) + at * self.room;
            if (self.gradient)
              self.keyHead(operands, at, own);
            else
              self.head(operands, at, own);
          }
        },
        job, nullptr, iterations, grain);
  }

private:
  View *find(const std::string &name) {
    if (name == "q")
      return &q;
    if (name == "k")
      return &k;
    if (name == "v")
      return &v;
    if (name == "out")
      return &out;
    if (name == "stats")
      return &stats;
    if (name == "diff")
      return &diff;
    if (name == "bias")
      return &bias;
    if (name == "dk")
      return &dk;
    return name == "dv" ? &dv : &dst;
  }

  int64_t seen(int64_t i) const {
    return a.causal ? std::min(i + 1, a.keys) : a.keys;
  }
  /// scale q k^T + bias of one query; `keyRows` in f32 or null.
  void scores(void *const *buffers, int64_t b, int64_t h, int64_t i,
              const float *queryRow, const float *keyRows, float *one,
              float *s) const {
    auto scale = static_cast<float>(a.scale);
    int64_t count = seen(i);
    for (int64_t j = 0; j < count; ++j) {
      if (!keyRows)
        k.load(buffers, b, h / group, j, one, a.headSize);
      s[j] = scale * dot(queryRow, keyRows ? keyRows + j * a.headSize : one,
                         a.headSize);
    }
    if (bias.buffer < 0)
      return;
    for (int64_t j = 0; j < count; ++j) {
      View at = bias;
      at.offset += j * bias.strides[3];
      float x;
      at.load(buffers, b, h, i, &x, 1);
      s[j] += x;
    }
  }

  void head(void *const *buffers, int64_t at, float *own) const {
    for (int64_t i = 0; i < a.queries; ++i)
      query(buffers, at / a.heads, at % a.heads, i, own);
  }
  void query(void *const *buffers, int64_t b, int64_t h, int64_t i,
             float *own) const {
    // `row` holds one key, then one value.
    float *s = own, *queryRow = s + a.keys, *row = queryRow + a.headSize,
          *sum = row + std::max(a.headSize, a.valueSize);
    q.load(buffers, b, h, i, queryRow, a.headSize);
    scores(buffers, b, h, i, queryRow, nullptr, row, s);
    int64_t count = seen(i);
    float max = *std::max_element(s, s + count), total = 0;
    std::fill(sum, sum + a.valueSize, 0.0f);
    for (int64_t j = 0; j < count; ++j) {
      float p = std::exp(s[j] - max);
      total += p;
      v.load(buffers, b, h / group, j, row, a.valueSize);
      for (int64_t e = 0; e < a.valueSize; ++e)
        sum[e] += p * row[e];
    }
    for (int64_t e = 0; e < a.valueSize; ++e)
      sum[e] /= total;
    dst.store(buffers, b, h, i, sum);
    stats.statistic(buffers, b, h, i) = max + std::log(total);
  }

  void keyHead(void *const *buffers, int64_t at, float *own) const {
    int64_t b = at / a.keyHeads, hk = at % a.keyHeads;
    auto take = [&](int64_t count) {
      float *begin = own;
      own += count;
      return begin;
    };
    float *keyRows = take(a.keys * a.headSize),
          *valueRows = take(a.keys * a.valueSize),
          *toKeys = take(a.keys * a.headSize),
          *toValues = take(a.keys * a.valueSize), *s = take(a.keys),
          *queryRow = take(a.headSize), *toQuery = take(a.headSize),
          *given = take(a.valueSize), *result = take(a.valueSize);
    for (int64_t j = 0; j < a.keys; ++j) {
      k.load(buffers, b, hk, j, keyRows + j * a.headSize, a.headSize);
      v.load(buffers, b, hk, j, valueRows + j * a.valueSize, a.valueSize);
    }
    std::fill(toKeys, toKeys + a.keys * (a.headSize + a.valueSize), 0.0f);
    auto scale = static_cast<float>(a.scale);
    for (int64_t h = hk * group; h < (hk + 1) * group; ++h)
      for (int64_t i = 0; i < a.queries; ++i) {
        q.load(buffers, b, h, i, queryRow, a.headSize);
        diff.load(buffers, b, h, i, given, a.valueSize);
        out.load(buffers, b, h, i, result, a.valueSize);
        scores(buffers, b, h, i, queryRow, keyRows, nullptr, s);
        float lse = stats.statistic(buffers, b, h, i),
              delta = dot(given, result, a.valueSize);
        std::fill(toQuery, toQuery + a.headSize, 0.0f);
        for (int64_t j = 0, count = seen(i); j < count; ++j) {
          float p = std::exp(s[j] - lse);
          float dp = dot(given, valueRows + j * a.valueSize, a.valueSize);
          float ds = scale * p * (dp - delta);
          for (int64_t d = 0; d < a.headSize; ++d) {
            toQuery[d] += ds * keyRows[j * a.headSize + d];
            toKeys[j * a.headSize + d] += ds * queryRow[d];
          }
          for (int64_t e = 0; e < a.valueSize; ++e)
            toValues[j * a.valueSize + e] += p * given[e];
        }
        dst.store(buffers, b, h, i, toQuery);
      }
    for (int64_t j = 0; j < a.keys; ++j) {
      dk.store(buffers, b, hk, j, toKeys + j * a.headSize);
      dv.store(buffers, b, hk, j, toValues + j * a.valueSize);
    }
  }

  AttentionDesc a;
  Device &device;
  int64_t batch, group = 1, iterations = 0, room = 0, grain = 1;
  bool gradient;
  View q, k, v, out, stats, diff, bias, dst, dk, dv;
};

} // namespace

std::unique_ptr<LibraryCall>
kerf::rt::makeAttentionCall(const LibraryDesc &desc, Device &device) {
  return std::make_unique<AttentionCall>(desc, device);
}
