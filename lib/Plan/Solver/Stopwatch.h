//===- Stopwatch.h - seconds of the clock or of the processor ---*- C++ -*-===//
//
// A search that ends by itself counts seconds of its thread on the processor:
// what else the machine does then has no effect on what it finds. A deadline
// that somebody waits for is of the wall clock.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_SOLVER_STOPWATCH_H
#define KERF_LIB_PLAN_SOLVER_STOPWATCH_H

#include <ctime>

namespace kerf::plan {

/// Seconds since it was made; all calls on the thread that made it.
class Stopwatch {
public:
  double seconds(bool ofProcessor) const {
    return ofProcessor ? now(CLOCK_THREAD_CPUTIME_ID) - processor
                       : now(CLOCK_MONOTONIC) - wall;
  }

private:
  static double now(clockid_t clock) {
    timespec time;
    ::clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) +
           1e-9 * static_cast<double>(time.tv_nsec);
  }
  double wall = now(CLOCK_MONOTONIC);
  double processor = now(CLOCK_THREAD_CPUTIME_ID);
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_STOPWATCH_H
