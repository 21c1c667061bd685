//===- processes/ProcessComm.cpp - one process's endpoint -----------------===//
#include "ProcessComm.h"

#include "../../base/Seconds.h"

#include <algorithm>

using namespace kerf::rt;

using Guard = std::lock_guard<std::recursive_mutex>;

ProcessComm::ProcessComm(ProcessWorld &w, int64_t r)
    : world(w), job(w.getJob()), link(job.transport()), rank(r),
      fault(w.getSpec().injection, r) {
  const WorldSpec &spec = world.getSpec();
  for (const CollectiveDesc &desc : spec.collectives) {
    Prepared p;
    const ProcessWorld::Group &group = world.groupOf(rank, desc.axes);
    p.membership = &memberships[&group];
    p.membership->group = &group;
    p.exchange = std::make_unique<MessageExchange>(
        desc, group.ranks, spec.mesh.position(rank, desc.axes), link, pool);
    p.count = numElements(desc.srcShape);
    p.groupBytes = groupBytes(desc, static_cast<int64_t>(group.ranks.size()));
    prepared.push_back(std::move(p));
  }
  pending.reserve(prepared.size());
  channels.resize(spec.channels.size());
  for (Channel &channel : channels)
    channel.ring.resize(
        static_cast<size_t>(std::max<int64_t>(1, spec.maxSends)));
  counts = countersOf(spec);
}

ProcessComm::~ProcessComm() {
  Guard guard(job.mutex());
  prepared.clear();
  for (Channel &channel : channels) {
    link.cancel(channel.headerRequest);
    link.cancel(channel.dataRequest);
    for (OpenSend &open : channel.ring) {
      link.cancel(open.headerRequest);
      link.cancel(open.dataRequest);
    }
  }
}

void ProcessComm::fail(Error error) {
  world.fail(error);
  throw world.failure();
}

void ProcessComm::checkFailed() {
  if (job.failed())
    throw world.failure();
}

bool ProcessComm::injected() {
  return fault.strikes([this] { return world.isReleased(); });
}

void ProcessComm::start(int64_t index, const void *src, void *dst) {
  const CollectiveDesc &desc = world.getSpec().collectives[index];
  Prepared &p = prepared[index];
  checkFailed();
  Membership &m = *p.membership;
  bool idle = !p.skipped && p.exchange->state() == MessageExchange::Idle;
  if (std::optional<Error> error = m.order.refusal(rank, index, desc, idle))
    fail(*error);
  if (injected()) {
    p.skipped = true;
    return;
  }
  p.sequence = m.order.start(index, desc);
  Signature signature;
  signature.index = index;
  signature.sequence = p.sequence;
  signature.kind = static_cast<int32_t>(desc.kind);
  signature.reduction = static_cast<int32_t>(desc.reduction);
  signature.dtype = static_cast<int32_t>(desc.dtype);
  signature.count = p.count;
  signature.hash = m.order.hash.value();
  CommCounters::Entry &entry = counts.collectives[index];
  ++entry.calls;
  entry.groupBytes += p.groupBytes;
  Guard guard(job.mutex());
  job.note().lastCollective = index;
  ++job.note().collectives;
  p.exchange->start(signature,
                    m.group->tag +
                        static_cast<uint32_t>(p.sequence % KERF_MAX_STARTED),
                    KERF_MAX_STARTED, src, dst);
  pending.push_back(index);
  advance();
}

void ProcessComm::progress() {
  if (pending.empty())
    return;
  Guard guard(job.mutex());
  job.poll();
  advance();
}

void ProcessComm::advance() {
  for (int64_t index : pending) {
    MessageExchange &exchange = *prepared[index].exchange;
    if (exchange.state() == MessageExchange::Done)
      continue;
    if (exchange.advance() == MessageExchange::Agreed) {
      compare(index, exchange);
      exchange.move();
      exchange.advance();
    }
    if (exchange.state() == MessageExchange::Done) {
      counts.collectives[index].movedBytes += exchange.movedBytes();
      counts.collectives[index].paddedBytes += exchange.paddedBytes();
    }
  }
}

void ProcessComm::compare(int64_t index, const MessageExchange &exchange) {
  const std::vector<Signature> &posts = exchange.signatures();
  const std::vector<int64_t> &ranks = prepared[index].membership->group->ranks;
  const auto &collectives = world.getSpec().collectives;
  auto name = [&](int64_t i) {
    return i >= 0 && i < static_cast<int64_t>(collectives.size())
               ? describe(collectives[i], i)
               : cat("collective ", i, " of another package");
  };
  const Signature &base = posts[0];
  for (size_t i = 1; i < posts.size(); ++i) {
    const Signature &other = posts[i];
    bool same = other.index == base.index && other.kind == base.kind &&
                other.reduction == base.reduction &&
                other.dtype == base.dtype && other.count == base.count &&
                other.sequence == base.sequence;
    if (same && other.hash == base.hash)
      continue;
    std::string message =
        same ? cat("ranks ", ranks[0], " and ", ranks[i],
                   " ran other collectives before ", name(base.index))
             : cat("ranks disagree on collective ", base.sequence,
                   " of their group: rank ", ranks[0], " runs ",
                   name(base.index), ", rank ", ranks[i], " runs ",
                   name(other.index));
    std::vector<std::string> notes;
    for (size_t j = 0; j < posts.size(); ++j)
      notes.push_back(
          cat("rank ", ranks[j], ": ", name(posts[j].index), ", ",
              kerf_dtype_name(static_cast<kerf_dtype_t>(posts[j].dtype)), ", ",
              posts[j].count, " elements"));
    fail(Error(KERF_MISMATCH, message, collectives[index].node, notes));
  }
}

