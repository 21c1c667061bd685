//===- Device.h - where a rank computes -------------------------*- C++ -*-===//
//
// One rank's device: memory, launches, library calls. On the CPU a call returns
// when its work is done; a GPU enqueues it, and StepDevice adds what only GPUs
// have (steps as graphs, copies between host and device). A Device is used from
// its rank's thread; upload and download from any thread while no step runs.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_DEVICE_DEVICE_H
#define KERF_RT_DEVICE_DEVICE_H

#include "../base/Boxes.h"
#include "../base/Trace.h"
#include "../package/Manifest.h"
#include "kerf/rt/program.h"

#include <cstring>
#include <functional>
#include <memory>

namespace kerf::rt {

/// Bytes that a device owns; freed with the object.
class DeviceMemory {
public:
  virtual ~DeviceMemory() = default;
  void *data = nullptr;
  int64_t bytes = 0;
};

/// A rank's part of a parameter, in its local shape, dense. `key` is equal for
/// equal parts (of one session), so that packed forms can be shared; `owner`
/// keeps copied data alive (null when it lies in the mapped file).
struct ParameterView {
  const void *data = nullptr;
  int64_t elements = 0;
  std::string key;
  std::shared_ptr<void> owner;
  bool isMapped = false; ///< lies in the package's file: may be forgotten
};

/// A prepared library call. run() allocates nothing.
class LibraryCall {
public:
  virtual ~LibraryCall() = default;
  /// Throws KERF_PROGRAM_FAILURE if the library refuses.
  virtual void run(void *const *buffers, void *scratch) = 0;
  virtual int64_t scratchBytes() const = 0;
};

/// Packed weights, shared by the ranks of a session. Thread-safe.
class PackCache {
public:
  virtual ~PackCache() = default;
};

class Device {
public:
  virtual ~Device() = default;
  /// Aligned to KERF_BUFFER_ALIGNMENT, zeroed. Throws KERF_OUT_OF_MEMORY naming
  /// `what`, the bytes and the rank.
  virtual std::unique_ptr<DeviceMemory> allocate(int64_t bytes,
                                                 const char *what) = 0;
  virtual void launch(kerf_kernel_t kernel, void *const *buffers,
                      const int64_t *scalars, int64_t count, int64_t grain) = 0;
  /// The same for kernel `index` of the manifest, -1 if it is not one.
  virtual void launchKernel(int32_t index, kerf_kernel_t kernel,
                            void *const *buffers, int32_t numBuffers,
                            const int64_t *scalars, int64_t count,
                            int64_t grain) {
    (void)index, (void)numBuffers;
    launch(kernel, buffers, scalars, count, grain);
  }
  virtual void copy(const void *src, void *dst, int64_t bytes) = 0;
  virtual void zero(void *data, int64_t bytes) = 0;
  /// Writes 8 bytes. `value` is a shard index of the manifest.
  virtual void storeNumber(int64_t value, void *dst) {
    std::memcpy(dst, &value, sizeof(value));
  }
  /// The device's memory may be written by something else from now on: a
  /// collective, or the caller's inputs.
  virtual void memoryChanges() {}
  /// `parameter(i)` gives this rank's part of parameter i. Throws
  /// KERF_BAD_PACKAGE, KERF_UNSUPPORTED_HOST.
  virtual std::unique_ptr<LibraryCall>
  prepare(const LibraryDesc &desc, int64_t index,
          const std::function<ParameterView(int64_t)> &parameter) = 0;

