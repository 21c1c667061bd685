//===- NcclComm.cpp - one GPU rank's endpoint -----------------------------===//
//
// start: the lane's stream waits for an event on the compute stream, then runs
// the calls; wait: the compute stream waits for the event behind them.
// Collectives of a lane that are started without other work between them form
// one NCCL group. Strided collectives are packed on the lane's stream.
//
// Around every group of calls the lane's stream copies a number into a word of
// pinned memory: odd while inside, even when done. The host reads it while it
// waits for the step, so it knows which call hangs without querying streams
// during the step; this also works in graphs.
//
//===----------------------------------------------------------------------===//
#include "NcclCommImpl.h"

using namespace kerf::rt;

NcclComm::NcclComm(NcclWorld &w, int64_t r, CudaDeviceBase &d)
    : world(w), spec(w.getSpec()), rank(r), device(d), cuda(d.driver()),
      fault(spec.injection, r) {
  int64_t ranks = spec.mesh.numRanks();
  lanes.resize(world.lanes().size());
  counts = countersOf(spec);
  sendEvents.resize(spec.channels.size());
  sent.resize(spec.channels.size());
  received = device.newEvent();
  if (ranks > 1) {
    device.agreeOnGraphs([this](bool mine) { return allCanCapture(mine); });
    connect();
  }
  for (size_t i = 0; i < lanes.size(); ++i) {
    Lane &lane = lanes[i];
    if (!lane.comm)
      continue;
    lane.stream = device.newStream(
        cat(lane.desc->channels ? "channel" : "comm", i, ".", lane.desc->name));
    lane.fork = device.newEvent();
    lane.join = device.newEvent();
    lane.word = device.allocatePinned(sizeof(int64_t));
    *static_cast<volatile int64_t *>(lane.word->data) = 0;
  }
  if (ranks > 1)
    exchangeFirst();
  for (size_t i = 0; i < spec.collectives.size(); ++i) {
    const CollectiveDesc &desc = spec.collectives[i];
    Prepared p;
    int64_t size = Mesh::sizeOf(desc.axes);
    p.groupBytes = groupBytes(desc, size);
    if (size > 1) {
      int64_t lane = world.laneOfCollective(static_cast<int64_t>(i));
      p.lane = &lanes[lane];
      p.packing = makePacking(desc, size, p.lane->position);
      if (desc.reduces())
        ncclTypeOf(desc.dtype); // refuses what NCCL does not have
      if (p.packing.packedBytes)
        p.sendParts = device.allocateTemporary(p.packing.packedBytes,
                                               "parts of a collective");
      if (p.packing.unpackedBytes)
        p.receiveParts = device.allocateTemporary(p.packing.unpackedBytes,
                                                  "parts of a collective");
      p.done = device.newEvent();
    }
    prepared.push_back(std::move(p));
  }
  if (ranks > 1) {
    std::vector<int64_t> numbers(numMarks);
    for (int64_t i = 0; i < numMarks; ++i)
      numbers[i] = i;
    marks = device.allocateTemporary(numMarks * 8, "marks");
    device.upload(numbers.data(), marks->data, numMarks * 8);
  }
}

NcclComm::~NcclComm() {
  if (!nccl)
    return;
  // Communicators of a failed run would wait for ever.
  if (world.failed())
    abortAll();
  if (aborted)
    return;
  for (Lane &lane : lanes)
    if (lane.comm) {
      deregisterMemory(lane);
      nccl->commDestroy(lane.comm);
    }
  if (whole)
    nccl->commDestroy(whole);
}

bool NcclComm::injected() {
  if (world.failed()) {
    abortAll();
    throw world.failure();
  }
  return fault.strikes([this] { return world.isReleased(); });
}

void NcclComm::start(int64_t index, const void *src, void *dst) {
  const CollectiveDesc &desc = spec.collectives[index];
  Prepared &p = prepared[index];
  if (p.state != Prepared::Idle)
    fail(Error(KERF_INTERNAL,
               cat(describe(desc, index), " is started twice on rank ", rank),
               desc.node));
  if (injected()) {
    p.state = Prepared::Skipped;
    return;
  }
  RankRow &row = world.row(rank);
  row.last.store(index);
  row.lastChannel.store(-1);
  row.calls.fetch_add(1);
  CommCounters::Entry &entry = counts.collectives[index];
  ++entry.calls;
  entry.groupBytes += p.groupBytes;
  entry.movedBytes += p.packing.sent;
  p.state = Prepared::Started;
  if (!p.lane) {
    copyAlone(desc, {index, src, dst});
    return;
  }
  p.lane->hash.add(index, desc);
  p.lane->pending.push_back({index, src, dst});
}

