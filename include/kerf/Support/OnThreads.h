//===- OnThreads.h - independent pieces of work on threads ------*- C++ -*-===//
#ifndef KERF_SUPPORT_ONTHREADS_H
#define KERF_SUPPORT_ONTHREADS_H

#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace kerf {

/// Calls `work` with each number from 0 to `count` - 1, once, on at most
/// `threads` threads (0: one), of which the caller's is one. A thread takes the
/// next number when it is done with one, so in which order they are done is not
/// defined. Returns when all are.
inline void forEachOnThreads(size_t count, unsigned threads,
                             llvm::function_ref<void(size_t)> work) {
  std::atomic<size_t> next{0};
  auto takeTurns = [&] {
    for (size_t number; (number = next++) < count;)
      work(number);
  };
  std::vector<std::thread> others;
  for (size_t at = 1; at < std::min<size_t>(std::max(threads, 1u), count); ++at)
    others.emplace_back(takeTurns);
  takeTurns();
  for (std::thread &thread : others)
    thread.join();
}

} // namespace kerf

#endif // KERF_SUPPORT_ONTHREADS_H