  /// False: the memory of `allocate` cannot be touched by the host.
  virtual bool onHost() const { return true; }
  /// Memory for use before the first step only; not part of the arena.
  virtual std::unique_ptr<DeviceMemory> allocateTemporary(int64_t bytes,
                                                          const char *what) {
    return allocate(bytes, what);
  }
  /// Copies between host and device; done on return.
  virtual void upload(const void *src, void *dst, int64_t bytes) {
    std::memcpy(dst, src, static_cast<size_t>(bytes));
  }
  virtual void download(const void *src, void *dst, int64_t bytes) {
    std::memcpy(dst, src, static_cast<size_t>(bytes));
  }
  virtual void uploadBox(const BoxCopy &box, const void *src, void *dst) {
    box.run(src, dst);
  }
  /// Whether other ranks use the same device, which is for testing only.
  virtual bool isShared() const { return false; }
  /// Warnings and findings for the user, one line each.
  virtual std::vector<std::string> notes() const { return {}; }
  virtual std::vector<std::string> facts() const { return {}; }
};

/// A device that executes a whole step at once. The host enqueues, then waits
/// for the end; from the second step on the device may replay what was
/// enqueued.
class StepDevice : public Device {
public:
  bool onHost() const override { return false; }
  /// One allocation for everything that `allocate` will return. Throws
  /// KERF_OUT_OF_MEMORY with the bytes that were asked for, free and planned.
  virtual void reserve(int64_t bytes, const std::string &detail) = 0;
  /// Host memory from and to which copies can be enqueued.
  virtual std::unique_ptr<DeviceMemory> allocatePinned(int64_t bytes) = 0;
  virtual void enqueueUpload(const void *pinned, void *dst, int64_t bytes) = 0;
  virtual void enqueueDownload(const void *src, void *pinned,
                               int64_t bytes) = 0;
  /// The host is about to read or write memory of allocatePinned.
  virtual void hostAccess(const void *pinned, int64_t bytes, bool writes) = 0;

  /// True: enqueue the step now; false: the last step is replayed. Steps that
  /// do not count are never replayed.
  virtual bool beginStep(bool counted = true) = 0;
  /// Call after everything was enqueued and every other stream has been joined.
  /// False: the step cannot be kept for replay and does not run; begin again.
  virtual bool endStep() = 0;
  /// Marks on the compute stream while a step is enqueued: behind its first
  /// inputs, and in front of its last outputs.
  enum Mark { WorkBegins, WorkEnds };
  virtual void mark(Mark mark) = 0;
  /// Seconds between the marks, on the device, once the step has ended.
  virtual double workSeconds() = 0;
  /// Device memory besides that of `reserve`: workspaces of libraries, tables.
  virtual int64_t ownBytes() const = 0;
  /// Before the first step: record the device's work, for `spans`.
  virtual void enableTrace() {}
  /// The device's work in the last step; empty without a trace.
  virtual std::vector<DeviceSpan> spans() const { return {}; }
  /// Whether the step has ended. Throws failures of the device.
  virtual bool stepEnded() = 0;
  /// Nothing will be enqueued any more; memory may be freed after this.
  virtual void stop() = 0;
  /// After the end of a step: throws the failure that a kernel recorded.
  virtual void checkKernels() = 0;
};

/// The error that a kernel's KERF_FAIL_* means. `size`: of the dimension that
/// an index is of, negative where it is not known.
Error programFailure(int32_t code, int64_t detail, int64_t rank,
                     const std::string &node, int64_t size = -1);

std::shared_ptr<PackCache> makeCpuPackCache();
/// Binds the `threads` threads of the caller's team to one core each, those
/// from the `first` that the process may use; call it on the rank's thread,
/// before its device is made. For ranks that together use every core: then no
/// other place is better, and on a busy host two threads of a team would
/// otherwise be put on one core and wait for each other's time slices. Does
/// nothing where the user says where OpenMP's threads go (OMP_PROC_BIND,
/// OMP_PLACES, GOMP_CPU_AFFINITY).
void bindCpuTeam(int64_t first, int32_t threads);
/// The CPU with `threads` threads for this rank; call it on the rank's thread.
std::unique_ptr<Device> makeCpuDevice(int64_t rank, int32_t threads,
                                      std::shared_ptr<PackCache> cache);

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_DEVICE_H
