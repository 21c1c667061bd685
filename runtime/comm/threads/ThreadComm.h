//===- ThreadComm.h - one thread rank's endpoint ----------------*- C++ -*-===//
//
// Implements Comm over the groups and pipes of a ThreadWorld. All memory that a
// call needs is prepared in the constructor.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_THREADS_THREADCOMM_H
#define KERF_RT_COMM_THREADS_THREADCOMM_H

#include "../Calls.h"
#include "Exchange.h"
#include "ThreadWorld.h"

namespace kerf::rt {

class ThreadComm : public Comm {
public:
  ThreadComm(ThreadWorld &world, int64_t rank);

  void start(int64_t index, const void *src, void *dst) override;
  void wait(int64_t index) override;
  void progress() override;
  int64_t send(int64_t channel, const void *data, int64_t microBatch) override;
  void finishSend(int64_t channel, int64_t number) override;
  void receive(int64_t channel, void *data, int64_t microBatch) override;
  const CommCounters &counters() const override { return counts; }

private:
  /// This rank's place in a group.
  struct Membership {
    Group *group = nullptr;
    CallOrder order;
  };
  /// A collective of the manifest, from this rank's view.
  struct Prepared {
    Membership *membership = nullptr;
    int64_t position = 0;
    std::unique_ptr<Exchange> exchange;
    enum { Idle, Started, Worked, Skipped } state = Idle;
    uint64_t sequence = 0;
    int64_t count = 0, groupBytes = 0; ///< of one call
  };

  GroupSlot &slotOf(const Prepared &p) const;
  void work(int64_t index);
  void comparePosts(int64_t index, const GroupSlot &slot);
  /// Waits for another rank; this rank's note says what for.
  void await(Signal &signal, uint32_t target, int state, int64_t wait,
             int64_t number);
  [[noreturn]] void fail(Error error);
  void checkFailed();
  /// Counts a communication call; true if an injected fault skips it.
  bool injected();
  Pipe &pipeFrom(int64_t channel, int64_t fromRank, const char *what);

  ThreadWorld &world;
  int64_t rank;
  std::map<Group *, Membership> memberships;
  std::vector<Prepared> prepared;
  std::vector<int64_t> pending;        ///< started and not waited for, in order
  std::vector<int64_t> received, sent; ///< per channel
  FaultPoint fault;
  CommCounters counts;
};

} // namespace kerf::rt

#endif // KERF_RT_COMM_THREADS_THREADCOMM_H
