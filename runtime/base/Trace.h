//===- Trace.h - events of a rank with their times --------------*- C++ -*-===//
//
// One buffer per rank, reserved once: recording is two clock reads and a store.
// What does not fit is counted and dropped.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_BASE_TRACE_H
#define KERF_RUNTIME_BASE_TRACE_H

#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

namespace kerf::rt {

struct TraceEvent {
  enum Kind : uint8_t {
    Run,
    Input,
    Output,
    Send,
    Recv,
    Launch,
    Library,
    Collective,
    Copy
  };
  Kind kind;
  int32_t index; ///< function, input, channel, kernel, library call, collective
  int32_t microBatch;
  int64_t beginNs, endNs;
};

/// Work of a device that executes asynchronously: a kernel, a copy or a fill.
/// `kernel` is an index of the manifest's kernels, -1 for any other kernel.
struct DeviceSpan {
  enum Kind : uint8_t { Kernel, Copy, Fill };
  Kind kind = Kernel;
  int32_t kernel = -1;
  uint32_t stream = 0;
  int64_t beginNs = 0, endNs = 0;
  char name[120] = {}; ///< truncated to fit
  void setName(const char *text) {
    std::strncpy(name, text, sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
  }
};

class Trace {
public:
  using Clock = std::chrono::steady_clock;

  void enable(size_t capacity) {
    events.reserve(capacity);
    enabled = true;
  }
  bool on() const { return enabled; }
  void clear() {
    events.clear();
    dropped = 0;
  }
  static int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               Clock::now().time_since_epoch())
        .count();
  }
  void add(const TraceEvent &event) {
    if (events.size() < events.capacity())
      events.push_back(event);
    else
      ++dropped;
  }
  const std::vector<TraceEvent> &all() const { return events; }
  int64_t numDropped() const { return dropped; }

private:
  std::vector<TraceEvent> events;
  int64_t dropped = 0;
  bool enabled = false;
};

/// Records the time between construction and destruction if the trace is on.
class TraceScope {
public:
  TraceScope(Trace &trace, TraceEvent::Kind kind, int64_t index,
             int64_t microBatch)
      : trace(trace) {
    if (trace.on())
      event = {kind, static_cast<int32_t>(index),
               static_cast<int32_t>(microBatch), Trace::now(), 0};
  }
  ~TraceScope() {
    if (trace.on()) {
      event.endNs = Trace::now();
      trace.add(event);
    }
  }

private:
  Trace &trace;
  TraceEvent event;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_BASE_TRACE_H
