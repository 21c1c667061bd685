//===- GemmCall.h - matmuls by kernels of our own ---------------*- C++ -*-===//
#ifndef KERF_RUNTIME_DEVICE_CPU_GEMM_GEMMCALL_H
#define KERF_RUNTIME_DEVICE_CPU_GEMM_GEMMCALL_H

#include "../../Device.h"

namespace kerf::rt {

struct GemmKernels;

/// A matmul in f32 of two buffers, if our kernels support it and are faster;
/// else null. The choice depends on the shape, the strides and the CPU.
/// `kernels`: use these, whatever the shape.
std::unique_ptr<LibraryCall> makeGemmCall(const LibraryDesc &desc,
                                          Device &device, int32_t threads,
                                          const GemmKernels *kernels = nullptr);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CPU_GEMM_GEMMCALL_H
