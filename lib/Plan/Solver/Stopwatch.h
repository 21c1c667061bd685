//===- Stopwatch.h - seconds of the clock -----------------------*- C++ -*-===//
#ifndef KERF_LIB_PLAN_SOLVER_STOPWATCH_H
#define KERF_LIB_PLAN_SOLVER_STOPWATCH_H

#include <chrono>

namespace kerf::plan {

/// Seconds of the clock since it was made.
class Stopwatch {
public:
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_STOPWATCH_H
