//===- Module.h - the GPU code of a package ---------------------*- C++ -*-===//
//
// A package carries cubins for some architectures and PTX for the rest. The
// best cubin that this GPU can run is loaded; if there is none, or the driver
// is too old for it, the driver compiles the PTX, and a note says so.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_DRIVER_MODULE_H
#define KERF_RUNTIME_DEVICE_CUDA_DRIVER_MODULE_H

#include "../../../package/Package.h"
#include "Driver.h"

namespace kerf::rt {

/// Index of the cubin for a GPU, or -1: code of the same major architecture
/// whose minor is not above the GPU's.
int64_t chooseCubin(const CudaTarget &target, const GpuInfo &gpu);

class CudaModule {
public:
  CudaModule(const Driver &driver, const Package &package, const GpuInfo &gpu);
  ~CudaModule();
  CudaModule(const CudaModule &) = delete;
  CudaModule &operator=(const CudaModule &) = delete;

  /// By entry of the manifest's kernels; null: it has no GPU form.
  cu::Function function(int64_t kernel) const { return functions[kernel]; }
  /// The same for the batch of a kernel (Batches.h).
  cu::Function batch(int64_t kernel) const { return batches[kernel]; }
  /// The same for library calls that are generated kernels.
  cu::Function call(int64_t index) const { return calls[index]; }
  const std::vector<std::string> &notes() const { return messages; }

private:
  bool load(const std::string &path, std::string &why);

  const Driver &driver;
  cu::Module module = nullptr;
  cu::Function find(const CudaKernel &kernel, const std::string &node);
  cu::Function findEntry(const std::string &entry, const std::string &node);
  std::vector<cu::Function> functions, batches, calls;
  std::vector<std::string> messages;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_DRIVER_MODULE_H
