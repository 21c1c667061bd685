//===- NcclWorld.h - ranks on GPUs ------------------------------*- C++ -*-===//
//
// Ranks meet through a store (threads of one process: in memory), compare their
// identities, and make one communicator of all, split by set of axes. All calls
// of NCCL are non-blocking and have a deadline; the first failure of any rank
// makes every rank of this process abort its communicators.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_NCCL_NCCLWORLD_H
#define KERF_RT_COMM_NCCL_NCCLWORLD_H

#include "../../package/Manifest.h"
#include "../Comm.h"
#include "../Rendezvous.h"

namespace kerf::rt {

struct Package;
class Job;

struct NcclWorldOptions {
  /// Shared by all ranks; null: all ranks are threads of this process.
  std::shared_ptr<Store> store;
  /// The processes of which this is one: a failure is told to all.
  std::shared_ptr<Job> job;
  /// Equal on all ranks that run the same package.
  std::string fingerprint;
  /// By channel: those of equal lane share a communicator; see channelLanes.
  std::vector<int64_t> lanes;
};

/// Channels between the same two stages can share a communicator when sends
/// and receives come in the same order on both sides.
std::vector<int64_t> channelLanes(const Manifest &manifest);

std::unique_ptr<World> makeNcclWorld(const WorldSpec &spec,
                                     NcclWorldOptions options);

/// The world of a package's ranks: threads of this process, on its CPU or on
/// GPUs; with a job, processes on GPUs.
std::unique_ptr<World> makeWorld(const Package &package, const WorldSpec &spec,
                                 std::shared_ptr<Job> job = nullptr);
/// What distinguishes one package from another, for `fingerprint`.
std::string packageFingerprint(const Package &package);

} // namespace kerf::rt

#endif // KERF_RT_COMM_NCCL_NCCLWORLD_H
