//===- CudnnCall.h - convolutions and pools by cuDNN ------------*- C++ -*-===//
#ifndef KERF_RT_DEVICE_CUDA_CUDNNCALL_H
#define KERF_RT_DEVICE_CUDA_CUDNNCALL_H

#include "AlgorithmCache.h"
#include "CudaDevice.h"
#include "Cudnn.h"

namespace kerf::rt {

/// What the calls of a device share.
struct DnnContext {
  CudaDeviceBase &device;
  const Cudnn &library = Cudnn::get();
  dnn::Handle handle = nullptr;
  std::unique_ptr<AlgorithmCache> cache;
  /// Plans and reordered weights, used by one call at a time; grows while
  /// loading.
  std::unique_ptr<DeviceMemory> workspace;

  explicit DnnContext(CudaDeviceBase &device);
  ~DnnContext();
  void *room(int64_t bytes);
};

std::unique_ptr<LibraryCall>
makeCudnnCall(DnnContext &context, const LibraryDesc &desc,
              const std::function<ParameterView(int64_t)> &parameter);

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CUDA_CUDNNCALL_H
