//===- PostOpLoops.cpp - post-ops as loops of our own ---------------------===//
//
// Computes post-ops as oneDNN does, except that NaN stays NaN. For the rare
// call with NaN or infinities among its operands: plain, not fast.
//
//===----------------------------------------------------------------------===//
#include "PostOpLoops.h"

#include "../Bf16.h"

#include <cmath>

using namespace kerf::rt;

bool kerf::rt::losesNaN(const SimplePostOp &op) {
  if (op.kind == SimplePostOp::Sum)
    return false;
  switch (op.algorithm) {
  case dnnl_eltwise_relu:
    return op.alpha == 0;
  case dnnl_eltwise_clip_v2:
  case dnnl_eltwise_exp:
  case dnnl_eltwise_logistic: // on CPUs before AVX2
  case dnnl_binary_max:
  case dnnl_binary_min:
    return true;
  default:
    return false;
  }
}

/// std::max and std::min give their first operand where one is NaN.
static double larger(double x, double y) {
  return std::isnan(y) ? y : std::max(x, y);
}
static double smaller(double x, double y) {
  return std::isnan(y) ? y : std::min(x, y);
}

static double apply(const SimplePostOp &op, double x, double y) {
  switch (op.algorithm) {
  case dnnl_eltwise_relu:
    return x < 0 ? (op.alpha == 0 ? 0 : op.alpha * x) : x;
  case dnnl_eltwise_tanh:
    return std::tanh(x);
  case dnnl_eltwise_logistic:
    return 1 / (1 + std::exp(-x));
  case dnnl_eltwise_gelu_erf:
    return 0.5 * x * (1 + std::erf(x * 0.70710678118654752));
  case dnnl_eltwise_gelu_tanh:
    return 0.5 * x *
           (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
  case dnnl_eltwise_swish:
    return x / (1 + std::exp(-op.alpha * x));
  case dnnl_eltwise_exp:
    return std::exp(x);
  case dnnl_eltwise_abs:
    return std::abs(x);
  case dnnl_eltwise_sqrt:
    return std::sqrt(x);
  case dnnl_eltwise_square:
    return x * x;
  case dnnl_eltwise_elu:
    return x > 0 ? x : op.alpha * std::expm1(x);
  case dnnl_eltwise_clip_v2:
    return smaller(larger(x, op.alpha), op.beta);
  case dnnl_eltwise_linear:
    return op.alpha * x + op.beta;
  case dnnl_eltwise_hardswish:
    return x * smaller(larger(x + 3, 0), 6) / 6;
  case dnnl_binary_add:
    return x + y;
  case dnnl_binary_sub:
    return x - y;
  case dnnl_binary_mul:
    return x * y;
  case dnnl_binary_div:
    return x / y;
  case dnnl_binary_max:
    return larger(x, y);
  case dnnl_binary_min:
    return smaller(x, y);
  default:
    throw Error(KERF_BAD_PACKAGE, "a post-op without a loop");
  }
}

template <typename T>
static void loop(const SimplePostOp &op, const Shape &dims,
                 const Shape &strides, T *data, const LoopOperand &operand) {
  int64_t count = numElements(dims);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = 0, from = 0;
    for (size_t d = dims.size(); d-- > 0;) {
      int64_t index = rest % dims[d];
      rest /= dims[d];
      at += index * strides[d];
      if (operand.data)
        from += index * operand.strides[d];
    }
    double y =
        operand.data
            ? static_cast<float>(static_cast<const T *>(operand.data)[from])
            : 0;
    data[at] = static_cast<float>(apply(op, static_cast<float>(data[at]), y));
  }
}

void kerf::rt::applyInPlace(const SimplePostOp &op, const Shape &dims,
                            const Shape &strides, void *data,
                            kerf_dtype_t dtype, const LoopOperand &operand) {
  switch (dtype) {
  case KERF_F32:
    return loop(op, dims, strides, static_cast<float *>(data), operand);
  case KERF_BF16:
    return loop(op, dims, strides, static_cast<Bf16 *>(data), operand);
  default:
    throw Error(KERF_BAD_PACKAGE, cat("a post-op of ", kerf_dtype_name(dtype)));
  }
}
