//===- Signal.cpp - a counter that threads wait for -----------------------===//
//
// The futex wait has a time limit, so that even a lost abort is noticed soon.
//
//===----------------------------------------------------------------------===//
#include "Signal.h"

#include <algorithm>
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace kerf::rt;

static_assert(sizeof(std::atomic<uint32_t>) == 4, "futex words are 32 bits");

static long futex(std::atomic<uint32_t> *word, int op, uint32_t value,
                  const timespec *timeout) {
  return ::syscall(SYS_futex, reinterpret_cast<uint32_t *>(word),
                   op | FUTEX_PRIVATE_FLAG, value, timeout, nullptr, 0);
}

void Signal::wakeAll() { futex(&value, FUTEX_WAKE, INT_MAX, nullptr); }

static inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

Signal::Outcome Signal::waitFor(uint32_t target, Clock::time_point deadline,
                                const std::atomic<bool> &abort, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (reached(target))
      return Outcome::Reached;
    relax();
  }
  constexpr auto slice = std::chrono::milliseconds(100);
  for (;;) {
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    uint32_t seen = value.load(std::memory_order_seq_cst);
    Clock::duration left = deadline - Clock::now();
    bool done = static_cast<int32_t>(seen - target) >= 0;
    if (!done && !abort.load(std::memory_order_acquire) && left.count() > 0) {
      auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                    std::min<Clock::duration>(left, slice))
                    .count();
      timespec timeout{static_cast<time_t>(ns / 1000000000),
                       static_cast<long>(ns % 1000000000)};
      futex(&value, FUTEX_WAIT, seen, &timeout);
    }
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (reached(target))
      return Outcome::Reached;
    if (abort.load(std::memory_order_acquire))
      return Outcome::Aborted;
    if (Clock::now() >= deadline)
      return Outcome::Deadline;
  }
}
