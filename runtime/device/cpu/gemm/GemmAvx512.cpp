//===- GemmAvx512.cpp - tiles of a matmul in 512-bit registers ------------===//
//
// 14 x 2 registers of sums, 2 of rhs, and lhs broadcast from memory by the
// multiply-add itself: 28 of them wait for 16 loads, so the multipliers are
// the limit. This file is compiled for AVX-512 and includes no header whose
// inline functions could end up in other files.
//
//===----------------------------------------------------------------------===//
#include "GemmVectors.h"

using namespace kerf::rt;

namespace {

constexpr int64_t gemmRows = 14, gemmColumns = 32;
constexpr int64_t gemmDepth = 256;

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

// Lanes are `laneStride` apart, k is contiguous.
void packTransposed(const float *src, int64_t laneStride, int64_t lanes,
                    int64_t width, int64_t depth, float *dst) {
  for (int64_t lane = 0; lane < width; lane += lanesOfVector) {
    __mmask16 stored = firstLanes(width - lane);
    const float *from = src + lane * laneStride;
    int64_t valid = lanes - lane;
    for (int64_t k = 0; k < depth; k += lanesOfVector) {
      __mmask16 loaded = firstLanes(depth - k);
      __m512 r[16];
#pragma clang loop unroll(full)
      for (int i = 0; i < 16; ++i)
        r[i] = i < valid
                   ? _mm512_maskz_loadu_ps(loaded, from + i * laneStride + k)
                   : _mm512_setzero_ps();
      transpose16(r);
      int64_t left = depth - k;
      float *to = dst + k * width + lane;
#pragma clang loop unroll(full)
      for (int i = 0; i < 16; ++i)
        if (i < left)
          _mm512_mask_storeu_ps(to + i * width, stored, r[i]);
    }
  }
}

// Lanes are contiguous: rows are read over several panels.
template <int64_t Width>
void packContiguous(const float *src, int64_t depthStride, int64_t lanes,
                    int64_t depth, float *dst) {
  constexpr int64_t together = Width == gemmRows ? 8 : 4;
  __mmask16 lowWhole = firstLanes(Width),
            highWhole = firstLanes(Width - lanesOfVector);
  for (int64_t begin = 0; begin < lanes; begin += together * Width) {
    int64_t whole = (lanes - begin) / Width;
    int64_t rest = whole < together ? lanes - begin - whole * Width : 0;
    whole = whole < together ? whole : together;
    __mmask16 low = firstLanes(rest), high = firstLanes(rest - lanesOfVector);
    float *block = dst + begin * depth;
    for (int64_t k = 0; k < depth; ++k) {
      const float *from = src + k * depthStride + begin;
      float *to = block + k * Width;
      auto copy = [&](__mmask16 lowLoaded, __mmask16 highLoaded) {
        __m512 first = _mm512_maskz_loadu_ps(lowLoaded, from);
        _mm512_mask_storeu_ps(to, lowWhole, first);
        if (Width > lanesOfVector) {
          __m512 second =
              _mm512_maskz_loadu_ps(highLoaded, from + lanesOfVector);
          _mm512_mask_storeu_ps(to + lanesOfVector, highWhole, second);
        }
      };
      for (int64_t panel = 0; panel < whole; ++panel) {
        copy(lowWhole, highWhole);
        from += Width;
        to += Width * depth;
      }
      if (rest != 0)
        copy(low, high);
    }
  }
}

void packPanel(const float *src, int64_t laneStride, int64_t depthStride,
               int64_t lanes, int64_t width, int64_t depth, float *dst) {
  if (depthStride == 1)
    return packTransposed(src, laneStride, lanes, width, depth, dst);
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t lane = 0; lane < width; ++lane)
      dst[k * width + lane] =
          lane < lanes ? src[lane * laneStride + k * depthStride] : 0.f;
}

int64_t panelBytes(bool rhs, int64_t depth) {
  return (rhs ? gemmColumns : gemmRows) * depth * int64_t(sizeof(float));
}

