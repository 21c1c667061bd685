//===- Cupti.cpp - CUPTI's records of what the engine ran -----------------===//
//
// The part of CUPTI that device/cuda/Activity.h uses. A record is written when
// work has run, and buffers are handed over when they are full or flushed.
// Kernels of NCCL and of library calls are recorded under what the engine calls
// them.
//
//===----------------------------------------------------------------------===//
#include "Engine.h"

#include "device/cuda/driver/Activity.h"

#include <chrono>
#include <cstring>
#include <deque>
#include <set>

using namespace recording;
using namespace kerf::rt;

#define EXPORT extern "C" __attribute__((visibility("default")))

int64_t recording::nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

namespace {
struct Record {
  bool isKernel;
  cupti::Kernel kernel;
  cupti::Memory memory;
};

struct Recorder {
  std::mutex mutex;
  std::set<int> kinds;
  cupti::BufferRequested requested = nullptr;
  cupti::BufferCompleted completed = nullptr;
  std::deque<std::string> names; ///< addresses stay
  std::vector<Record> records;
};
Recorder &recorder() {
  static Recorder *made = new Recorder;
  return *made;
}

// CUPTI's clock is not the host's.
constexpr int64_t clockOffset = 1000000007;
// Its own records are longer than what is read of them.
constexpr size_t stride = 216;

bool startsWith(const std::string &text, const char *prefix) {
  return text.rfind(prefix, 0) == 0;
}
} // namespace

void recording::noteActivity(const Operation &operation, int64_t begin,
                             int64_t end) {
  Recorder &r = recorder();
  std::lock_guard<std::mutex> lock(r.mutex);
  if (r.kinds.empty() || !operation.stream)
    return;
  const std::string &what = operation.work->what;
  Record record{};
  auto fill = [&](auto &fields) {
    fields.start = static_cast<uint64_t>(begin + clockOffset);
    fields.end = static_cast<uint64_t>(end + clockOffset);
    fields.device = static_cast<uint32_t>(operation.stream->device);
    fields.stream = static_cast<uint32_t>(operation.lane);
  };
  bool launch = startsWith(what, "launch kerf");
  if (launch || startsWith(what, "library") || startsWith(what, "nccl")) {
    size_t from = launch ? 7 : 0;
    r.names.push_back(what.substr(from, launch ? what.find(' ', from) - from
                                               : std::string::npos));
    record.isKernel = true;
    record.kernel.kind = cupti::KindConcurrentKernel;
    record.kernel.name = r.names.back().c_str();
    fill(record.kernel);
  } else if (startsWith(what, "set ")) {
    record.memory.kind = cupti::KindMemset;
    fill(record.memory);
  } else if (startsWith(what, "upload") || startsWith(what, "download") ||
             what.find("copy") != std::string::npos) {
    record.memory.kind = cupti::KindMemcpy;
    record.memory.copyKind = startsWith(what, "upload")     ? 1
                             : startsWith(what, "download") ? 2
                                                            : 8;
    fill(record.memory);
  } else {
    return;
  }
  if (r.kinds.count(record.isKernel ? record.kernel.kind : record.memory.kind))
    r.records.push_back(record);
}

EXPORT int cuptiActivityRegisterCallbacks(cupti::BufferRequested requested,
                                          cupti::BufferCompleted completed) {
  recorder().requested = requested;
  recorder().completed = completed;
  return 0;
}
EXPORT int cuptiActivityEnable(int kind) {
  std::lock_guard<std::mutex> lock(recorder().mutex);
  recorder().kinds.insert(kind);
  return 0;
}
EXPORT int cuptiGetTimestamp(uint64_t *timestamp) {
  *timestamp = static_cast<uint64_t>(nanoseconds() + clockOffset);
  return 0;
}
EXPORT int cuptiActivityFlushAll(uint32_t) {
  Recorder &r = recorder();
  std::vector<Record> records;
  {
    std::lock_guard<std::mutex> lock(r.mutex);
    records.swap(r.records);
  }
  for (size_t at = 0; at < records.size();) {
    uint8_t *buffer = nullptr;
    size_t size = 0, max = 0, valid = 0;
    r.requested(&buffer, &size, &max);
    if (!buffer)
      return 1;
    for (; at < records.size() && valid + stride <= size; ++at) {
      std::memset(buffer + valid, 0, stride);
      if (records[at].isKernel)
        std::memcpy(buffer + valid, &records[at].kernel, sizeof(cupti::Kernel));
      else
        std::memcpy(buffer + valid, &records[at].memory, sizeof(cupti::Memory));
      valid += stride;
    }
    r.completed(nullptr, 0, buffer, size, valid);
  }
  return 0;
}
EXPORT int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
                                      void **record) {
  auto *at = static_cast<uint8_t *>(*record);
  at = at ? at + stride : buffer;
  if (at + stride > buffer + valid)
    return 12; // CUPTI_ERROR_MAX_LIMIT_REACHED
  *record = at;
  return 0;
}
