//===- Ranks.h - thread ranks that run foreign code -------------*- C++ -*-===//
//
// The communicators are those of packages (comm/Comm.h); what differs is who
// computes between the calls, and who owns the buffers. Other ranks read and
// write a rank's buffers while it waits in a collective, and foreign code may
// free them as soon as its call returns. So a call that ends because of a
// failure returns only when no rank is inside of a call any more: none enters
// after the failure, and waits end with it.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_RANKS_RANKS_H
#define KERF_RUNTIME_RANKS_RANKS_H

#include "Program.h"

#include "kerf/rt/ranks.h"

#include <atomic>

struct kerf_rank {
  kerf_ranks *ranks = nullptr;
  int64_t number = 0;
  std::unique_ptr<kerf::rt::Comm> comm;
  /// Numbers of the sends of each channel that are not finished.
  std::vector<std::vector<int64_t>> openSends;
  /// Its parts of the program's parameters; empty while they have no value.
  std::vector<std::vector<std::byte>> kept;
  /// Whether the rank is inside of a call.
  std::atomic<bool> inside{false};
};

struct kerf_ranks {
  kerf_ranks(const char *program, double deadlineSeconds, int padding);

  /// Runs `function` on all ranks, each on a thread. Throws.
  void run(kerf_rank_function_t function, void *user);
  int64_t sentBytes() const;
  /// See kerf_ranks_write and kerf_ranks_read. Throw KERF_INVALID_ARGUMENT.
  void write(const char *parameter, const void *whole);
  void read(const char *parameter, void *whole) const;

  /// One call of a rank. Whatever it throws ends the run.
  template <typename Body> void call(kerf_rank &rank, Body &&body) noexcept {
    rank.inside.store(true);
    // Either this rank sees the failure, or whoever fails sees it inside.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!world->failed()) {
      try {
        body();
      } catch (...) {
        world->fail(kerf::rt::currentError());
      }
    }
    rank.inside.store(false);
    if (world->failed())
      awaitOthers();
  }

  kerf::rt::RanksProgram program;
  int padding;
  std::unique_ptr<kerf::rt::World> world;
  std::vector<std::unique_ptr<kerf_rank>> ranks;

private:
  void awaitOthers() const;
  size_t find(const char *parameter) const;

  kerf::rt::WorldSpec spec;
  bool broken = false;
};

namespace kerf::rt {

/// Copies a rank's part of a whole tensor; see kerf_rank_take and
/// kerf_rank_give. Throws KERF_INVALID_ARGUMENT for a number out of range.
void takePart(const kerf_rank &rank, int64_t part, int64_t microBatch,
              const void *whole, void *local);
void givePart(const kerf_rank &rank, int64_t part, int64_t microBatch,
              const void *local, void *whole);

/// See kerf_rank_load and kerf_rank_store.
void loadKept(const kerf_rank &rank, int64_t parameter, void *local);
void storeKept(kerf_rank &rank, int64_t parameter, const void *local);

} // namespace kerf::rt

#endif // KERF_RUNTIME_RANKS_RANKS_H
