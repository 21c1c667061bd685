//===- Seconds.h - time that has passed -------------------------*- C++ -*-===//
//
// Durations in messages, counters and deadlines are seconds of the steady
// clock, as double.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_BASE_SECONDS_H
#define KERF_RUNTIME_BASE_SECONDS_H

#include <chrono>

namespace kerf::rt {

using SteadyClock = std::chrono::steady_clock;

inline double secondsSince(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

} // namespace kerf::rt

#endif // KERF_RUNTIME_BASE_SECONDS_H
