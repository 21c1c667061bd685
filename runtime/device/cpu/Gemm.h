//===- Gemm.h - f32 matmul of operands that change --------------*- C++ -*-===//
//
// Problem: weights that training writes cannot be packed once for all steps,
// and gradients are products of transposed tensors; libraries reach two thirds
// of the peak there.
//
// Idea: both operands are packed into panels, block of k by block of k, and
// panels of one side pass by a few of the other that stay in a thread's
// second-level cache. Packing reads any strides, so a transposed operand costs
// what a plain one does. A tile of the result lives in registers for one block.
//
// Invariant: an element of the result is summed in an order that depends on
// the shape alone: not on threads, addresses or the neighbours.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_DEVICE_CPU_GEMM_H
#define KERF_RT_DEVICE_CPU_GEMM_H

#include <cstdint>

namespace kerf::rt {

/// Rows and columns of a tile; panels of lhs and rhs are as wide.
constexpr int64_t gemmRows = 14, gemmColumns = 32;
/// Longest block of k.
constexpr int64_t gemmDepth = 256;

/// What follows the sum, in order. `data` is an operand over the result:
/// element (i, j) at data[i * rowStride + j * columnStride], columnStride 0
/// or 1.
struct GemmFinish {
  enum Kind { Linear, Relu, Add, Sub, Mul };
  Kind kind;
  float alpha, beta; ///< Linear: alpha x + beta
  const float *data;
  int64_t rowStride, columnStride;
};

/// The instructions of one CPU level.
struct GemmKernels {
  /// Packs neighbouring panels, each of `width` lanes and width * depth
  /// elements: dst[panel * width * depth + k * width + lane] =
  /// src[(panel * width + lane) * laneStride + k * depthStride]; 0 where the
  /// last panel has no lane. `width` is gemmRows or gemmColumns.
  void (*pack)(const float *src, int64_t laneStride, int64_t depthStride,
               int64_t lanes, int64_t width, int64_t depth, float *dst);
  /// c (+)= a b for packed panels of `depth`; c has `rows` rows, `columns`
  /// columns that are contiguous. Then applies `count` steps to it; it begins
  /// at (row, column) of the result.
  void (*tile)(int64_t depth, const float *a, const float *b, float *c,
               int64_t rowStride, int64_t rows, int64_t columns,
               bool accumulate, const GemmFinish *steps, int64_t count,
               int64_t row, int64_t column);
};

/// Null where this CPU has no instructions that we have code for.
const GemmKernels *gemmKernels();
/// Only to be called if the CPU has AVX-512 F and VL.
const GemmKernels *gemmKernelsAvx512();

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CPU_GEMM_H