void ProcessComm::await(int32_t state, int64_t wait, int64_t number,
                        const std::function<bool()> &done,
                        const std::function<int64_t()> &missing) {
  ProcessNote &note = job.note();
  auto poll = [&] {
    advance();
    if (done()) {
      note.state = ProcessNote::Working;
      note.missing = -1;
      return true;
    }
    note.wait = wait;
    note.number = number;
    note.missing = missing();
    bool collective =
        state == ProcessNote::Arriving || state == ProcessNote::Finishing;
    note.state = collective && prepared[wait].exchange->state() !=
                                   MessageExchange::Arriving
                     ? ProcessNote::Finishing
                     : state;
    return false;
  };
  try {
    job.await(poll, [&](Job::Reason reason) { return world.explain(reason); });
  } catch (const Error &error) {
    // A mismatch of sizes or a failed library: the others must know, too.
    if (!job.failed() && error.code != KERF_CLOSED)
      world.fail(error);
    throw;
  }
}

void ProcessComm::wait(int64_t index) {
  Prepared &p = prepared[index];
  if (p.skipped) {
    p.skipped = false;
    return;
  }
  checkFailed();
  MessageExchange &exchange = *p.exchange;
  if (exchange.state() == MessageExchange::Idle)
    fail(Error(KERF_INTERNAL,
               cat("wait for ",
                   describe(world.getSpec().collectives[index], index),
                   " which was not started on rank ", rank)));
  auto begin = SteadyClock::now();
  await(
      ProcessNote::Arriving, index, static_cast<int64_t>(p.sequence),
      [&] { return exchange.state() == MessageExchange::Done; },
      [&]() -> int64_t {
        int64_t position = exchange.missing();
        return position < 0 ? -1 : p.membership->group->ranks[position];
      });
  exchange.finish();
  --p.membership->order.started;
  pending.erase(std::find(pending.begin(), pending.end(), index));
  counts.collectives[index].seconds += secondsSince(begin);
}

int64_t ProcessComm::peerOf(int64_t channel, bool send, const char *what) {
  checkFailed();
  const WorldSpec &spec = world.getSpec();
  const ChannelDesc &desc = spec.channels[channel];
  if (spec.mesh.stageOf(rank) != (send ? desc.fromStage : desc.toStage))
    fail(Error(KERF_INTERNAL,
               cat("rank ", rank, " cannot ", what, " on channel ", channel)));
  return spec.mesh.withStage(rank, send ? desc.toStage : desc.fromStage);
}

int64_t ProcessComm::send(int64_t index, const void *data, int64_t microBatch) {
  const ChannelDesc &desc = world.getSpec().channels[index];
  int64_t peer = peerOf(index, true, "send");
  if (injected())
    return -1;
  Channel &channel = channels[index];
  int64_t number = channel.sent++;
  int64_t room = static_cast<int64_t>(channel.ring.size());
  if (number >= room)
    finishSend(index, number - room);
  OpenSend &open = channel.ring[number % room];
  open.header = {number, desc.bytes(), microBatch};
  CommCounters::Entry &entry = counts.sends[index];
  ++entry.calls;
  entry.groupBytes += desc.bytes();
  Guard guard(job.mutex());
  uint32_t tag = world.channelTag(index);
  link.send(open.headerRequest, peer, tag, &open.header, sizeof(open.header));
  link.send(open.dataRequest, peer, tag + 1, data,
            static_cast<size_t>(desc.bytes()));
  return number;
}

void ProcessComm::finishSend(int64_t index, int64_t number) {
  int64_t peer = peerOf(index, true, "send");
  if (number < 0)
    return;
  Channel &channel = channels[index];
  OpenSend &open =
      channel.ring[number % static_cast<int64_t>(channel.ring.size())];
  if (open.header.number != number)
    return; // its place was needed, so it was finished
  auto begin = SteadyClock::now();
  await(
      ProcessNote::Sending, index, number,
      [&] {
        bool header = link.test(open.headerRequest);
        return link.test(open.dataRequest) && header;
      },
      [&] { return peer; });
  counts.sends[index].seconds += secondsSince(begin);
}

void ProcessComm::receive(int64_t index, void *data, int64_t microBatch) {
  const ChannelDesc &desc = world.getSpec().channels[index];
  int64_t peer = peerOf(index, false, "receive");
  if (injected())
    return;
  auto begin = SteadyClock::now();
  Channel &channel = channels[index];
  int64_t number = channel.received++;
  uint32_t tag = world.channelTag(index);
  auto take = [&](Request &request, uint32_t messageTag, void *to,
                  size_t bytes) {
    {
      Guard guard(job.mutex());
      link.receive(request, peer, messageTag, to, bytes);
    }
    await(
        ProcessNote::Receiving, index, number,
        [&] { return link.test(request); }, [&] { return peer; });
  };
  take(channel.headerRequest, tag, &channel.incoming, sizeof(ChannelHeader));
  const ChannelHeader &offer = channel.incoming;
  if (offer.bytes != desc.bytes() || offer.microBatch != microBatch ||
      offer.number != number)
    fail(offerMismatch(world.getSpec(), index,
                       {peer, offer.bytes, offer.microBatch}, rank,
                       microBatch));
  take(channel.dataRequest, tag + 1, data, static_cast<size_t>(offer.bytes));
  CommCounters::Entry &entry = counts.receives[index];
  ++entry.calls;
  entry.groupBytes += desc.bytes();
  entry.movedBytes += offer.bytes;
  entry.seconds += secondsSince(begin);
}
