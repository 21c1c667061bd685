//===- processes/ProcessComm.h - one process's endpoint ---------*- C++ -*-===//
//
// Implements Comm by messages. progress() advances every started collective;
// waiting is a loop of progress and pauses, so ranks that wait for different
// collectives cannot form a cycle.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_PROCESSES_PROCESSCOMM_H
#define KERF_RT_COMM_PROCESSES_PROCESSCOMM_H

#include "../Calls.h"
#include "MessageExchange.h"
#include "ProcessWorld.h"

namespace kerf::rt {

class ProcessComm : public Comm {
public:
  ProcessComm(ProcessWorld &world, int64_t rank);
  ~ProcessComm() override;

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
    const ProcessWorld::Group *group = nullptr;
    CallOrder order;
  };
  struct Prepared {
    Membership *membership = nullptr;
    std::unique_ptr<MessageExchange> exchange;
    bool skipped = false;
    uint64_t sequence = 0;
    int64_t count = 0, groupBytes = 0; ///< of one call
  };
  /// What goes before the data of a send.
  struct ChannelHeader {
    int64_t number = 0, bytes = 0, microBatch = 0;
  };
  struct OpenSend {
    ChannelHeader header;
    Request headerRequest, dataRequest;
  };
  struct Channel {
    std::vector<OpenSend> ring; ///< by number modulo the most open sends
    ChannelHeader incoming;
    Request headerRequest, dataRequest;
    int64_t sent = 0, received = 0;
  };

  void advance();
  void compare(int64_t index, const MessageExchange &exchange);
  /// Waits until `done` returns true; `state` and `missing` go into this rank's
  /// note.
  void await(int32_t state, int64_t wait, int64_t number,
             const std::function<bool()> &done,
             const std::function<int64_t()> &missing);
  [[noreturn]] void fail(Error error);
  void checkFailed();
  bool injected();
  int64_t peerOf(int64_t channel, bool send, const char *what);

  ProcessWorld &world;
  Job &job;
  Transport &link;
  int64_t rank;
  StagingPool pool;
  std::map<const ProcessWorld::Group *, Membership> memberships;
  std::vector<Prepared> prepared;
  std::vector<int64_t> pending; ///< started and not waited for, in order
  std::vector<Channel> channels;
  FaultPoint fault;
  CommCounters counts;
};

} // namespace kerf::rt

#endif // KERF_RT_COMM_PROCESSES_PROCESSCOMM_H
