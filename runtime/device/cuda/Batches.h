//===- Batches.h - updates that are launched together -----------*- C++ -*-===//
//
// Problem: a step that updates hundreds of parameters by a kernel each spends
// more time on launches than on small parameters.
//
// Idea: a launch whose kernel has a batch (docs/Cuda.md) waits until other work
// is put on the stream; then those of one entry become one launch with a table
// of addresses and extents. A table is written when it is first needed, into
// memory allocated at load, and reused by every later step, captured or not,
// since addresses never change.
//
// Invariant: a waiting launch touches no bytes that another one writes, so
// their order does not matter; later work on the stream runs after their
// launch. O(log n) per launch and buffer.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_DEVICE_CUDA_BATCHES_H
#define KERF_RT_DEVICE_CUDA_BATCHES_H

#include "../Device.h"

#include <map>

namespace kerf::rt {

class CudaDevice;

/// Bytes, as disjoint ranges.
class ByteRanges {
public:
  bool overlaps(uint64_t begin, uint64_t end) const;
  void add(uint64_t begin, uint64_t end);
  void clear() { ranges.clear(); }

private:
  std::map<uint64_t, uint64_t> ranges; ///< begin to end
};

/// A launch with all that its host form needs.
struct KernelLaunch {
  int32_t kernel = -1;
  kerf_kernel_t host = nullptr;
  std::vector<void *> buffers;
  int64_t count = 0, grain = 0;
};

/// The words of a batch's table, and the blocks that it takes.
std::vector<uint64_t> batchTable(const Manifest &manifest,
                                 const std::vector<KernelLaunch> &launches,
                                 int64_t &blocks);

class LaunchBatches {
public:
  /// None: the package has no batches, or KERF_CUDA_BATCH=0.
  static std::unique_ptr<LaunchBatches> make(CudaDevice &device,
                                             const Manifest &manifest);
  /// Queues the launch; false: it belongs to no batch.
  bool add(const KernelLaunch &launch);
  /// Launches the queue.
  void flush();
  /// Drops the queue: the step will not run.
  void abandon();

private:
  LaunchBatches(CudaDevice &device, const Manifest &manifest, int64_t bytes);
  void launch(const std::vector<KernelLaunch> &launches);
  /// The table's place in device memory; null: there is no room for one more.
  void *place(const std::vector<uint64_t> &table);

  CudaDevice &device;
  const Manifest &manifest;
  std::map<std::string, std::vector<KernelLaunch>> waiting; ///< by entry
  ByteRanges reads, writes;                                 ///< of those
  std::unique_ptr<DeviceMemory> memory, pinned;
  int64_t used = 0;
  std::map<std::vector<uint64_t>, int64_t> known; ///< offset of each table
};

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CUDA_BATCHES_H
