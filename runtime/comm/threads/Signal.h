//===- Signal.h - a counter that threads wait for ---------------*- C++ -*-===//
//
// Waiters spin for a moment, then sleep in a futex: with more ranks than cores
// a spinning wait costs milliseconds, a futex some microseconds. A bump wakes
// only if a thread sleeps. Wake-ups cannot be lost: the waiter announces itself
// before it looks again, the waker looks for sleepers after it changed the
// value, and both are sequentially consistent.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_THREADS_SIGNAL_H
#define KERF_RT_COMM_THREADS_SIGNAL_H

#include <atomic>
#include <chrono>
#include <cstdint>

namespace kerf::rt {

using Clock = std::chrono::steady_clock;

class alignas(64) Signal {
public:
  uint32_t load() const { return value.load(std::memory_order_acquire); }
  void bump() {
    value.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) != 0)
      wakeAll();
  }
  /// Wakes every sleeper without a change, to make it look at the abort flag.
  void wakeAll();

  enum class Outcome { Reached, Deadline, Aborted };
  /// Waits until the counter has reached `target` (modulo 2^32).
  Outcome waitFor(uint32_t target, Clock::time_point deadline,
                  const std::atomic<bool> &abort, int spins);

private:
  bool reached(uint32_t target) const {
    return static_cast<int32_t>(load() - target) >= 0;
  }
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};
};

} // namespace kerf::rt

#endif // KERF_RT_COMM_THREADS_SIGNAL_H
