//===- Search.h - shared by the parts of solve() ----------------*- C++ -*-===//
//
// A clock, a random generator with the same numbers on every platform, and the
// functions that turn a solution of a Model into a SolveResult.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_SOLVER_SEARCH_H
#define KERF_LIB_PLAN_SOLVER_SEARCH_H

#include "Model.h"
#include "Stopwatch.h"

#include "kerf/Plan/Solvers.h"

#include <atomic>

namespace kerf::plan {

/// Seconds since it was made, of what is counted (SolveOptions::effort) or of
/// the clock, and a deadline in these.
class Clock {
public:
  explicit Clock(const SolveOptions &options)
      : Clock(options.deadlineSeconds, options.effort, options.stop) {}
  /// A part of this one's time: ends where this one is stopped.
  Clock slice(double forSeconds) const {
    return Clock(forSeconds, effort, stop);
  }
  double seconds() const {
    return effort ? effort->seconds() - begin : watch.seconds();
  }
  /// Of the clock in any case.
  double wallSeconds() const { return watch.seconds(); }
  /// Sets a deadline, `seconds` from now.
  void limit(double fromNow) { deadline = seconds() + fromNow; }
  bool expired() const {
    return (deadline > 0 && seconds() >= deadline) || (stop && *stop);
  }
  /// Seconds left; a large number without a deadline.
  double left() const { return deadline > 0 ? deadline - seconds() : 1e9; }

private:
  Clock(double deadline, const Effort *effort, const std::atomic<bool> *stop)
      : begin(effort ? effort->seconds() : 0), deadline(deadline),
        effort(effort), stop(stop) {}

  Stopwatch watch;
  double begin, deadline;
  const Effort *effort;
  const std::atomic<bool> *stop;
};

/// SplitMix64: standard distributions differ between libraries, this does not.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  /// 0 <= result < bound; bound > 0.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>(
        (static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

private:
  uint64_t state;
};

/// A SolveResult with the sizes of the problem and nothing else.
SolveResult emptyResult(const Problem &problem);
/// Keeps the solution if it is legal and cheaper than the best so far.
bool offer(const Problem &problem, SolveResult &result,
           const Solution &solution);
template <typename V>
void noteModel(const Model<V> &model, Statistics &statistics);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_SEARCH_H
