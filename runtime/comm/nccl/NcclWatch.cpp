//===- NcclWatch.cpp - hangs and failures of GPU ranks --------------------===//
//
// What the host does while a step is under way: the order of calls is compared
// once, then the words that the GPU writes as it passes a call, and NCCL's
// asynchronous errors, are looked at. Any failure aborts every communicator of
// the rank, so that no kernel waits for ever.
//
//===----------------------------------------------------------------------===//
#include "NcclCommImpl.h"

#include <algorithm>
#include <thread>

using namespace kerf::rt;

void NcclComm::fail(Error error) {
  world.fail(error);
  abortAll();
  throw world.failure();
}

void NcclComm::abortAll() {
  if (aborted || !nccl)
    return;
  aborted = true;
  for (Lane &lane : lanes)
    if (lane.comm)
      nccl->commAbort(lane.comm);
  if (whole)
    nccl->commAbort(whole);
}

// The order of calls is fixed by the package; that the ranks of a lane have the
// same is looked at once, while nothing has been waited for yet. A rank that
// does not come is named with what it was doing.
void NcclComm::compareOrder() {
  if (!nccl || orderChecks >= 1)
    return;
  std::string name = cat("order-", orderChecks++);
  std::string mine;
  for (Lane &lane : lanes)
    mine += cat(lane.comm ? lane.hash.value() : 0, " ");
  std::vector<std::string> all;
  try {
    all = world.store().gather(name, rank, spec.mesh.numRanks(), mine,
                               spec.deadlineSeconds);
  } catch (Error &error) {
    if (world.failed()) {
      abortAll();
      throw world.failure();
    }
    error.notes = world.lastCollectives();
    fail(error);
  }
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (!lanes[i].comm)
      continue;
    auto hashOf = [&](int64_t member) {
      std::istringstream in(all[member]);
      std::string hash;
      for (size_t j = 0; j <= i; ++j)
        in >> hash;
      return hash;
    };
    for (int64_t member : lanes[i].desc->ranks)
      if (hashOf(member) != hashOf(rank))
        fail(Error(KERF_MISMATCH,
                   cat("ranks ", std::min(rank, member), " and ",
                       std::max(rank, member),
                       " run different collectives over ", lanes[i].desc->name),
                   "", world.lastCollectives()));
  }
}

void NcclComm::poll() {
  if (world.failed()) {
    abortAll();
    throw world.failure();
  }
  if (!nccl || secondsSince(lastAsk) < 0.005)
    return;
  lastAsk = Clock::now();
  for (Lane &lane : lanes) {
    if (!lane.comm)
      continue;
    nccl::Result state = nccl::Success;
    nccl::Result asked = nccl->commGetAsyncError(lane.comm, &state);
    if (asked == nccl::Success)
      asked = state;
    int64_t word = *static_cast<volatile int64_t *>(lane.word->data);
    auto name = [&](const std::vector<std::string> &list) {
      return word > 0 && static_cast<size_t>(word) <= list.size()
                 ? list[word - 1]
                 : std::string();
    };
    if (asked != nccl::Success && asked != nccl::InProgress)
      fail(Error(KERF_RANK_FAILURE,
                 cat("communication over ", lane.desc->name, " failed on rank ",
                     rank, word % 2 ? " in " + name(lane.marks) : "", ": ",
                     nccl->describe(asked, lane.comm)),
                 name(lane.nodes), world.lastCollectives()));
    if (word != lane.lastMark || word % 2 == 0) {
      lane.lastMark = word;
      lane.lastChange = Clock::now();
    } else if (secondsSince(lane.lastChange) > spec.deadlineSeconds) {
      overdue(lane);
    }
  }
}

// Whoever has not enqueued its step, or is behind in this lane, is to blame.
void NcclComm::overdue(const Lane &lane) {
  int64_t word = lane.lastMark;
  std::string what, node;
  if (word > 0 && static_cast<size_t>(word) <= lane.marks.size()) {
    what = lane.marks[word - 1];
    node = lane.nodes[word - 1];
  }
  std::string mine = cat(world.row(rank).step.load(), " ", word);
  std::string prefix = cat("overdue-", &lane - lanes.data(), "-");
  world.store().set(cat(prefix, rank), mine);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  int64_t missing = -1;
  for (int64_t member : lane.desc->ranks) {
    if (member == rank)
      continue;
    RankRow &row = world.row(member);
    bool behind = world.isLocal()
                      ? !row.enqueued.load() ||
                            row.step.load() < world.row(rank).step.load()
                      : !world.store().get(cat(prefix, member));
    if (behind && missing < 0)
      missing = member;
  }
  std::string who = missing >= 0 ? cat("rank ", missing, " did not arrive at ")
                                 : cat("rank ", rank, " did not get through ");
  fail(Error(KERF_RANK_FAILURE,
             cat(who, what, " within ", spec.deadlineSeconds, " s"), node,
             world.lastCollectives()));
}
