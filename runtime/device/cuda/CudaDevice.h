//===- CudaDevice.h - a rank on a GPU ---------------------------*- C++ -*-===//
//
// The public face of the CUDA device; see CudaDevice.cpp. Communication on
// streams (comm/nccl) needs its streams, too.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_DEVICE_CUDA_CUDADEVICE_H
#define KERF_RT_DEVICE_CUDA_CUDADEVICE_H

#include "../../package/Package.h"
#include "../Device.h"
#include "driver/DriverApi.h"

#include <map>

namespace kerf::rt {

struct Driver;

/// Results of measurements, by what was measured. Ranks that compute the same
/// must use the same algorithm, or their bits differ.
class MeasuredChoices {
public:
  virtual ~MeasuredChoices() = default;
  virtual std::map<std::string, std::string> choices() const = 0;
  virtual void adopt(const std::map<std::string, std::string> &common) = 0;
};

/// The CUDA-specific interface of a device, for communication.
class CudaStreams {
public:
  virtual ~CudaStreams() = default;
  virtual const Driver &driver() const = 0;
  virtual cu::Stream computeStream() const = 0;
  /// Makes the GPU that of the calling thread.
  virtual void makeCurrent() const = 0;
  /// A stream and events that live as long as the device.
  virtual cu::Stream newStream(const std::string &name) = 0;
  virtual cu::Event newEvent() = 0;
  /// `to` waits for the work that is on `from` now, through `event`.
  virtual void order(cu::Stream from, cu::Event event, cu::Stream to) const = 0;
  /// A strided copy on a stream, and zeros.
  virtual void copyBox(const BoxCopy &box, const void *src, void *dst,
                       cu::Stream stream) const = 0;
  virtual void zeroOn(void *data, int64_t bytes, cu::Stream stream) const = 0;
  virtual int64_t gpuOrdinal() const = 0;
  /// "NVIDIA H200 (sm_90)"
  virtual std::string gpuName() const = 0;
  /// Peak bandwidth of its memory; 0: unknown.
  virtual double memoryBytesPerSecond() const = 0;
  /// The one allocation of `reserve`.
  virtual std::pair<void *, int64_t> reserved() const = 0;
  /// Whether NCCL has allocated it, so that it can become a symmetric window.
  virtual bool reservedByNccl() const = 0;
  /// Of its libraries, while they live.
  virtual std::vector<MeasuredChoices *> &choosers() = 0;
  /// Releases the captured step and an open capture: NCCL ends a communicator
  /// only when no graph holds its calls. The step may be running.
  virtual void dropGraph() = 0;
  /// `all` is called on every rank at the same two places of the second step,
  /// with whether this rank can capture the step, and then whether it can keep
  /// the captured graph. It returns, when all ranks have called it, whether all
  /// can. No rank launches its graph before all others have loaded theirs.
  virtual void agreeOnGraphs(std::function<bool(bool mine)> all) = 0;
};

class CudaDeviceBase : public StepDevice, public CudaStreams {
public:
  /// Whether a library call does the work of a kernel of the manifest, which is
  /// then not launched.
  virtual void replaceKernel(int64_t index, bool replaced) = 0;
};

/// The GPU of `rank`; call it on the rank's thread. `threads` and `packs` are
/// for a recording driver, which answers library calls with the CPU's. Throws
/// KERF_UNSUPPORTED_HOST when there is no such GPU or no code for it.
std::unique_ptr<CudaDeviceBase>
makeCudaDevice(const Package &package, int64_t rank, int32_t threads,
               std::shared_ptr<PackCache> packs);

/// Which of the ranks of this machine `rank` is, and how many there are: from
/// torchrun's, mpirun's and Slurm's variables when the process is one rank,
/// else ranks are threads: all are here.
std::pair<int64_t, int64_t> localRank(int64_t rank, int64_t ranks);

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CUDA_CUDADEVICE_H
