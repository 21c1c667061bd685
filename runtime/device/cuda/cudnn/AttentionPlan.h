//===- AttentionPlan.h - attention as cuDNN's operation graph ---*- C++ -*-===//
//
// cuDNN computes attention in one kernel if it recognises the graph: product,
// factor, mask, softmax from its parts, product, with all intermediate tensors
// virtual, that is never stored. The plan is that graph as data: its tensors,
// and its operations in order. CudnnAttention.cpp makes descriptors of it,
// unittests/Cuda evaluates it on the CPU.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_CUDNN_ATTENTIONPLAN_H
#define KERF_RUNTIME_DEVICE_CUDA_CUDNN_ATTENTIONPLAN_H

#include "../../../package/Manifest.h"
#include "ConvPlan.h"

namespace kerf::rt {

struct AttentionTensor {
  enum Kind { Virtual, Stored, Workspace, Scalar } kind = Virtual;
  DnnTensor layout;
  kerf_dtype_t dtype = KERF_F32;    ///< KERF_BOOL, KERF_I32: masks
  const Operand *operand = nullptr; ///< Stored
  int64_t offset = 0;               ///< Workspace, in bytes
  float value = 0;                  ///< Scalar
};

struct AttentionNode {
  enum Op {
    Matmul, ///< x b
    Add,    ///< pointwise from here, with broadcasting
    Mul,
    Sub,
    Div,
    Exp,
    Log,
    Identity,
    Index,   ///< position along `axis`
    NotLess, ///< x >= b
    Select,  ///< where t: x, else b
    Max,     ///< reductions to the shape of y from here
    Sum,
    Reshape, ///< the same elements, strides as y has them
  } op;
  int x = -1, b = -1, t = -1, y = -1; ///< numbers of tensors
  int axis = -1;
};

struct AttentionPlan {
  std::vector<AttentionTensor> tensors;
  std::vector<AttentionNode> nodes; ///< in an order in which they can run
  /// Of tensors of kind Workspace.
  int64_t workspaceBytes = 0;
  /// Sums of the gradient's queries: versions before 9.6 want zeros there.
  int64_t sumsOffset = 0, sumsBytes = 0;
};

/// Of attention or its gradient. Points into `desc`.
AttentionPlan planAttention(const LibraryDesc &desc);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_CUDNN_ATTENTIONPLAN_H
