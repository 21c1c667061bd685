//===- GpuCalls.h - library calls that are kernels on GPUs ------*- C++ -*-===//
//
// Sums of rows by index and the gradients of pools: what the GPU's libraries
// do not do, or not in a fixed order. Each element of the result belongs to one
// thread, which adds its contributions in the order that the op promises.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_GPU_GPUCALLS_H
#define KERF_LOWER_GPU_GPUCALLS_H

#include "GpuEmitter.h"

namespace kerf::cuda {

/// Adds the gpu.func `name` for a library call's descriptor
/// (docs/Package.md), whose parameters are the call's buffers in order.
mlir::FailureOr<GpuLaunch> emitCall(mlir::DictionaryAttr descriptor,
                                    int64_t numBuffers,
                                    mlir::gpu::GPUModuleOp module,
                                    llvm::StringRef name);

/// The same for attention and its gradient (GpuAttention.cpp), which run where
/// the GPU's library does not take the call.
mlir::FailureOr<GpuLaunch> emitAttention(mlir::DictionaryAttr descriptor,
                                         int64_t numBuffers,
                                         mlir::gpu::GPUModuleOp module,
                                         llvm::StringRef name);

} // namespace kerf::cuda

#endif // KERF_LOWER_GPU_GPUCALLS_H
