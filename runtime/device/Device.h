//===- Device.h - where a rank computes -------------------------*- C++ -*-===//
//
// One rank's device: memory, launches, library calls. The CPU is the one
// implementation so far; a GPU adds streams and events behind the same calls.
// All of a Device is used from its rank's thread.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_DEVICE_DEVICE_H
#define KERF_RT_DEVICE_DEVICE_H

#include "../src/Manifest.h"
#include "kerf/rt/program.h"

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
  virtual void copy(const void *src, void *dst, int64_t bytes) = 0;
  virtual void zero(void *data, int64_t bytes) = 0;
  /// `parameter(i)` gives this rank's part of parameter i. Throws
  /// KERF_BAD_PACKAGE, KERF_UNSUPPORTED_HOST.
  virtual std::unique_ptr<LibraryCall>
  prepare(const LibraryDesc &desc, int64_t index,
          const std::function<ParameterView(int64_t)> &parameter) = 0;
};

std::shared_ptr<PackCache> makeCpuPackCache();
/// The CPU with `threads` threads for this rank; call it on the rank's thread.
std::unique_ptr<Device> makeCpuDevice(int64_t rank, int32_t threads,
                                      std::shared_ptr<PackCache> cache);

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_DEVICE_H
