//===- KernelCall.h - library calls that are generated kernels --*- C++ -*-===//
//
// A call that the GPU's libraries lack is a kernel of the package, whose
// arguments are the call's buffers.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_DEVICE_CUDA_KERNELCALL_H
#define KERF_RT_DEVICE_CUDA_KERNELCALL_H

#include "../Device.h"

#include <functional>

namespace kerf::rt {

class KernelCall : public LibraryCall {
public:
  /// `launch` gets the addresses of the arguments.
  using Launch = std::function<void(const CudaKernel &, void **arguments)>;
  KernelCall(const LibraryDesc &desc, Launch launch)
      : kernel(desc.cuda), launch(std::move(launch)) {}
  int64_t scratchBytes() const override { return 0; }
  void run(void *const *buffers, void *) override {
    if (kernel.grid[0] == 0 || kernel.grid[1] == 0 || kernel.grid[2] == 0)
      return;
    std::vector<void *> arguments;
    for (int64_t i = 0; i < kernel.buffers; ++i)
      arguments.push_back(const_cast<void **>(&buffers[i]));
    launch(kernel, arguments.data());
  }

private:
  CudaKernel kernel;
  Launch launch;
};

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CUDA_KERNELCALL_H
