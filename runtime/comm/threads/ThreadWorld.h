//===- ThreadWorld.h - ranks as threads of one process ----------*- C++ -*-===//
//
// Shared by all ranks: the groups in which collectives meet, the pipes of
// channels, the first failure, and a board on which each rank notes its
// activity, for the table that a deadline prints.
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_THREADS_THREADWORLD_H
#define KERF_RT_COMM_THREADS_THREADWORLD_H

#include "../Comm.h"
#include "Group.h"

#include <map>
#include <mutex>

namespace kerf::rt {

/// One direction between two ranks. One writer, one reader; the values of the
/// two signals are the numbers of sends posted and taken.
struct Pipe {
  struct Offer {
    const void *data = nullptr;
    int64_t bytes = 0, microBatch = 0;
  };
  std::vector<Offer> ring;
  Signal posted, taken;
  int64_t from = 0, to = 0;
};

/// A rank's activity; written by the rank, read when an error is reported.
/// `wait` is the collective or channel, `number` the call in the group or
/// channel.
struct alignas(64) RankNote {
  enum State : int { Working, Arriving, Finishing, Sending, Receiving };
  std::atomic<int> state{Working};
  std::atomic<int64_t> lastCollective{-1}, collectives{0}, wait{-1}, number{0};

  void waiting(State s, int64_t what, int64_t count) {
    wait.store(what, std::memory_order_relaxed);
    number.store(count, std::memory_order_relaxed);
    state.store(s, std::memory_order_release);
  }
  void working() { state.store(Working, std::memory_order_release); }
};

class ThreadWorld : public World {
public:
  explicit ThreadWorld(const WorldSpec &spec);

  std::unique_ptr<Comm> join(int64_t rank) override;
  void fail(const Error &error) override;
  bool failed() const override {
    return aborted.load(std::memory_order_acquire);
  }
  Error failure() const override;
  std::vector<std::string> lastCollectives() const override;
  void release() override { released.store(true); }

  const WorldSpec &getSpec() const { return spec; }
  Group &groupOf(int64_t rank, const AxisList &axes);
  Pipe *pipe(int64_t channel, int64_t fromRank);
  RankNote &note(int64_t rank) { return notes[rank]; }
  /// The error when `rank` has waited too long. The rank that it waits for may
  /// itself be waiting: the end of that chain is at fault.
  Error deadlineError(int64_t rank);
  const std::atomic<bool> &abortFlag() const { return aborted; }
  bool isReleased() const { return released.load(); }
  int spins() const { return spinCount; }

private:
  /// `waiter` waits, as its note says, for `missing`.
  struct Blame {
    int64_t waiter = -1, missing = -1;
    int state = RankNote::Working;
    int64_t wait = -1, number = 0;
  };
  /// False if the rank does not wait for anyone.
  bool blame(int64_t rank, Blame &result);

  WorldSpec spec;
  std::map<std::vector<int64_t>, std::unique_ptr<Group>> groups;
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Pipe>> pipes;
  std::vector<RankNote> notes;
  std::atomic<bool> aborted{false}, released{false};
  mutable std::mutex mutex;
  std::optional<Error> first;
  int spinCount;
};

} // namespace kerf::rt

#endif // KERF_RT_COMM_THREADS_THREADWORLD_H
