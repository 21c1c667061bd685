//===- NcclWatch.cpp - hangs and failures of GPU ranks --------------------===//
//
// The host's work while a step is under way: it compares the order of calls
// once, then polls the words that the GPU writes as it passes a call, and
// NCCL's asynchronous errors. Any failure aborts every communicator of the
// rank, so that no kernel waits for ever.
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

// An abort returns only when no graph holds the communicator, and a running
// graph ends only when the kernels of all its communicators have been told to
// stop. So the graph is released first, and all communicators are aborted at
// the same time: in one group, or, before NCCL 2.22, on a thread each. The
// parent comes first, since splits that are under way wait for it.
void NcclComm::abortAll() {
  if (aborted || !nccl)
    return;
  aborted = true;
  device.dropGraph();
  std::vector<nccl::Comm> all;
  if (whole)
    all.push_back(whole);
  for (Lane &lane : lanes)
    if (lane.comm)
      all.push_back(lane.comm);
  if (nccl->version >= 22200) {
    nccl->groupStart();
    for (nccl::Comm comm : all)
      nccl->commAbort(comm);
    nccl->groupEnd();
    return;
  }
  std::vector<std::thread> threads;
  for (nccl::Comm comm : all)
    threads.emplace_back([this, comm] { nccl->commAbort(comm); });
  for (std::thread &thread : threads)
    thread.join();
}

// Like Store::gather, but notices failures of other ranks meanwhile.
std::vector<std::string> NcclComm::gather(const std::string &name,
                                          const std::string &mine,
                                          double seconds) {
  int64_t ranks = spec.mesh.numRanks();
  if (ranks == 1)
    return {mine};
  seconds = std::max(seconds, spec.deadlineSeconds);
  auto keyOf = [&](int64_t r) { return cat(name, "/", r); };
  std::vector<std::optional<std::string>> found(static_cast<size_t>(ranks));
  auto missing = [&] {
    std::string list;
    for (int64_t r = 0; r < ranks; ++r)
      if (!found[r] && !(found[r] = world.store().get(keyOf(r))))
        list += cat(list.empty() ? "" : ", ", r);
    return list;
  };
  try {
    Time begin = Clock::now();
    world.store().set(keyOf(rank), mine);
    std::string list;
    for (int pause = 1; !(list = missing()).empty() && !world.failed();
         pause = std::min(2 * pause, 20)) {
      if (secondsSince(begin) > seconds)
        throw Error(KERF_RANK_FAILURE, cat("rank ", list, " did not join the ",
                                           ranks, " ranks of the job at ", name,
                                           " within ", seconds, " s"));
      std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    }
  } catch (Error &error) {
    error.notes = world.lastCollectives();
    if (!world.failed())
      fail(error);
  }
  if (world.failed()) {
    abortAll();
    throw world.failure();
  }
  std::vector<std::string> all;
  for (const std::optional<std::string> &text : found)
    all.push_back(*text);
  return all;
}

bool NcclComm::allCanCapture(bool mine) {
  bool all = true;
  for (const std::string &text : gather(cat("graph-", graphChecks++),
                                        mine ? "1" : "0", spec.deadlineSeconds))
    all &= text == "1";
  return all;
}

// The package fixes the order of calls; that all ranks of a lane have the same
// order is checked once, before any wait. If a rank does not arrive, the error
// names it and its last activity.
void NcclComm::compareOrder() {
  if (!nccl || orderChecks >= 1)
    return;
  std::string mine;
  for (Lane &lane : lanes)
    mine += cat(lane.comm ? lane.hash.value() : 0, " ");
  std::vector<std::string> all =
      gather(cat("order-", orderChecks++), mine, spec.deadlineSeconds);
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

// The rank at fault: one that has not enqueued its step, or is behind in the
// lane.
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
