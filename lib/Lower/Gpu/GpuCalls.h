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

/// Whether the call has a kernel for its last post-op, and its code (see
/// GpuEpilogue.cpp); which of the call's buffers are that kernel's.
bool hasEpilogueKernel(mlir::DictionaryAttr descriptor);
mlir::FailureOr<GpuLaunch> emitEpilogue(mlir::DictionaryAttr descriptor,
                                        mlir::gpu::GPUModuleOp module,
                                        llvm::StringRef name);
llvm::SmallVector<int64_t> epilogueBuffers(mlir::DictionaryAttr descriptor);

} // namespace kerf::cuda

#endif // KERF_LOWER_GPU_GPUCALLS_H
