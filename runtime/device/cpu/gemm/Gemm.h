//===- Gemm.h - f32 matmul of operands that change --------------*- C++ -*-===//
//
// Problem: weights that training writes cannot be packed once for all steps,
// and gradients are products of transposed tensors; libraries reach two thirds
// of the peak there.
//
// Idea: both operands are packed into panels, one block of k after the other,
// and all panels of one side are multiplied by a few panels of the other side
// that stay in a thread's second-level cache. Packing reads any strides, so a
// transposed operand costs no more. A tile of the result stays in registers for
// one block. The content of a panel depends on the instructions: the numbers
// themselves, or parts of them for units that multiply shorter numbers
// (GemmAmx.cpp).
//
// Invariant: an element of the result is summed in an order that depends on
// the shape alone: not on threads, addresses or the neighbours.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CPU_GEMM_GEMM_H
#define KERF_RUNTIME_DEVICE_CPU_GEMM_GEMM_H

#include <cstdint>

namespace kerf::rt {

/// A step behind the sum. `data` is an operand over the result: element (i, j)
/// at data[i * rowStride + j * columnStride], columnStride 0 or 1.
struct GemmFinish {
  enum Kind { Linear, Relu, Add, Sub, Mul };
  Kind kind;
  float alpha, beta; ///< Linear: alpha x + beta
  const float *data;
  int64_t rowStride, columnStride;
};

/// The instructions of one CPU level. `rhs` says which operand a panel is of:
/// its lanes are rows of lhs or columns of rhs.
struct GemmKernels {
  int64_t rows, columns; ///< of a tile: the lanes of a panel
  int64_t depth;         ///< longest block of k, a multiple of
  int64_t depthUnit;     ///< which a shorter block is rounded up to
  // Working sets. All of them, with the data that is read and written
  // meanwhile, must fit the second-level cache of such CPUs.
  int64_t slabBytes;  ///< packed panels that all threads read, unless one block
                      ///< of k takes more
  int64_t ownBytes;   ///< what a thread packs for itself
  int64_t groupBytes; ///< panels of rhs that are multiplied together where they
                      ///< are shared
  /// Of a panel. The first one lies at a multiple of 64 bytes.
  int64_t (*panelBytes)(bool rhs, int64_t depth);
  /// Packs neighbouring panels, one after the other; element (lane, k) is
  /// src[lane * laneStride + k * depthStride], 0 where there is no such lane.
  void (*pack)(const float *src, int64_t laneStride, int64_t depthStride,
               int64_t lanes, bool rhs, int64_t depth, void *dst);
  /// c (+)= a b for packed panels of `depth`; c has `rows` rows, `columns`
  /// columns that are contiguous. Then applies `count` steps to it; it begins
  /// at (row, column) of the result.
  void (*tile)(int64_t depth, const void *a, const void *b, float *c,
               int64_t rowStride, int64_t rows, int64_t columns,
               bool accumulate, const GemmFinish *steps, int64_t count,
               int64_t row, int64_t column);
  /// Around a thread's calls of tile(); null if nothing has to be done.
  void (*enter)();
  void (*leave)();
};

/// Avx512: 14 x 32 sums in vector registers. Amx: 32 x 32 sums in tile
/// registers, of products of bfloat16 parts.
enum class GemmLevel { Avx512, Amx };
/// Null if this CPU or system cannot run them. The first call requests the tile
/// registers from the system.
const GemmKernels *gemmKernels(GemmLevel level);

/// Only to be called if the CPU has AVX-512 F and VL.
const GemmKernels *gemmKernelsAvx512();
/// Only to be called if the CPU has AVX-512 F, VL, BW and BF16 and tiles of
/// bfloat16, and the process may use them.
const GemmKernels *gemmKernelsAmx();

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CPU_GEMM_GEMM_H
