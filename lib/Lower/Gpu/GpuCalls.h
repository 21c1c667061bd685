//===- GpuCalls.h - library calls that are kernels on GPUs ------*- C++ -*-===//
//
// Sums of rows by index and the gradients of pools: the GPU's libraries do not
// compute these, or not in a fixed order. Each element of the result belongs to
// one thread, which adds its contributions in the order that the op guarantees.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_GPU_GPUCALLS_H
#define KERF_LOWER_GPU_GPUCALLS_H

#include "GpuEmitter.h"

#include "kerf/Exec/Exec.h"

namespace kerf::cuda {

/// Adds the gpu.func `name` for a library call, whose parameters are the call's
/// buffers in order.
mlir::FailureOr<GpuLaunch> emitCall(exec::LibraryCallInterface call,
                                    mlir::gpu::GPUModuleOp module,
                                    llvm::StringRef name);

/// The same for attention and its gradient (GpuAttention.cpp), which run where
/// the GPU's library does not take the call.
GpuLaunch emitAttention(exec::AttentionOp call, mlir::gpu::GPUModuleOp module,
                        llvm::StringRef name);
GpuLaunch emitAttention(exec::AttentionGradientOp call,
                        mlir::gpu::GPUModuleOp module, llvm::StringRef name);

/// The same for rows changed by index (GpuScatter.cpp).
GpuLaunch emitScatter(exec::ScatterAddOp call, mlir::gpu::GPUModuleOp module,
                      llvm::StringRef name);
GpuLaunch emitScatter(exec::ScatterOp call, mlir::gpu::GPUModuleOp module,
                      llvm::StringRef name);

/// The same for overlapping boxes (GpuSuppress.cpp).
GpuLaunch emitGreedySuppress(exec::GreedySuppressOp call,
                             mlir::gpu::GPUModuleOp module,
                             llvm::StringRef name);

/// The product, if a call has a kernel for its last post-op; else null (see
/// GpuEpilogue.cpp). The kernel's code, and which of the call's buffers are
/// that kernel's.
exec::MatmulOp productWithEpilogueKernel(exec::LibraryCallInterface call);
mlir::FailureOr<GpuLaunch> emitEpilogue(exec::MatmulOp product,
                                        mlir::gpu::GPUModuleOp module,
                                        llvm::StringRef name);
llvm::SmallVector<int64_t> epilogueBuffers(exec::MatmulOp product);

} // namespace kerf::cuda

#endif // KERF_LOWER_GPU_GPUCALLS_H
