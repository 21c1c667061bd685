//===- Activity.cpp - records of GPU work, by CUPTI -----------------------===//
#include "Activity.h"

#include "Driver.h"
#include "Find.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>

using namespace kerf::rt;

GpuActivity::GpuActivity() {
  LibrarySearch search{
      "CUPTI", "KERF_CUPTI", {}, {"cuda_cupti", "cu13", "cu12"}};
  nameForDriver(search, "libcupti.so", Driver::get().version);
  OpenedLibrary library = openLibrary(search);
  if (!library.handle)
    throw Error(KERF_UNSUPPORTED_HOST, "CUPTI is not here: " + library.error);
#define KERF_CUPTI_LOAD(member, name, arguments)                               \
  member = reinterpret_cast<cupti::member##Fn>(library.symbol(#name));         \
  if (!member)                                                                 \
    throw Error(KERF_UNSUPPORTED_HOST,                                         \
                cat("CUPTI at ", library.path, " has no ", #name));
  KERF_CUPTI_FUNCTIONS(KERF_CUPTI_LOAD)
#undef KERF_CUPTI_LOAD
  auto check = [&](cupti::Result result, const char *what) {
    if (result != 0)
      throw Error(KERF_UNSUPPORTED_HOST,
                  cat("CUPTI at ", library.path, " refuses ", what, ": error ",
                      result));
  };
  check(registerCallbacks(requested, completed), "its callbacks");
  for (int kind :
       {cupti::KindConcurrentKernel, cupti::KindMemcpy, cupti::KindMemset})
    check(enable(kind), "to record");
}

GpuActivity &GpuActivity::get() {
  static GpuActivity activity;
  return activity;
}

void GpuActivity::requested(uint8_t **buffer, size_t *size,
                            size_t *maxRecords) {
  *size = size_t(1) << 20;
  *buffer = static_cast<uint8_t *>(std::aligned_alloc(8, *size));
  *maxRecords = 0; // as many as fit
  if (!*buffer)
    *size = 0;
}

// Called on a thread of CUPTI's, possibly long before records are read.
void GpuActivity::completed(void *, uint32_t, uint8_t *buffer, size_t,
                            size_t valid) {
  GpuActivity &self = get();
  {
    std::lock_guard<std::mutex> lock(self.mutex);
    void *record = nullptr;
    while (valid != 0 && self.getNextRecord(buffer, valid, &record) == 0)
      self.add(record);
  }
  std::free(buffer);
}

void GpuActivity::add(const void *record) {
  int32_t kind;
  std::memcpy(&kind, record, sizeof(kind));
  DeviceSpan span;
  uint32_t device = 0;
  if (kind == cupti::KindConcurrentKernel) {
    cupti::Kernel kernel;
    std::memcpy(&kernel, record, sizeof(kernel));
    device = kernel.device;
    span.stream = kernel.stream;
    span.beginNs = static_cast<int64_t>(kernel.start);
    span.endNs = static_cast<int64_t>(kernel.end);
    span.setName(kernel.name ? kernel.name : "");
  } else if (kind == cupti::KindMemcpy || kind == cupti::KindMemset) {
    cupti::Memory memory;
    std::memcpy(&memory, record, sizeof(memory));
    device = memory.device;
    span.kind = kind == cupti::KindMemcpy ? DeviceSpan::Copy : DeviceSpan::Fill;
    span.stream = memory.stream;
    span.beginNs = static_cast<int64_t>(memory.start);
    span.endNs = static_cast<int64_t>(memory.end);
    static constexpr const char *directions[] = {"copy", "copy to the device",
                                                 "copy from the device"};
    span.setName(kind == cupti::KindMemset
                     ? "fill"
                     : directions[memory.copyKind < 3 ? memory.copyKind : 0]);
  } else {
    return;
  }
  if (span.beginNs >= since[static_cast<int>(device)])
    recorded[static_cast<int>(device)].push_back(span);
}

void GpuActivity::forget(int device) {
  uint64_t now = 0;
  getTimestamp(&now);
  std::lock_guard<std::mutex> lock(mutex);
  recorded[device].clear();
  since[device] = static_cast<int64_t>(now);
}

std::vector<DeviceSpan> GpuActivity::spans(int device) {
  flushAll(0);
  uint64_t now = 0;
  getTimestamp(&now);
  int64_t offset = Trace::now() - static_cast<int64_t>(now);
  std::vector<DeviceSpan> result;
  {
    std::lock_guard<std::mutex> lock(mutex);
    result = recorded[device];
  }
  for (DeviceSpan &span : result) {
    span.beginNs += offset;
    span.endNs += offset;
  }
  std::sort(result.begin(), result.end(),
            [](const DeviceSpan &a, const DeviceSpan &b) {
              return std::tie(a.beginNs, a.stream, a.endNs) <
                     std::tie(b.beginNs, b.stream, b.endNs);
            });
  return result;
}
