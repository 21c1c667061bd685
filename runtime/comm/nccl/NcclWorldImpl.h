//===- NcclWorldImpl.h - shared by ranks on GPUs ----------------*- C++ -*-===//
//
// The board of NcclWorld: the current activity of every rank of this process,
// read when an error is reported. The words that the GPU writes as it passes a
// collective (odd: inside, even: done) show the progress of each stream.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_NCCL_NCCLWORLDIMPL_H
#define KERF_RT_COMM_NCCL_NCCLWORLDIMPL_H

#include "NcclWorld.h"

#include <atomic>
#include <mutex>

namespace kerf::rt {

/// The collectives of one set of ranks, or the sends of one pair, in order.
struct NcclLane {
  std::vector<int64_t> ranks; ///< by position
  int64_t color = -1;         ///< of the split; -1: not for this rank
  bool channels = false;
  std::string name;
};

/// One rank's row on the board.
struct RankRow {
  std::atomic<int64_t> calls{0}; ///< communication calls enqueued, all steps
  std::atomic<int64_t> last{-1}; ///< the last one: collective, or
  std::atomic<int64_t> lastChannel{-1}; ///< channel
  std::atomic<int64_t> step{0};
  std::atomic<bool> enqueued{false}; ///< this step is
};

class NcclWorld : public World {
public:
  NcclWorld(const WorldSpec &spec, NcclWorldOptions options);

  std::unique_ptr<Comm> join(int64_t rank) override;
  std::unique_ptr<Comm> joinOn(int64_t rank, Device &device) override;
  void fail(const Error &error) override;
  bool failed() const override;
  Error failure() const override;
  std::vector<std::string> lastCollectives() const override;
  void release() override { released.store(true); }

  const WorldSpec &getSpec() const { return spec; }
  const NcclWorldOptions &getOptions() const { return options; }
  Store &store() { return *options.store; }
  bool isReleased() const { return released.load(); }
  RankRow &row(int64_t rank) { return rows[rank]; }
  /// All lanes of the job in an order that all ranks share.
  const std::vector<std::vector<NcclLane>> &lanes() const { return laneGroups; }
  /// Index into lanes() of a collective or channel; -1: a group of one.
  int64_t laneOfCollective(int64_t index) const {
    return collectiveLanes[index];
  }
  int64_t laneOfChannel(int64_t index) const { return channelLane[index]; }
  bool isLocal() const { return local; }

private:
  WorldSpec spec;
  NcclWorldOptions options;
  bool local;
  std::vector<std::vector<NcclLane>> laneGroups;
  std::vector<int64_t> collectiveLanes, channelLane;
  std::vector<RankRow> rows;
  std::atomic<bool> aborted{false}, released{false};
  mutable std::mutex mutex;
  std::optional<Error> first;
};

/// A store for threads of one process. Waits end when the world fails.
std::shared_ptr<Store> makeMemoryStore(const std::function<bool()> &failed);

} // namespace kerf::rt

#endif // KERF_RT_COMM_NCCL_NCCLWORLDIMPL_H
