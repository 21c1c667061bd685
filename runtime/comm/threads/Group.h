//===- Group.h - the meeting place of one group of ranks --------*- C++ -*-===//
//
// A group runs a numbered sequence of collectives. Number s uses slot s mod
// KERF_MAX_STARTED: each member posts its pointers and signature and is counted
// as arrived; when all have, each member compares all posts, does its share of
// the work directly on the peers' memory, and is counted as finished; when all
// have finished, buffers are free again. A member reuses a slot only after it
// has seen all finish, so posts are stable while they are read.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_THREADS_GROUP_H
#define KERF_RT_COMM_THREADS_GROUP_H

#include "../Collective.h"
#include "Signal.h"
#include "kerf/rt/program.h"

#include <array>
#include <memory>

namespace kerf::rt {

/// The post of a call; members must agree on everything except the pointers.
struct alignas(64) Post {
  const void *src = nullptr;
  void *dst = nullptr;
  int64_t index = -1;    ///< entry of the manifest
  uint64_t sequence = 0; ///< number of the call in this group
  uint64_t hash = 0;     ///< of all calls of this member in this group so far
  CollectiveKind kind = CollectiveKind::AllReduce;
  Reduction reduction = Reduction::Sum;
  kerf_dtype_t dtype = KERF_F32;
  int64_t count = 0;              ///< elements of src
  std::atomic<uint32_t> round{0}; ///< last round posted + 1; for error tables
};

struct GroupSlot {
  std::vector<Post> posts; ///< by position
  alignas(64) std::atomic<uint32_t> arrivals{0};
  Signal ready; ///< bumped once per round, when all have arrived
  alignas(64) std::atomic<uint32_t> finishes{0};
  Signal finished;

  explicit GroupSlot(size_t members) : posts(members) {}
};

struct Group {
  std::vector<int64_t> ranks; ///< by position
  std::vector<std::unique_ptr<GroupSlot>> slots;

  explicit Group(std::vector<int64_t> members) : ranks(std::move(members)) {
    for (int i = 0; i < KERF_MAX_STARTED; ++i)
      slots.push_back(std::make_unique<GroupSlot>(ranks.size()));
  }
  int64_t size() const { return static_cast<int64_t>(ranks.size()); }
};

} // namespace kerf::rt

#endif // KERF_RT_COMM_THREADS_GROUP_H
