//===- NcclCommImpl.h - one GPU rank's endpoint, inside ---------*- C++ -*-===//
//
// The class behind makeNcclComm: NcclComm.cpp has the calls of a step,
// NcclConnect.cpp connects the ranks, NcclWatch.cpp notices hangs and failures.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_NCCL_NCCLCOMMIMPL_H
#define KERF_RT_COMM_NCCL_NCCLCOMMIMPL_H

#include "NcclComm.h"

#include "../../base/Seconds.h"
#include "../../device/cuda/driver/Driver.h"
#include "../../device/cuda/driver/Nccl.h"
#include "../Calls.h"
#include "Packing.h"

#include <chrono>

namespace kerf::rt {

class NcclComm : public StreamComm {
public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  static constexpr int64_t numMarks = 4096;

  NcclComm(NcclWorld &world, int64_t rank, CudaDeviceBase &device);
  ~NcclComm() override;

  void start(int64_t index, const void *src, void *dst) override;
  void wait(int64_t index) override;
  void progress() override { flushAll(); }
  int64_t send(int64_t channel, const void *data, int64_t microBatch) override;
  void finishSend(int64_t channel, int64_t number) override;
  void receive(int64_t channel, void *data, int64_t microBatch) override;
  const CommCounters &counters() const override { return counts; }

  void beginStep(bool enqueued) override;
  void abandonStep() override {
    if (counting)
      counts = before;
  }
  void joinStreams() override;
  void poll() override;
  void stepEnded() override {}
  std::vector<std::string> gather(const std::string &name,
                                  const std::string &mine,
                                  double seconds) override;

private:
  struct Request {
    int64_t index;
    const void *src;
    void *dst;
  };
  /// This rank's view of a lane.
  struct Lane {
    const NcclLane *desc = nullptr;
    nccl::Comm comm = nullptr;
    int64_t position = 0;
    cu::Stream stream = nullptr;
    cu::Event fork = nullptr, join = nullptr;
    bool used = false; ///< in this step
    std::vector<Request> pending;
    std::unique_ptr<DeviceMemory> word; ///< pinned
    std::vector<std::string> marks;     ///< what each mark of the step is
    std::vector<std::string> nodes;
    int64_t lastMark = 0;
    Time lastChange{};
    void *registered = nullptr;
    nccl::Window window = nullptr;
    CallHash hash;
  };
  struct Prepared {
    Lane *lane = nullptr; ///< null: a group of one
    Packing packing;
    std::unique_ptr<DeviceMemory> sendParts, receiveParts;
    cu::Event done = nullptr;
    enum { Idle, Started, Flushed, Skipped } state = Idle;
    int64_t groupBytes = 0;
  };

  void connect();
  void compareRanks();
  void exchangeFirst();
  nccl::Result firstCalls(const Lane &lane, size_t number, char *memory);
  void initialize();
  /// Waits until `comm` is made; before that there is nothing to abort.
  void split(nccl::Comm &comm, int64_t color, int64_t key,
             const std::string &what);
  /// Asks `comm` how a non-blocking call that answered `result` went on, until
  /// it has succeeded.
  void settle(nccl::Comm comm, nccl::Result result, const std::string &what);
  /// The same, but a failure is the caller's to deal with.
  nccl::Result outcome(nccl::Comm comm, nccl::Result result,
                       const std::string &what);
  void registerMemory(Lane &lane, size_t number);
  void deregisterMemory(Lane &lane);
  void check(nccl::Result result, nccl::Comm comm, const std::string &what,
             const std::string &node);
  void flush(Lane &lane);
  void flushAll();
  nccl::Result issue(const Request &request, Lane &lane);
  void mark(Lane &lane, const std::string &what, const std::string &node);
  void enterLane(Lane &lane);
  void copyAlone(const CollectiveDesc &desc, const Request &request);
  bool injected();
  [[noreturn]] void fail(Error error);
  void abortAll();
  void compareOrder();
  bool allCanCapture(bool mine);
  [[noreturn]] void overdue(const Lane &lane);
  /// A send or a receive on the lane of `channel`: `call` of the bytes and the
  /// other rank's place in the lane's communicator.
  template <typename Call>
  void pointToPoint(int64_t channel, const char *which, Lane &lane,
                    const Call &call);
  Lane &channelLane(int64_t channel) {
    return lanes[world.laneOfChannel(channel)];
  }

  NcclWorld &world;
  const WorldSpec &spec;
  int64_t rank;
  CudaDeviceBase &device;
  const Driver &cuda;
  const Nccl *nccl = nullptr; ///< null: one rank alone
  nccl::Comm whole = nullptr;
  std::vector<Lane> lanes;
  /// By rank: bytes of the allocation if it can become a window, else 0.
  std::vector<int64_t> windowBytes;
  std::vector<Prepared> prepared;
  std::unique_ptr<DeviceMemory> exchanged; ///< of the first exchange
  std::unique_ptr<DeviceMemory> marks;     ///< 0, 1, 2, ... on the device
  std::vector<std::vector<cu::Event>> sendEvents; ///< by channel, by number
  std::vector<int64_t> sent;                      ///< in this step
  cu::Event received = nullptr;
  CommCounters counts, before;
  std::vector<CommCounters::Entry *> entries();
  std::vector<int64_t> stepCalls; ///< what the last enqueued step counted
  FaultPoint fault;
  int64_t orderChecks = 0, graphChecks = 0;
  bool counting = false, aborted = false;
  Time lastAsk{};
};

} // namespace kerf::rt

#endif // KERF_RT_COMM_NCCL_NCCLCOMMIMPL_H