// A group of one: only copies, or zeros for a permute without a source.
void NcclComm::copyAlone(const CollectiveDesc &desc, const Request &request) {
  int64_t bytes = numBytes(desc.dstShape, desc.dtype);
  if (hasPairs(desc.kind) && desc.pairs.empty())
    return device.zero(request.dst, bytes);
  if (request.src != request.dst)
    device.copy(request.src, request.dst, bytes);
}

void NcclComm::mark(Lane &lane, const std::string &what,
                    const std::string &node) {
  lane.marks.push_back(what);
  lane.nodes.push_back(node);
  int64_t number = static_cast<int64_t>(lane.marks.size()) % numMarks;
  cuda.check(cuda.memcpyDtoHAsync(lane.word->data,
                                  reinterpret_cast<cu::DevicePtr>(marks->data) +
                                      static_cast<uint64_t>(number) * 8,
                                  8, lane.stream),
             "a mark");
}

void NcclComm::enterLane(Lane &lane) {
  device.order(device.computeStream(), lane.fork, lane.stream);
  lane.used = true;
}

void NcclComm::flush(Lane &lane) {
  if (lane.pending.empty())
    return;
  enterLane(lane);
  auto packed = [&](const Request &request) {
    const Packing &packing = prepared[request.index].packing;
    return packing.packedBytes != 0 || packing.unpackedBytes != 0;
  };
  for (size_t i = 0; i < lane.pending.size();) {
    size_t end = i + 1;
    while (!packed(lane.pending[i]) && end < lane.pending.size() &&
           !packed(lane.pending[end]))
      ++end;
    const Request &front = lane.pending[i];
    const CollectiveDesc &desc = spec.collectives[front.index];
    std::string what = describe(desc, front.index);
    if (end - i > 1)
      what += cat(" and ", end - i - 1, " more");
    mark(lane, what, desc.node);
    for (size_t j = i; j < end; ++j)
      if (packed(lane.pending[j])) {
        const Request &r = lane.pending[j];
        Prepared &p = prepared[r.index];
        if (p.packing.zeroParts)
          device.zeroOn(p.sendParts->data, p.packing.packedBytes, lane.stream);
        for (const BoxCopy &box : p.packing.pack)
          device.copyBox(box, r.src, p.sendParts->data, lane.stream);
      }
    // A group that is open must end before anything is aborted.
    nccl::Result result = nccl->groupStart();
    for (size_t j = i; j < end && result == nccl::Success; ++j)
      result = issue(lane.pending[j], lane);
    nccl::Result ended = nccl->groupEnd();
    check(result == nccl::Success ? ended : result, lane.comm, what, desc.node);
    for (size_t j = i; j < end; ++j) {
      const Request &r = lane.pending[j];
      Prepared &p = prepared[r.index];
      if (p.packing.zeroDst)
        device.zeroOn(r.dst,
                      numBytes(spec.collectives[r.index].dstShape,
                               spec.collectives[r.index].dtype),
                      lane.stream);
      for (const BoxCopy &box : p.packing.unpack)
        device.copyBox(box, p.receiveParts->data, r.dst, lane.stream);
    }
    mark(lane, what, desc.node);
    i = end;
  }
  for (const Request &request : lane.pending) {
    Prepared &p = prepared[request.index];
    cuda.check(cuda.eventRecord(p.done, lane.stream), "cuEventRecord");
    p.state = Prepared::Flushed;
  }
  lane.pending.clear();
}

void NcclComm::flushAll() {
  for (Lane &lane : lanes)
    flush(lane);
}

