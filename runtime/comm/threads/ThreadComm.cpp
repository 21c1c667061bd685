//===- ThreadComm.cpp - one thread rank's endpoint ------------------------===//
//
// Group.h has the order of events in a collective. Before a rank waits for one
// collective, it does its share of all that it started earlier: other ranks may
// be waiting for that, and no cycle of waits can arise.
//
//===----------------------------------------------------------------------===//
#include "ThreadComm.h"

#include "../../base/Seconds.h"

#include <algorithm>
#include <cstring>

using namespace kerf::rt;

static Clock::time_point deadlineIn(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(seconds));
}

ThreadComm::ThreadComm(ThreadWorld &w, int64_t r)
    : world(w), rank(r), fault(w.getSpec().injection, r) {
  const WorldSpec &spec = world.getSpec();
  for (const CollectiveDesc &desc : spec.collectives) {
    Prepared p;
    Group &group = world.groupOf(rank, desc.axes);
    p.membership = &memberships[&group];
    p.membership->group = &group;
    p.position = spec.mesh.position(rank, desc.axes);
    p.exchange = std::make_unique<Exchange>(desc, group.size(), p.position);
    p.count = numElements(desc.srcShape);
    p.groupBytes = groupBytes(desc, group.size());
    prepared.push_back(std::move(p));
  }
  pending.reserve(prepared.size());
  received.resize(spec.channels.size());
  sent.resize(spec.channels.size());
  counts = countersOf(spec);
}

void ThreadComm::fail(Error error) {
  world.fail(error);
  throw world.failure();
}

void ThreadComm::checkFailed() {
  if (world.failed())
    throw world.failure();
}

bool ThreadComm::injected() {
  return fault.strikes([this] { return world.isReleased(); });
}

GroupSlot &ThreadComm::slotOf(const Prepared &p) const {
  return *p.membership->group->slots[p.sequence % KERF_MAX_STARTED];
}

// Rounds count from 1; `ready` and `finished` reach the round's number.
static uint32_t roundOf(uint64_t sequence) {
  return static_cast<uint32_t>(sequence / KERF_MAX_STARTED + 1);
}

void ThreadComm::start(int64_t index, const void *src, void *dst) {
  const CollectiveDesc &desc = world.getSpec().collectives[index];
  Prepared &p = prepared[index];
  checkFailed();
  Membership &m = *p.membership;
  if (std::optional<Error> error =
          m.order.refusal(rank, index, desc, p.state == Prepared::Idle))
    fail(*error);
  if (injected()) {
    p.state = Prepared::Skipped;
    return;
  }
  RankNote &note = world.note(rank);
  note.lastCollective.store(index, std::memory_order_relaxed);
  note.collectives.fetch_add(1, std::memory_order_relaxed);

  p.sequence = m.order.start(index, desc);

  GroupSlot &slot = slotOf(p);
  Post &post = slot.posts[p.position];
  post.src = src;
  post.dst = dst;
  post.index = index;
  post.sequence = p.sequence;
  post.hash = m.order.hash.value();
  post.kind = desc.kind;
  post.reduction = desc.reduction;
  post.dtype = desc.dtype;
  post.count = p.count;
  uint32_t round = roundOf(p.sequence);
  post.round.store(round, std::memory_order_release);
  p.state = Prepared::Started;
  pending.push_back(index);
  CommCounters::Entry &entry = counts.collectives[index];
  ++entry.calls;
  entry.groupBytes += p.groupBytes;

  uint32_t members = static_cast<uint32_t>(m.group->size());
  if (slot.arrivals.fetch_add(1, std::memory_order_acq_rel) + 1 ==
      round * members)
    slot.ready.bump();
  progress();
}

void ThreadComm::progress() {
  for (int64_t index : pending) {
    Prepared &p = prepared[index];
    if (p.state == Prepared::Started &&
        static_cast<int32_t>(slotOf(p).ready.load() - roundOf(p.sequence)) >= 0)
      work(index);
  }
}

void ThreadComm::work(int64_t index) {
  Prepared &p = prepared[index];
  GroupSlot &slot = slotOf(p);
  comparePosts(index, slot);
  CommCounters::Entry &entry = counts.collectives[index];
  p.exchange->run(slot.posts, entry.movedBytes, entry.paddedBytes);
  p.state = Prepared::Worked;
  uint32_t members = static_cast<uint32_t>(p.membership->group->size());
  if (slot.finishes.fetch_add(1, std::memory_order_acq_rel) + 1 ==
      roundOf(p.sequence) * members)
    slot.finished.bump();
}

void ThreadComm::comparePosts(int64_t index, const GroupSlot &slot) {
  const Group &group = *prepared[index].membership->group;
  const Post &base = slot.posts[0];
  for (size_t i = 1; i < slot.posts.size(); ++i) {
    const Post &other = slot.posts[i];
    bool same = other.index == base.index && other.kind == base.kind &&
                other.reduction == base.reduction &&
                other.dtype == base.dtype && other.count == base.count &&
                other.sequence == base.sequence;
    if (same && other.hash == base.hash)
      continue;
    const auto &collectives = world.getSpec().collectives;
    std::string message =
        same ? cat("ranks ", group.ranks[0], " and ", group.ranks[i],
                   " ran other collectives before ",
                   describe(collectives[base.index], base.index))
             : cat("ranks disagree on collective ", base.sequence,
                   " of their group: rank ", group.ranks[0], " runs ",
                   describe(collectives[base.index], base.index), ", rank ",
                   group.ranks[i], " runs ",
                   describe(collectives[other.index], other.index));
    std::vector<std::string> notes;
    for (size_t j = 0; j < slot.posts.size(); ++j)
      notes.push_back(
          cat("rank ", group.ranks[j], ": ",
              describe(collectives[slot.posts[j].index], slot.posts[j].index),
              ", ", kerf_dtype_name(slot.posts[j].dtype), ", ",
              slot.posts[j].count, " elements"));
    fail(Error(KERF_MISMATCH, message, collectives[base.index].node, notes));
  }
}

