//===- Driver.h - CUDA's driver, opened at run time -------------*- C++ -*-===//
//
// One table of function pointers, filled once per process from libcuda.so.1 or
// from the file that KERF_CUDA_DRIVER names. Nothing links against CUDA: the
// runtime builds, starts and answers without a GPU. The file may be a recording
// driver of a test: then the hooks of Recording.h are there, too.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_DRIVER_DRIVER_H
#define KERF_RUNTIME_DEVICE_CUDA_DRIVER_DRIVER_H

#include "../../../base/Error.h"
#include "DriverApi.h"
#include "Recording.h"

#include <climits>
#include <string>
#include <vector>

namespace kerf::rt {

struct GpuInfo {
  std::string name;
  int major = 0, minor = 0, multiprocessors = 0;
  int maxPitch = INT_MAX;    ///< of strided copies, in bytes
  double bytesPerSecond = 0; ///< of memory; 0: not known
  /// "NVIDIA H200 (sm_90)"
  std::string text() const;
};

namespace cu {
#define KERF_CUDA_TYPE(member, symbol, arguments)                              \
  using member##Fn = Result(*) arguments;
KERF_CUDA_DRIVER_FUNCTIONS(KERF_CUDA_TYPE)
#undef KERF_CUDA_TYPE
} // namespace cu

struct Driver {
#define KERF_CUDA_MEMBER(member, symbol, arguments)                            \
  cu::member##Fn member = nullptr;
  KERF_CUDA_DRIVER_FUNCTIONS(KERF_CUDA_MEMBER)
#undef KERF_CUDA_MEMBER
  RecordingHooks recording; ///< all null with a real driver
  std::string path;
  int version = 0; ///< 13000: CUDA 13.0
  std::vector<GpuInfo> gpus;

  bool isRecording() const { return recording.enqueue != nullptr; }

  /// Opened on first use. Throws KERF_UNSUPPORTED_HOST when there is no driver
  /// or no GPU, saying which.
  static const Driver &get();
  /// Throws KERF_PROGRAM_FAILURE with the driver's message unless `result` is
  /// Success.
  void check(cu::Result result, const std::string &what) const;
  std::string describe(cu::Result result) const;
};

/// Parses "0,2" and "0-3" (also with "cuda:" in front); throws
/// KERF_INVALID_ARGUMENT.
std::vector<int> parseGpuList(const std::string &text);

/// Which GPU the `local`-th rank of this machine uses.
struct GpuChoice {
  int ordinal = 0;
  bool shared = false; ///< other ranks use it, too: for testing only
};
/// KERF_CUDA_DEVICES lists GPUs by local rank; without it they are counted
/// from 0. With KERF_SHARE_GPU=1 ranks go round the GPUs that there are. Throws
/// KERF_UNSUPPORTED_HOST when the GPU is not there.
GpuChoice chooseGpu(const Driver &driver, int64_t rank, int64_t local,
                    int64_t localRanks);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_DRIVER_DRIVER_H
