//===- GpuCalls.cpp - library calls of a GPU ------------------------------===//
#include "GpuCalls.h"

#include "cudnn/CudnnAttention.h"
#include "cudnn/CudnnCall.h"
#include "matmul/MatmulCall.h"

using namespace kerf::rt;

namespace {
class Calls : public GpuCalls {
public:
  Calls(CudaDeviceBase &device, const std::string &precision)
      : device(device), tf32(precision == "tf32") {}

  std::unique_ptr<LibraryCall>
  prepare(const LibraryDesc &desc,
          const std::function<ParameterView(int64_t)> &parameter,
          std::unique_ptr<LibraryCall> epilogue) override {
    if (desc.kind == LibraryDesc::Matmul) {
      if (!matmuls)
        matmuls = std::make_unique<LtContext>(device, tf32);
      return makeMatmulCall(*matmuls, desc, parameter, std::move(epilogue));
    }
    if (!windows)
      windows = std::make_unique<DnnContext>(device, tf32);
    if (desc.isAttention())
      return makeCudnnAttention(*windows, desc);
    return makeCudnnCall(*windows, desc, parameter);
  }

  std::vector<std::string> facts() const override {
    std::vector<std::string> list;
    if (matmuls) {
      list.push_back("cuBLASLt is " + matmuls->library.path);
      if (matmuls->measured)
        list.push_back(cat(matmuls->measured,
                           " algorithms of matmuls were measured, kept in ",
                           matmuls->cache->path()));
    }
    if (matmuls && matmuls->separate)
      list.push_back(cat(matmuls->separate,
                         " gradients of activations are kernels of their own: "
                         "cuBLASLt does not take them after the product"));
    if (matmuls && matmuls->offered)
      list.push_back(
          cat(matmuls->taken, " of ", matmuls->offered,
              " kernels are done by products beside them",
              matmuls->taken < matmuls->offered
                  ? ": cuBLASLt has no such form of the others, or a slow one"
                  : ""));
    if (windows)
      list.push_back("cuDNN is " + windows->library.path);
    return list;
  }

private:
  CudaDeviceBase &device;
  bool tf32;
  std::unique_ptr<LtContext> matmuls;
  std::unique_ptr<DnnContext> windows;
};
} // namespace

std::unique_ptr<GpuCalls> kerf::rt::makeGpuCalls(CudaDeviceBase &device,
                                                 const std::string &precision) {
  return std::make_unique<Calls>(device, precision);
}
