//===- Answers.h - how a recording driver's work is done --------*- C++ -*-===//
//
// With a recording driver (Recording.h), device memory is host memory: kernels
// run in the form compiled for the CPU, and library calls are those of the CPU
// device.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_RECORDING_ANSWERS_H
#define KERF_RUNTIME_DEVICE_CUDA_RECORDING_ANSWERS_H

#include "../../Device.h"
#include "../Batches.h"
#include "../driver/Driver.h"

namespace kerf::rt {

/// What a kernel writes where it fails, in device memory; see docs/Cuda.md.
struct FailureRecord {
  uint32_t state = 0; ///< 1: taken
  uint32_t code = 0, kernel = 0, padding = 0;
  int64_t detail = 0;
};

/// Binds the host form of the kernel that is launched next. `record` is the
/// rank's failure record, which is host memory here.
void bindHostKernel(const Driver &driver, const KernelEntry &entry,
                    int32_t index, kerf_kernel_t kernel, void *const *buffers,
                    int32_t numBuffers, const int64_t *scalars, int64_t count,
                    FailureRecord *record);

/// The same for a batch: the host forms of all its kernels, with the buffers
/// that the table in device memory names when the batch runs.
void bindHostBatch(const Driver &driver, const Manifest &manifest,
                   const std::vector<KernelLaunch> &launches, const void *table,
                   int64_t words);

/// The same for the kernel that multiplies a product by a slope.
void bindHostGradient(const Driver &driver, const LibraryDesc &desc,
                      void *const *buffers);

/// The call answered by `cpu`, put on `stream`.
std::unique_ptr<LibraryCall>
makeAnsweredCall(const Driver &driver, cu::Stream stream, Device &cpu,
                 const LibraryDesc &desc, int64_t index,
                 const std::function<ParameterView(int64_t)> &parameter);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_RECORDING_ANSWERS_H
