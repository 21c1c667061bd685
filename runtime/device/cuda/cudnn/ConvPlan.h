//===- ConvPlan.h - windows of the manifest in cuDNN's terms ----*- C++ -*-===//
//
// cuDNN's tensors are (batch, channels, spatial..) with strides, at least two
// spatial dimensions; ours are channels last, weights OIHW. The weights are
// reordered like the images (O, spatial.., I), as cuDNN's fast engines require.
// Pure arithmetic, tested by evaluating it on the CPU.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_CUDNN_CONVPLAN_H
#define KERF_RUNTIME_DEVICE_CUDA_CUDNN_CONVPLAN_H

#include "../../../package/Manifest.h"

namespace kerf::rt {

struct DnnTensor {
  Shape dims, strides; ///< in elements
};

struct ConvPlan {
  DnnTensor image, result; ///< pool: channels equal
  /// As the manifest has them, and as the convolution wants them. The same
  /// where both orders agree.
  DnnTensor storedWeights, weights;
  Shape pre, post, strides, dilations, window;
  bool reorders = false; ///< the two differ

  const Operand *imageOperand = nullptr, *weightsOperand = nullptr,
                *resultOperand = nullptr;
  const Operand *bias = nullptr, *added = nullptr;
  DnnTensor addedTensor;
  bool relu = false;
};

/// Of a conv, its gradients or a pool. Throws KERF_BAD_PACKAGE where cuDNN has
/// no form for it.
ConvPlan planConv(const LibraryDesc &desc);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_CUDNN_CONVPLAN_H
