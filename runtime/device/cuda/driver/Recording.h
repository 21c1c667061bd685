//===- Recording.h - a driver that records and executes ---------*- C++ -*-===//
//
// A test may replace libcuda by a library of its own, which keeps what is
// enqueued, runs it on host memory in any order that streams and events allow,
// and reports conflicting accesses without an order. These hooks give it what
// CUDA calls alone do not tell: the host form of a kernel, a library call
// answered by the CPU, and the bytes that each touches. A real driver has none
// of them.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_DRIVER_RECORDING_H
#define KERF_RUNTIME_DEVICE_CUDA_DRIVER_RECORDING_H

#include "DriverApi.h"

namespace kerf::rt {

/// Bytes that work on a stream touches.
struct RecordedRange {
  const void *begin;
  int64_t bytes;
  int reads, writes;
};

/// Work on host memory. It may run several times (graphs); `destroy` is called
/// once at the end. Both may be called on any thread.
struct RecordedWork {
  void (*run)(void *user);
  void (*destroy)(void *user);
  void *user;
};

struct RecordingHooks {
  /// Puts work on a stream, as a library would.
  void (*enqueue)(cu::Stream stream, const char *what, RecordedWork work,
                  const RecordedRange *ranges, int numRanges) = nullptr;
  /// The host form of the kernel that this thread launches next. The first
  /// `numArguments` ranges begin at its arguments.
  void (*bind)(const char *what, RecordedWork work, const RecordedRange *ranges,
               int numRanges, int numArguments) = nullptr;
  /// A name for dumps.
  void (*nameStream)(cu::Stream stream, const char *name) = nullptr;
  /// The host accesses bytes that work on streams may access, too.
  void (*hostAccess)(const void *begin, int64_t bytes, int writes) = nullptr;
  /// The errors found so far, one line each; null or empty: none.
  const char *(*report)() = nullptr;
};

} // namespace kerf::rt

// X(member, symbol)
#define KERF_RECORDING_HOOKS(X)                                                \
  X(enqueue, kerf_recording_enqueue)                                           \
  X(bind, kerf_recording_bind)                                                 \
  X(nameStream, kerf_recording_name_stream)                                    \
  X(hostAccess, kerf_recording_host_access)                                    \
  X(report, kerf_recording_report)

#endif // KERF_RUNTIME_DEVICE_CUDA_DRIVER_RECORDING_H
