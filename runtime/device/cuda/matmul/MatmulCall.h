//===- MatmulCall.h - a matmul by cuBLASLt ----------------------*- C++ -*-===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_MATMUL_MATMULCALL_H
#define KERF_RUNTIME_DEVICE_CUDA_MATMUL_MATMULCALL_H

#include "../CudaDevice.h"
#include "../driver/Driver.h"
#include "AlgorithmCache.h"
#include "CublasLt.h"

namespace kerf::rt {

/// A choice about a matmul: its key and its value.
class TunedMatmul {
public:
  virtual ~TunedMatmul() = default;
  virtual const std::string &choiceKey() const = 0;
  virtual std::string choice() const = 0;
  /// Uses the algorithm that `choice` encodes; false if it encodes none or the
  /// library refuses it.
  virtual bool take(const std::string &choice) = 0;
};

class MatmulCall;

/// Shared by the matmuls of a device.
struct LtContext : MeasuredChoices {
  CudaDeviceBase &device;
  const CublasLt &library = CublasLt::get();
  lt::Handle handle = nullptr;
  std::unique_ptr<DeviceMemory> workspace; ///< used by one call at a time
  std::unique_ptr<AlgorithmCache> cache;
  bool tf32 = false;
  bool epilogues = true; ///< KERF_CUDA_EPILOGUES
  int64_t measured = 0, known = 0;
  int64_t separate = 0; ///< products whose epilogue is a kernel of its own
  /// Kernels that products could do as well, and those that they do.
  int64_t offered = 0, taken = 0;
  std::map<int64_t, MatmulCall *> calls; ///< by number, while they live

  std::vector<TunedMatmul *> tuned;

  LtContext(CudaDeviceBase &device, bool tf32);
  ~LtContext() override;
  std::map<std::string, std::string> choices() const override;
  void adopt(const std::map<std::string, std::string> &common) override;

private:
  std::string prefix() const;
};

/// `epilogue`: the package's kernel for the last post-op, which runs after the
/// product where the library does not do both at once; may be null.
std::unique_ptr<LibraryCall>
makeMatmulCall(LtContext &context, const LibraryDesc &desc,
               const std::function<ParameterView(int64_t)> &parameter,
               std::unique_ptr<LibraryCall> epilogue = nullptr);

/// Times a piece of work on the compute stream: the least of a few runs, in
/// milliseconds. Negative: it failed.
double measureMilliseconds(CudaDeviceBase &device,
                           const std::function<bool()> &enqueue);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_MATMUL_MATMULCALL_H
