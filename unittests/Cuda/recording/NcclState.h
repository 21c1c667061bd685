//===- NcclState.h - communicators of the recording NCCL --------*- C++ -*-===//
//
// Members of a communicator are threads of this process (Nccl.cpp) or processes
// that meet in a store (NcclProcesses.cpp).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_CUDA_RECORDING_NCCLSTATE_H
#define KERF_UNITTESTS_CUDA_RECORDING_NCCLSTATE_H

#include "Engine.h"

#include "comm/Rendezvous.h"
#include "device/cuda/driver/Nccl.h"

#include <thread>

namespace recording {

struct NcclGroup {
  int size = 0;
  std::vector<NcclRank *> members;
  int joined = 0;
  bool aborted = false;
  std::map<std::pair<uint64_t, int>, OperationRef> collectives; ///< number, who
  std::map<std::tuple<int, int, uint64_t>, OperationRef> sends, receives;
  /// Of processes: where they meet, and their part of its keys.
  std::shared_ptr<kerf::rt::Store> store;
  std::string name;
  /// By number of the registration: bytes and offset of each member's window.
  std::map<uint64_t, std::vector<std::pair<size_t, size_t>>> windows;
};

struct NcclRank {
  std::shared_ptr<NcclGroup> group;
  int rank = 0;
  uint64_t nextCollective = 0, splits = 0, nextWindow = 0;
  std::map<int, uint64_t> nextSend, nextReceive; ///< by peer
  int error = kerf::rt::nccl::Success;
  int windows = 0; ///< that are registered now
  std::thread::id owner = std::this_thread::get_id();
  bool aborted = false, destroyed = false;
  /// What it waits for before it is ready, in the store.
  enum { Ready, Joining, Splitting } state = Ready;
  /// Of calls among processes, by key: whether this member's part is posted,
  /// and the parts of all.
  struct Remote {
    bool posted = false;
    std::vector<std::string> parts;
  };
  std::map<std::string, Remote> remote;
  std::shared_ptr<NcclGroup> parent;
  uint64_t split = 0;
  int color = 0;
  /// A split that has begun: what it makes (null without a colour), and where
  /// its handle goes once this communicator was asked and is ready.
  NcclRank *child = nullptr;
  kerf::rt::nccl::Comm *childHandle = nullptr;
};

inline NcclRank *of(kerf::rt::nccl::Comm comm) {
  return reinterpret_cast<NcclRank *>(comm);
}
inline kerf::rt::nccl::Comm handle(NcclRank *rank) {
  return reinterpret_cast<kerf::rt::nccl::Comm>(rank);
}

/// Every communicator that was made.
std::vector<NcclRank *> &allRanks();
NcclRank *newRank();

size_t bytesOf(int type);
const char *kindName(NcclCall::Kind kind);
void disagree(const NcclCall &a, const NcclCall &b);
/// Every member's call; each writes its dst.
void runCollective(const std::vector<const NcclCall *> &calls);

// NcclProcesses.cpp. All but the first two with the engine's lock held.

/// Where this process is one of several: serves a store and puts its place into
/// the id.
bool serveProcesses(char *id, size_t bytes, int number);
/// Null: the id is not that of a store.
NcclRank *joinRemotely(const char *id, int size, int rank);
NcclRank *splitRemotely(NcclRank &parent, int color, int key);
/// Looks whether what it waits for is there.
void settleRemotely(NcclRank &rank);
/// Posts this member's part; whether those of all others are there.
bool meetRemotely(NcclCall &call);
void exchangeRemotely(NcclCall &call);

} // namespace recording

#endif // KERF_UNITTESTS_CUDA_RECORDING_NCCLSTATE_H