void ThreadComm::await(Signal &signal, uint32_t target, int state, int64_t wait,
                       int64_t number) {
  const WorldSpec &spec = world.getSpec();
  RankNote &note = world.note(rank);
  note.waiting(static_cast<RankNote::State>(state), wait, number);
  switch (signal.waitFor(target, deadlineIn(spec.deadlineSeconds),
                         world.abortFlag(), world.spins())) {
  case Signal::Outcome::Reached:
    note.working();
    return;
  case Signal::Outcome::Aborted:
    throw world.failure();
  case Signal::Outcome::Deadline:
    fail(world.deadlineError(rank));
  }
}

void ThreadComm::wait(int64_t index) {
  Prepared &p = prepared[index];
  if (p.state == Prepared::Skipped) {
    p.state = Prepared::Idle;
    return;
  }
  checkFailed();
  if (p.state == Prepared::Idle)
    fail(Error(KERF_INTERNAL,
               cat("wait for ",
                   describe(world.getSpec().collectives[index], index),
                   " which was not started on rank ", rank)));
  Clock::time_point begin = Clock::now();
  // What is done here for those that were started before is their time.
  auto note = [&](int64_t collective) {
    Clock::time_point now = Clock::now();
    counts.collectives[collective].seconds +=
        std::chrono::duration<double>(now - begin).count();
    begin = now;
  };
  for (int64_t earlier : pending) {
    Prepared &e = prepared[earlier];
    if (e.state == Prepared::Started) {
      await(slotOf(e).ready, roundOf(e.sequence), RankNote::Arriving, earlier,
            static_cast<int64_t>(e.sequence));
      work(earlier);
      note(earlier);
    }
    if (earlier == index)
      break;
  }
  await(slotOf(p).finished, roundOf(p.sequence), RankNote::Finishing, index,
        static_cast<int64_t>(p.sequence));
  p.state = Prepared::Idle;
  --p.membership->order.started;
  pending.erase(std::find(pending.begin(), pending.end(), index));
  note(index);
}

Pipe &ThreadComm::pipeFrom(int64_t channel, int64_t fromRank,
                           const char *what) {
  checkFailed();
  Pipe *pipe = world.pipe(channel, fromRank);
  if (!pipe || (pipe->from != rank && pipe->to != rank))
    fail(Error(KERF_INTERNAL,
               cat("rank ", rank, " cannot ", what, " on channel ", channel)));
  return *pipe;
}

int64_t ThreadComm::send(int64_t channel, const void *data,
                         int64_t microBatch) {
  const ChannelDesc &desc = world.getSpec().channels[channel];
  Pipe &pipe = pipeFrom(channel, rank, "send");
  if (injected())
    return -1;
  int64_t number = sent[channel]++;
  int64_t room = static_cast<int64_t>(pipe.ring.size());
  if (number >= room)
    await(pipe.taken, static_cast<uint32_t>(number - room + 1),
          RankNote::Sending, channel, number - room);
  pipe.ring[number % room] = {data, desc.bytes(), microBatch};
  pipe.posted.bump();
  CommCounters::Entry &entry = counts.sends[channel];
  ++entry.calls;
  entry.groupBytes += desc.bytes();
  return number;
}

void ThreadComm::finishSend(int64_t channel, int64_t number) {
  Pipe &pipe = pipeFrom(channel, rank, "send");
  if (number < 0)
    return;
  Clock::time_point begin = Clock::now();
  await(pipe.taken, static_cast<uint32_t>(number + 1), RankNote::Sending,
        channel, number);
  counts.sends[channel].seconds += secondsSince(begin);
}

void ThreadComm::receive(int64_t channel, void *data, int64_t microBatch) {
  const WorldSpec &spec = world.getSpec();
  const ChannelDesc &desc = spec.channels[channel];
  checkFailed();
  Pipe &pipe =
      pipeFrom(channel, spec.mesh.withStage(rank, desc.fromStage), "receive");
  if (injected())
    return;
  Clock::time_point begin = Clock::now();
  int64_t number = received[channel]++;
  await(pipe.posted, static_cast<uint32_t>(number + 1), RankNote::Receiving,
        channel, number);
  const Pipe::Offer &offer = pipe.ring[number % pipe.ring.size()];
  if (offer.bytes != desc.bytes() || offer.microBatch != microBatch)
    fail(offerMismatch(spec, channel,
                       {pipe.from, offer.bytes, offer.microBatch}, rank,
                       microBatch));
  std::memcpy(data, offer.data, static_cast<size_t>(offer.bytes));
  pipe.taken.bump();
  CommCounters::Entry &entry = counts.receives[channel];
  ++entry.calls;
  entry.groupBytes += desc.bytes();
  entry.movedBytes += offer.bytes;
  entry.seconds += secondsSince(begin);
}
