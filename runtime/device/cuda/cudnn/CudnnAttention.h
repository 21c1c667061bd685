//===- CudnnAttention.h - attention by cuDNN --------------------*- C++ -*-===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNNATTENTION_H
#define KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNNATTENTION_H

#include "AttentionPlan.h"
#include "CudnnCall.h"
#include "CudnnDescriptor.h"

namespace kerf::rt {

/// The descriptors of a plan's tensors and operations, and their graph, which
/// is the last. `handle` may be null: a graph for a device that is described
/// (unittests/Cuda).
std::vector<DnnDescriptor> describeAttention(const Cudnn &library,
                                             const AttentionPlan &plan,
                                             dnn::Handle handle);

/// Throws where this version or GPU has no engine for the call.
std::unique_ptr<LibraryCall> makeCudnnAttention(DnnContext &context,
                                                const LibraryDesc &desc);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNNATTENTION_H
