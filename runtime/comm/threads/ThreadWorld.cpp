//===- ThreadWorld.cpp - ranks as threads of one process ------------------===//
//
// Everything is allocated here, at load: joining only looks things up.
//
//===----------------------------------------------------------------------===//
#include "ThreadWorld.h"

#include "ThreadComm.h"
#include "kerf/Format/HostCores.h"

#include <algorithm>

using namespace kerf::rt;

std::unique_ptr<World> kerf::rt::makeThreadWorld(const WorldSpec &spec) {
  return std::make_unique<ThreadWorld>(spec);
}

ThreadWorld::ThreadWorld(const WorldSpec &worldSpec)
    : spec(worldSpec), notes(worldSpec.mesh.numRanks()) {
  int64_t ranks = spec.mesh.numRanks();
  // Spinning helps only a waiter that does not take the core of a worker.
  spinCount = ranks <= hostCores().usable ? 2000 : 20;
  for (const CollectiveDesc &desc : spec.collectives) {
    checkCollective(desc, Mesh::sizeOf(desc.axes));
    for (int64_t rank = 0; rank < ranks; ++rank) {
      std::vector<int64_t> members = spec.mesh.group(rank, desc.axes);
      std::unique_ptr<Group> &group = groups[members];
      if (!group)
        group = std::make_unique<Group>(members);
    }
  }
  for (size_t c = 0; c < spec.channels.size(); ++c)
    for (int64_t rank = 0; rank < ranks; ++rank)
      if (spec.mesh.stageOf(rank) == spec.channels[c].fromStage) {
        auto pipe = std::make_unique<Pipe>();
        pipe->ring.resize(std::max<int64_t>(1, spec.maxSends));
        pipe->from = rank;
        pipe->to = spec.mesh.withStage(rank, spec.channels[c].toStage);
        pipes[{static_cast<int64_t>(c), rank}] = std::move(pipe);
      }
}

std::unique_ptr<Comm> ThreadWorld::join(int64_t rank) {
  return std::make_unique<ThreadComm>(*this, rank);
}

Group &ThreadWorld::groupOf(int64_t rank, const AxisList &axes) {
  return *groups.at(spec.mesh.group(rank, axes));
}

Pipe *ThreadWorld::pipe(int64_t channel, int64_t fromRank) {
  auto it = pipes.find({channel, fromRank});
  return it == pipes.end() ? nullptr : it->second.get();
}

void ThreadWorld::fail(const Error &error) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!first)
      first = error;
  }
  aborted.store(true, std::memory_order_release);
  for (auto &[members, group] : groups)
    for (auto &slot : group->slots) {
      slot->ready.wakeAll();
      slot->finished.wakeAll();
    }
  for (auto &[key, pipe] : pipes) {
    pipe->posted.wakeAll();
    pipe->taken.wakeAll();
  }
}

Error ThreadWorld::failure() const {
  std::lock_guard<std::mutex> lock(mutex);
  return first ? *first : Error(KERF_INTERNAL, "no failure");
}

bool ThreadWorld::blame(int64_t rank, Blame &result) {
  const RankNote &note = notes[rank];
  Blame b;
  b.waiter = rank;
  b.state = note.state.load(std::memory_order_acquire);
  b.wait = note.wait.load(std::memory_order_relaxed);
  b.number = note.number.load(std::memory_order_relaxed);
  if (b.state == RankNote::Sending)
    b.missing = spec.mesh.withStage(rank, spec.channels[b.wait].toStage);
  if (b.state == RankNote::Receiving)
    b.missing = spec.mesh.withStage(rank, spec.channels[b.wait].fromStage);
  if (b.state == RankNote::Arriving || b.state == RankNote::Finishing) {
    Group &group = groupOf(rank, spec.collectives[b.wait].axes);
    const GroupSlot &slot = *group.slots[b.number % KERF_MAX_STARTED];
    auto round = static_cast<uint32_t>(b.number / KERF_MAX_STARTED + 1);
    for (size_t i = group.ranks.size(); i-- > 0;) {
      const RankNote &other = notes[group.ranks[i]];
      bool late =
          b.state == RankNote::Arriving
              ? slot.posts[i].round.load(std::memory_order_acquire) != round
              : other.state.load() != RankNote::Finishing ||
                    other.wait.load() != b.wait;
      if (late && group.ranks[i] != rank)
        b.missing = group.ranks[i];
    }
  }
  if (b.missing < 0)
    return false;
  result = b;
  return true;
}

Error ThreadWorld::deadlineError(int64_t rank) {
  Blame b;
  if (!blame(rank, b)) // all came at the last moment
    return Error(
        KERF_RANK_FAILURE,
        cat("rank ", rank, " waited longer than ", spec.deadlineSeconds, " s"),
        "", lastCollectives());
  for (size_t i = 0; i < notes.size() && blame(b.missing, b); ++i) {
  }
  std::string what, node;
  if (b.state == RankNote::Arriving || b.state == RankNote::Finishing) {
    const CollectiveDesc &desc = spec.collectives[b.wait];
    node = desc.node;
    what = cat(b.state == RankNote::Arriving ? "arrive at " : "finish ",
               describe(desc, b.wait));
  } else {
    node = spec.channels[b.wait].node;
    what = cat(b.state == RankNote::Receiving ? "send" : "receive", " number ",
               b.number, " on channel ", b.wait,
               node.empty() ? "" : " at " + node);
  }
  return Error(KERF_RANK_FAILURE,
               cat("rank ", b.missing, " did not ", what, " within ",
                   spec.deadlineSeconds, " s"),
               node, lastCollectives());
}

std::vector<std::string> ThreadWorld::lastCollectives() const {
  std::vector<std::string> lines;
  for (size_t rank = 0; rank < notes.size(); ++rank) {
    const RankNote &note = notes[rank];
    int64_t last = note.lastCollective.load(), wait = note.wait.load();
    int state = note.state.load();
    std::string line = cat("rank ", rank, ": ", note.collectives.load(),
                           " collectives begun, last ");
    line += last < 0 ? "none" : describe(spec.collectives[last], last);
    if (state == RankNote::Arriving || state == RankNote::Finishing)
      line += wait == last ? ", waiting in it"
                           : cat(", waiting in ",
                                 describe(spec.collectives[wait], wait));
    else if (state == RankNote::Sending)
      line += cat(", waiting for channel ", wait, " to be received");
    else if (state == RankNote::Receiving)
      line += cat(", waiting to receive on channel ", wait);
    else
      line += ", not communicating";
    lines.push_back(line);
  }
  return lines;
}
