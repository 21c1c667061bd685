//===- CudnnCall.h - convolutions and pools by cuDNN ------------*- C++ -*-===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNNCALL_H
#define KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNNCALL_H

#include "../CudaDevice.h"
#include "../matmul/AlgorithmCache.h"
#include "CudnnPlans.h"

#include <map>

namespace kerf::rt {

/// Shared by the calls of a device.
struct DnnContext {
  CudaDeviceBase &device;
  bool tf32 = false; ///< f32 may be rounded to it
  const Cudnn &library = Cudnn::get();
  dnn::Handle handle = nullptr;
  std::unique_ptr<AlgorithmCache> cache;
  /// Memory for workspaces and for tensors between the steps of a call, used by
  /// one call at a time; grows while loading.
  std::unique_ptr<DeviceMemory> workspace;

  DnnContext(CudaDeviceBase &device, bool tf32);
  ~DnnContext();
  DnnTarget target() const { return {library, handle, nullptr}; }
  /// For work that is put on the stream now: what waits to be launched there
  /// (Batches.h) goes first.
  dnn::Handle ready() const;
  void *room(int64_t bytes);
  /// A plan that converts tensor 1 to tensor 2; null if cuDNN has no engine.
  const DnnPlan *cast(int64_t elements, kerf_dtype_t from, kerf_dtype_t to,
                      int64_t alignment);

  /// A plan and the objects that must outlive it.
  struct ReadyPlan {
    std::vector<DnnDescriptor> parts;
    DnnPlan plan;
  };
  /// Plans by a key of the computation: equal calls share one. Null: cuDNN has
  /// no engine for it.
  std::map<std::string, std::unique_ptr<ReadyPlan>> plans;
};

std::unique_ptr<LibraryCall>
makeCudnnCall(DnnContext &context, const LibraryDesc &desc,
              const std::function<ParameterView(int64_t)> &parameter);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_CUDNN_CUDNNCALL_H
