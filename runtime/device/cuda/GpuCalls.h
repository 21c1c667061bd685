//===- GpuCalls.h - library calls of a GPU ----------------------*- C++ -*-===//
//
// Kerf's own table of calls: a descriptor of the manifest becomes a prepared
// call of cuBLASLt or cuDNN on the device's compute stream.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_DEVICE_CUDA_GPUCALLS_H
#define KERF_RT_DEVICE_CUDA_GPUCALLS_H

#include "CudaDevice.h"

namespace kerf::rt {

class GpuCalls {
public:
  virtual ~GpuCalls() = default;
  virtual std::unique_ptr<LibraryCall>
  prepare(const LibraryDesc &desc,
          const std::function<ParameterView(int64_t)> &parameter,
          std::unique_ptr<LibraryCall> epilogue) = 0;
  virtual std::vector<std::string> facts() const = 0;
};

/// Libraries are opened when the first call needs them. `precision` is the
/// manifest's: "tf32" allows it for f32.
std::unique_ptr<GpuCalls> makeGpuCalls(CudaDeviceBase &device,
                                       const std::string &precision);

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CUDA_GPUCALLS_H
