//===- PostOpLoops.h - post-ops as loops of our own -------------*- C++ -*-===//
#ifndef KERF_RUNTIME_DEVICE_CPU_DNNL_POSTOPLOOPS_H
#define KERF_RUNTIME_DEVICE_CPU_DNNL_POSTOPLOOPS_H

#include "DnnlPostOps.h"

namespace kerf::rt {

/// The second tensor of a post-op: strides of 0 where it repeats.
struct LoopOperand {
  const void *data = nullptr;
  Shape strides;
};

/// Whether oneDNN's code for a step turns NaN into a number: it passes the
/// constant as second operand of maxima and minima, and these instructions
/// return the second operand if one is NaN.
bool losesNaN(const SimplePostOp &op);

/// Applies `op` to a strided tensor of f32 or bf16 in place; NaN stays NaN.
/// Throws KERF_BAD_PACKAGE for another type.
void applyInPlace(const SimplePostOp &op, const Shape &dims,
                  const Shape &strides, void *data, kerf_dtype_t dtype,
                  const LoopOperand &operand);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CPU_DNNL_POSTOPLOOPS_H
