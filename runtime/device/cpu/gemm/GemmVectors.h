//===- GemmVectors.h - shared by kernels of matmuls -------------*- C++ -*-===//
//
// Included by files that are compiled for AVX-512, and by no other: all of it
// has internal linkage, so that none of its code ends up in other files.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CPU_GEMM_GEMMVECTORS_H
#define KERF_RUNTIME_DEVICE_CPU_GEMM_GEMMVECTORS_H

#include "Gemm.h"

#include <immintrin.h>

namespace kerf::rt {
namespace {

constexpr int64_t lanesOfVector = 16;

inline __mmask16 firstLanes(int64_t count) {
  return count >= lanesOfVector ? static_cast<__mmask16>(0xffff)
         : count <= 0           ? static_cast<__mmask16>(0)
                                : static_cast<__mmask16>((1u << count) - 1);
}

/// Transposes 16 x 16 numbers of 32 bits.
inline __attribute__((always_inline)) void transpose16(__m512 *r) {
  __m512 t[16];
#pragma clang loop unroll(full)
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

/// Applies the steps behind the sum to `rows` x `columns` of c, which begin at
/// (row, column) of the result.
[[maybe_unused]] void finish(float *c, int64_t rowStride, int64_t rows,
                             int64_t columns, const GemmFinish *steps,
                             int64_t count, int64_t row, int64_t column) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; j += lanesOfVector) {
      __mmask16 mask = firstLanes(columns - j);
      float *at = c + i * rowStride + j;
      __m512 x = _mm512_maskz_loadu_ps(mask, at);
      for (int64_t s = 0; s < count; ++s) {
        const GemmFinish &step = steps[s];
        __m512 y = _mm512_setzero_ps();
        if (step.data) {
          const float *from = step.data + (row + i) * step.rowStride;
          y = step.columnStride ? _mm512_maskz_loadu_ps(mask, from + column + j)
                                : _mm512_set1_ps(*from);
        }
        switch (step.kind) {
        case GemmFinish::Linear:
          x = _mm512_fmadd_ps(x, _mm512_set1_ps(step.alpha),
                              _mm512_set1_ps(step.beta));
          break;
        case GemmFinish::Relu:
          // As max(x, 0), but NaN stays.
          x = _mm512_max_ps(_mm512_setzero_ps(), x);
          break;
        case GemmFinish::Add:
          x = _mm512_add_ps(x, y);
          break;
        case GemmFinish::Sub:
          x = _mm512_sub_ps(x, y);
          break;
        case GemmFinish::Mul:
          x = _mm512_mul_ps(x, y);
          break;
        }
      }
      _mm512_mask_storeu_ps(at, mask, x);
    }
}

} // namespace
} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CPU_GEMM_GEMMVECTORS_H