// dst[panel * width * depth + k * width + lane]
void pack(const float *src, int64_t laneStride, int64_t depthStride,
          int64_t lanes, bool rhs, int64_t depth, void *to) {
  auto *dst = static_cast<float *>(to);
  if (laneStride == 1)
    return rhs ? packContiguous<gemmColumns>(src, depthStride, lanes, depth,
                                             dst)
               : packContiguous<gemmRows>(src, depthStride, lanes, depth, dst);
  int64_t width = rhs ? gemmColumns : gemmRows;
  for (int64_t lane = 0; lane < lanes; lane += width) {
    int64_t left = lanes - lane;
    packPanel(src + lane * laneStride, laneStride, depthStride,
              left < width ? left : width, width, depth, dst + lane * depth);
  }
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

template <int Rows>
inline __attribute__((always_inline)) void
step(const float *&a, const float *&b, __m512 (&sum)[Rows][2]) {
  __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + lanesOfVector);
#pragma clang loop unroll(full)
  for (int i = 0; i < Rows; ++i) {
    __m512 x = _mm512_set1_ps(a[i]);
    sum[i][0] = _mm512_fmadd_ps(x, b0, sum[i][0]);
    sum[i][1] = _mm512_fmadd_ps(x, b1, sum[i][1]);
  }
  a += gemmRows;
  b += gemmColumns;
}

template <int Rows>
void tileOf(int64_t depth, const float *a, const float *b, float *c,
            int64_t rowStride, int64_t columns, bool accumulate,
            const GemmFinish *steps, int64_t count, int64_t row,
            int64_t column) {
  __m512 sum[Rows][2];
#pragma clang loop unroll(full)
  for (int i = 0; i < Rows; ++i)
    sum[i][0] = sum[i][1] = _mm512_setzero_ps();
  // Rows of c and of the operands of the steps behind it are prefetched one at
  // a time: a burst would delay the loads of the sums.
  int64_t k = 0;
  for (int64_t s = -1; s < count; ++s) {
    const float *from = s < 0 ? c : steps[s].data;
    int64_t stride = s < 0 ? rowStride : steps[s].rowStride;
    if (!from || stride == 0)
      continue;
    if (s >= 0)
      from += row * stride + column;
    for (int64_t end = depth - k < Rows ? depth : k + Rows; k < end; ++k) {
      _mm_prefetch(reinterpret_cast<const char *>(from), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char *>(from + 31), _MM_HINT_T0);
      from += stride;
      step<Rows>(a, b, sum);
    }
  }
  for (; k < depth; ++k)
    step<Rows>(a, b, sum);
  __mmask16 low = firstLanes(columns),
            high = firstLanes(columns - lanesOfVector);
#pragma clang loop unroll(full)
  for (int i = 0; i < Rows; ++i) {
    float *at = c + i * rowStride;
    if (accumulate) {
      sum[i][0] = _mm512_add_ps(sum[i][0], _mm512_maskz_loadu_ps(low, at));
      sum[i][1] = _mm512_add_ps(
          sum[i][1], _mm512_maskz_loadu_ps(high, at + lanesOfVector));
    }
    _mm512_mask_storeu_ps(at, low, sum[i][0]);
    _mm512_mask_storeu_ps(at + lanesOfVector, high, sum[i][1]);
  }
  if (count != 0)
    finish(c, rowStride, Rows, columns, steps, count, row, column);
}

void tile(int64_t depth, const void *packedA, const void *packedB, float *c,
          int64_t rowStride, int64_t rows, int64_t columns, bool accumulate,
          const GemmFinish *steps, int64_t count, int64_t row, int64_t column) {
  auto *a = static_cast<const float *>(packedA);
  auto *b = static_cast<const float *>(packedB);
  switch (rows) {
#define KERF_TILE(n)                                                           \
  case n:                                                                      \
    return tileOf<n>(depth, a, b, c, rowStride, columns, accumulate, steps,    \
                     count, row, column);
    KERF_TILE(1)
    KERF_TILE(2)
    KERF_TILE(3)
    KERF_TILE(4)
    KERF_TILE(5)
    KERF_TILE(6)
    KERF_TILE(7)
    KERF_TILE(8)
    KERF_TILE(9)
    KERF_TILE(10)
    KERF_TILE(11)
    KERF_TILE(12)
    KERF_TILE(13)
    KERF_TILE(14)
#undef KERF_TILE
  }
}

// A cache of 1 MiB.
constexpr GemmKernels kernels = {gemmRows,
                                 gemmColumns,
                                 gemmDepth,
                                 1,
                                 int64_t(512) << 10,
                                 int64_t(384) << 10,
                                 int64_t(256) << 10,
                                 panelBytes,
                                 pack,
                                 tile,
                                 nullptr,
                                 nullptr};
} // namespace

const GemmKernels *kerf::rt::gemmKernelsAvx512() { return &kernels; }
