//===- MatmulPlan.h - a row-major matmul as column-major ones ---*- C++ -*-===//
//
// cuBLASLt multiplies column-major matrices; the manifest describes views by
// strides. A row-major dst[m, n] is the column-major transposed [n, m], so the
// product becomes dst^T = rhs^T lhs^T: which operand is A, what is transposed,
// leading dimensions and batch strides are pure arithmetic, done here without
// any library, so that a test can evaluate a plan on the CPU.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_MATMUL_MATMULPLAN_H
#define KERF_RUNTIME_DEVICE_CUDA_MATMUL_MATMULPLAN_H

#include "../../../package/Manifest.h"

namespace kerf::rt {

/// A column-major matrix in memory, in elements.
struct LtMatrix {
  int64_t rows = 0, cols = 0, ld = 1;
  bool transposed = false; ///< op(X) = X^T
  int64_t batchStride = 0;
};

struct MatmulPlan {
  enum Activation { None, Relu, Gelu, GeluGradient };

  /// op(A) is m x k, op(B) is k x n, C and D are m x n.
  int64_t m = 0, n = 0, k = 0;
  bool lhsIsA = false;
  LtMatrix a, b, c, d;
  int64_t batch = 1;
  /// Further batch dimensions: one call per combination; offsets in elements.
  struct Loop {
    int64_t count, a, b, c, d;
  };
  std::vector<Loop> loops;

  double alpha = 1;               ///< of the product
  bool bias = false;              ///< along the rows of D
  const Operand *added = nullptr; ///< C with beta = 1, before the activation
  bool addsDst = false;           ///< C is D
  /// The tensor that a gradient of an activation reads; its layout is in `c`,
  /// and the product then has no C.
  const Operand *aux = nullptr;
  Activation activation = None;

  bool usesC() const { return added || addsDst; }
};

/// Throws KERF_BAD_PACKAGE where cuBLASLt has no form for it: see docs/Cuda.md.
/// `desc` must outlive the plan.
MatmulPlan planMatmul(const LibraryDesc &desc);

/// Elements that an operand of the plan reaches beyond its first one.
int64_t extentOf(const MatmulPlan &plan, const LtMatrix &matrix,
                 int64_t MatmulPlan::Loop::*stride);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_MATMUL_MATMULPLAN_H