// InProgress is fine: NCCL orders later work behind it.
void NcclComm::check(nccl::Result result, nccl::Comm comm,
                     const std::string &what, const std::string &node) {
  Time begin = Clock::now();
  while (result == nccl::InProgress) {
    if (secondsSince(begin) > spec.deadlineSeconds)
      fail(Error(KERF_RANK_FAILURE,
                 cat("rank ", rank, " could not enqueue ", what, " within ",
                     spec.deadlineSeconds, " s"),
                 node, world.lastCollectives()));
    nccl::Result state = nccl::Success;
    nccl::Result asked = nccl->commGetAsyncError(comm, &state);
    result = asked == nccl::Success ? state : asked;
  }
  if (result != nccl::Success)
    fail(Error(
        KERF_RANK_FAILURE,
        cat(what, " on rank ", rank, " failed: ", nccl->describe(result, comm)),
        node, world.lastCollectives()));
}

nccl::Result NcclComm::issue(const Request &request, Lane &lane) {
  const CollectiveDesc &desc = spec.collectives[request.index];
  Prepared &p = prepared[request.index];
  const void *src = p.sendParts ? p.sendParts->data : request.src;
  void *dst = p.receiveParts ? p.receiveParts->data : request.dst;
  int64_t elementBytes = dtypeSize(desc.dtype);
  auto count = [](int64_t n) { return static_cast<size_t>(n); };
  nccl::Result first = nccl::Success;
  auto run = [&](nccl::Result result) {
    if (first == nccl::Success && result != nccl::InProgress)
      first = result;
  };
  switch (ncclCallOf(desc.kind)) {
  case NcclCall::AllReduce:
    run(nccl->allReduce(src, dst, count(numElements(desc.srcShape)),
                        ncclTypeOf(desc.dtype), ncclReductionOf(desc.reduction),
                        lane.comm, lane.stream));
    break;
  case NcclCall::ReduceScatter:
    run(nccl->reduceScatter(src, dst, count(p.packing.sendPart / elementBytes),
                            ncclTypeOf(desc.dtype),
                            ncclReductionOf(desc.reduction), lane.comm,
                            lane.stream));
    break;
  case NcclCall::AllGather:
    run(nccl->allGather(src, dst, count(p.packing.sendPart), nccl::Uint8,
                        lane.comm, lane.stream));
    break;
  case NcclCall::Broadcast:
    run(nccl->broadcast(src, dst, count(numBytes(desc.srcShape, desc.dtype)),
                        nccl::Uint8, static_cast<int>(desc.root), lane.comm,
                        lane.stream));
    break;
  case NcclCall::Messages:
    for (const Packing::Message &m : p.packing.messages) {
      auto peer = static_cast<int>(m.peer);
      run(m.send
              ? nccl->send(static_cast<const char *>(src) + m.offset,
                           count(m.bytes), nccl::Uint8, peer, lane.comm,
                           lane.stream)
              : nccl->recv(static_cast<char *>(dst) + m.offset, count(m.bytes),
                           nccl::Uint8, peer, lane.comm, lane.stream));
    }
    break;
  }
  return first;
}

void NcclComm::wait(int64_t index) {
  Prepared &p = prepared[index];
  if (p.state == Prepared::Idle)
    fail(Error(KERF_INTERNAL,
               cat("wait for ", describe(spec.collectives[index], index),
                   " which was not started on rank ", rank)));
  if (p.lane && p.state == Prepared::Started)
    flush(*p.lane);
  if (p.lane && p.state == Prepared::Flushed)
    cuda.check(cuda.streamWaitEvent(device.computeStream(), p.done, 0),
               "cuStreamWaitEvent");
  p.state = Prepared::Idle;
}

template <typename Call>
void NcclComm::pointToPoint(int64_t channel, const char *which, Lane &lane,
                            const Call &call) {
  const ChannelDesc &desc = spec.channels[channel];
  flushAll();
  RankRow &row = world.row(rank);
  row.lastChannel.store(channel);
  row.last.store(-1);
  row.calls.fetch_add(1);
  enterLane(lane);
  std::string what = cat(which, " on channel ", channel);
  mark(lane, what, desc.node);
  check(call(static_cast<size_t>(desc.bytes()),
             static_cast<int>(1 - lane.position)),
        lane.comm, what, desc.node);
  mark(lane, what, desc.node);
  lane.hash.add(static_cast<uint64_t>(channel) * 2654435761u + 17);
}

