//===- Activity.h - records of GPU work, by CUPTI ---------------*- C++ -*-===//
//
// The kernels, copies and fills of a step with their times, in graphs too, as
// CUPTI records them. It is opened at run time like the other libraries, and
// only when a trace is asked for: recording costs about a microsecond for each
// kernel. CUPTI's callbacks carry no user data, so there is one recorder in a
// process, for all its GPUs.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_DRIVER_ACTIVITY_H
#define KERF_RUNTIME_DEVICE_CUDA_DRIVER_ACTIVITY_H

#include "../../../base/Trace.h"

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace kerf::rt {

namespace cupti {
using Result = int; // CUptiResult; 0: success

enum : int { KindMemcpy = 1, KindMemset = 2, KindConcurrentKernel = 10 };

/// The beginning of CUpti_ActivityKernel9 and later (CUPTI 12.4 to 13.5 agree
/// on it); later fields are left out.
struct Kernel {
  int32_t kind;
  int32_t skipped0[3];
  uint64_t start, end; ///< nanoseconds of CUPTI's clock
  int32_t skipped1[2];
  uint32_t device, context, stream;
  int32_t skipped2[10];
  uint32_t correlation;
  int32_t skipped3[2];
  const char *name;
};
/// The beginning of CUpti_ActivityMemcpy5 and CUpti_ActivityMemset4, and later.
struct Memory {
  int32_t kind;
  uint8_t copyKind, skipped[3];
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
};

using BufferRequested = void (*)(uint8_t **buffer, size_t *size,
                                 size_t *maxRecords);
using BufferCompleted = void (*)(void *context, uint32_t stream,
                                 uint8_t *buffer, size_t size, size_t valid);
} // namespace cupti

// X(member, symbol, arguments)
#define KERF_CUPTI_FUNCTIONS(X)                                                \
  X(registerCallbacks, cuptiActivityRegisterCallbacks,                         \
    (cupti::BufferRequested, cupti::BufferCompleted))                          \
  X(enable, cuptiActivityEnable, (int))                                        \
  X(flushAll, cuptiActivityFlushAll, (uint32_t))                               \
  X(getNextRecord, cuptiActivityGetNextRecord, (uint8_t *, size_t, void **))   \
  X(getTimestamp, cuptiGetTimestamp, (uint64_t *))

namespace cupti {
#define KERF_CUPTI_TYPE(member, symbol, arguments)                             \
  using member##Fn = Result(*) arguments;
KERF_CUPTI_FUNCTIONS(KERF_CUPTI_TYPE)
#undef KERF_CUPTI_TYPE
} // namespace cupti

class GpuActivity {
public:
  /// Opened, and recording from then on. Throws KERF_UNSUPPORTED_HOST where
  /// CUPTI is missing or refuses.
  static GpuActivity &get();

  /// Drops the records of a GPU's work that began before now.
  void forget(int device);
  /// The remaining records, sorted by begin, in the clock of Trace::now(); call
  /// when the work has ended.
  std::vector<DeviceSpan> spans(int device);

private:
  GpuActivity();
  static void requested(uint8_t **buffer, size_t *size, size_t *maxRecords);
  static void completed(void *context, uint32_t stream, uint8_t *buffer,
                        size_t size, size_t valid);
  void add(const void *record);

#define KERF_CUPTI_MEMBER(member, symbol, arguments)                           \
  cupti::member##Fn member = nullptr;
  KERF_CUPTI_FUNCTIONS(KERF_CUPTI_MEMBER)
#undef KERF_CUPTI_MEMBER
  std::mutex mutex;
  /// In CUPTI's clock; `since`: the time of the last forget.
  std::map<int, std::vector<DeviceSpan>> recorded;
  std::map<int, int64_t> since;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_DRIVER_ACTIVITY_H