int64_t NcclComm::send(int64_t channel, const void *data, int64_t) {
  Lane &lane = channelLane(channel);
  if (injected())
    return -1;
  pointToPoint(channel, "send", lane, [&](size_t bytes, int peer) {
    return nccl->send(data, bytes, nccl::Uint8, peer, lane.comm, lane.stream);
  });
  auto number = sent[channel]++;
  auto &events = sendEvents[channel];
  if (static_cast<size_t>(number) >= events.size())
    events.push_back(device.newEvent());
  cuda.check(cuda.eventRecord(events[number], lane.stream), "cuEventRecord");
  CommCounters::Entry &entry = counts.sends[channel];
  ++entry.calls;
  entry.groupBytes += spec.channels[channel].bytes();
  return number;
}

void NcclComm::finishSend(int64_t channel, int64_t number) {
  if (number < 0)
    return;
  cuda.check(cuda.streamWaitEvent(device.computeStream(),
                                  sendEvents[channel][number], 0),
             "cuStreamWaitEvent");
}

void NcclComm::receive(int64_t channel, void *data, int64_t) {
  Lane &lane = channelLane(channel);
  if (injected())
    return;
  pointToPoint(channel, "receive", lane, [&](size_t bytes, int peer) {
    return nccl->recv(data, bytes, nccl::Uint8, peer, lane.comm, lane.stream);
  });
  device.order(lane.stream, received, device.computeStream());
  CommCounters::Entry &entry = counts.receives[channel];
  ++entry.calls;
  entry.groupBytes += spec.channels[channel].bytes();
  entry.movedBytes += spec.channels[channel].bytes();
}

std::vector<CommCounters::Entry *> NcclComm::entries() {
  std::vector<CommCounters::Entry *> all;
  for (auto *list : {&counts.collectives, &counts.sends, &counts.receives})
    for (CommCounters::Entry &entry : *list)
      all.push_back(&entry);
  return all;
}

void NcclComm::beginStep(bool enqueued) {
  if (world.failed()) {
    abortAll();
    throw world.failure();
  }
  RankRow &row = world.row(rank);
  row.step.fetch_add(1);
  row.enqueued.store(false);
  for (Lane &lane : lanes) {
    if (lane.word)
      *static_cast<volatile int64_t *>(lane.word->data) = 0;
    lane.lastMark = 0;
    lane.lastChange = Clock::now();
    if (!enqueued)
      continue;
    lane.used = false;
    lane.marks.clear();
    lane.nodes.clear();
    lane.hash = CallHash();
  }
  std::vector<CommCounters::Entry *> all = entries();
  if (!enqueued) { // a replayed step counts as before
    for (size_t i = 0; i < all.size(); ++i) {
      all[i]->calls += stepCalls[3 * i];
      all[i]->groupBytes += stepCalls[3 * i + 1];
      all[i]->movedBytes += stepCalls[3 * i + 2];
    }
    counting = false;
    return;
  }
  std::fill(sent.begin(), sent.end(), 0);
  before = counts;
  counting = true;
}

void NcclComm::joinStreams() {
  if (!counting) {
    world.row(rank).enqueued.store(true);
    return;
  }
  flushAll();
  for (Lane &lane : lanes)
    if (lane.used)
      device.order(lane.stream, lane.join, device.computeStream());
  std::vector<CommCounters::Entry *> all = entries();
  std::vector<const CommCounters::Entry *> old;
  for (auto *list : {&before.collectives, &before.sends, &before.receives})
    for (const CommCounters::Entry &entry : *list)
      old.push_back(&entry);
  stepCalls.clear();
  for (size_t i = 0; i < all.size(); ++i) {
    stepCalls.push_back(all[i]->calls - old[i]->calls);
    stepCalls.push_back(all[i]->groupBytes - old[i]->groupBytes);
    stepCalls.push_back(all[i]->movedBytes - old[i]->movedBytes);
  }
  compareOrder();
  world.row(rank).enqueued.store(true);
}

std::unique_ptr<StreamComm>
kerf::rt::makeNcclComm(NcclWorld &world, int64_t rank, Device &device) {
  auto *gpu = dynamic_cast<CudaDeviceBase *>(&device);
  if (!gpu)
    throw Error(KERF_INTERNAL, cat("rank ", rank, " has no GPU"));
  return std::make_unique<NcclComm>(world, rank, *gpu);
}
