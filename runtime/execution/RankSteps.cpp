//===- RankSteps.cpp - a rank whose device is given whole steps -----------===//
//
// On a GPU a step is enqueued without waiting: inputs are first packed into
// pinned memory, everything is put on streams, outputs and the failure record
// are copied back into pinned memory. Only then the host waits, polling the
// streams and the communicators in turn, so that a lost peer is noticed. From
// the second step on nothing is enqueued: the device replays the step, and the
// host packs, launches, waits and unpacks.
//
//===----------------------------------------------------------------------===//
#include "Rank.h"

#include "../comm/nccl/StreamComm.h"
#include "../device/cuda/CudaDevice.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <sstream>
#include <thread>

using namespace kerf::rt;

static int64_t aligned(int64_t bytes) { return ceilDiv(bytes, 256) * 256; }

Rank::~Rank() {
  if (steps)
    steps->stop();
}

void Rank::reserveMemory() {
  int64_t parameterBytes = 0;
  for (const Parameter &p : manifest.parameters)
    if (p.heldBy(stageIndex))
      parameterBytes += aligned(numBytes(p.localShape, p.dtype));
  std::string detail =
      cat("arena ", stageDesc.arenaBytes, ", parameters ", parameterBytes);
  if (stageDesc.plannedBytes)
    detail += cat(", the plan's peak is ", stageDesc.plannedBytes);
  steps->reserve(aligned(stageDesc.arenaBytes) + parameterBytes, detail);
}

void Rank::prepareStaging() {
  for (Prepared &p : prepared)
    if (p.instruction->op == Instruction::Input ||
        (p.instruction->op == Instruction::Output && !p.skip)) {
      p.staging = steps->allocatePinned(p.slotBytes);
      // Padding of an input stays zero for ever.
      std::memset(p.staging->data, 0, static_cast<size_t>(p.slotBytes));
    }
}

// Each rank measures by itself, then all share their choices; where several
// ranks have the same key, the lowest rank's choice holds. No rank waits before
// it has measured, so stages may have different calls.
void Rank::shareChoices(const char *name) {
  auto *gpu = dynamic_cast<CudaDeviceBase *>(device.get());
  auto *streams = dynamic_cast<StreamComm *>(comm.get());
  if (!gpu || !streams || manifest.library.empty() ||
      manifest.mesh.numRanks() == 1)
    return;
  std::string mine;
  for (const MeasuredChoices *chooser : gpu->choosers())
    for (const auto &[key, bytes] : chooser->choices())
      mine += cat(key.size(), " ", bytes.size(), " ", key, bytes);
  std::map<std::string, std::string> common;
  constexpr double seconds = 600; // measuring and loading take their time
  for (const std::string &text : streams->gather(name, mine, seconds)) {
    std::istringstream in(text);
    for (size_t key = 0, bytes = 0; in >> key >> bytes;) {
      in.get();
      std::string name(key, 0), value(bytes, 0);
      in.read(name.data(), static_cast<std::streamsize>(key));
      in.read(value.data(), static_cast<std::streamsize>(bytes));
      common.insert({name, value}); // ranks come in order
    }
  }
  for (MeasuredChoices *chooser : gpu->choosers())
    chooser->adopt(common);
}

void Rank::enqueue(Prepared &p) {
  const Instruction &in = *p.instruction;
  awaitSends(p);
  context.microBatch = in.microBatch;
  switch (in.op) {
  case Instruction::Input:
    steps->enqueueUpload(p.staging->data, p.pointers[0], p.slotBytes);
    return;
  case Instruction::Output:
    if (!p.skip)
      steps->enqueueDownload(p.pointers[0], p.staging->data, p.slotBytes);
    return;
  case Instruction::Run:
    runFunction(p);
    return;
  case Instruction::Send:
    startSend(p);
    return;
  case Instruction::Recv:
    comm->receive(in.index, p.pointers[0], in.microBatch);
    return;
  case Instruction::Zero:
    device->zero(p.pointers[0], p.slotBytes);
    return;
  }
}

void Rank::enqueueStep() {
  static constexpr TraceEvent::Kind kinds[] = {
      TraceEvent::Input, TraceEvent::Run,    TraceEvent::Send,
      TraceEvent::Recv,  TraceEvent::Output, TraceEvent::Copy};
  auto is = [&](size_t i, Instruction::Op op) {
    return prepared[i].instruction->op == op;
  };
  size_t first = 0, end = prepared.size();
  while (first < end && is(first, Instruction::Input))
    ++first;
  while (end > first && is(end - 1, Instruction::Output))
    --end;
  auto markAt = [&](size_t i) {
    if (i == first)
      steps->mark(StepDevice::WorkBegins);
    if (i == end)
      steps->mark(StepDevice::WorkEnds);
  };
  for (size_t i = 0; i < prepared.size(); ++i) {
    markAt(i);
    position.store(static_cast<int64_t>(i), std::memory_order_relaxed);
    const Instruction &in = *prepared[i].instruction;
    TraceScope scope(context.trace, kinds[in.op], in.index, in.microBatch);
    int64_t begin = Trace::now();
    enqueue(prepared[i]);
    seconds[i] += static_cast<double>(Trace::now() - begin) * 1e-9;
  }
  markAt(prepared.size());
  finishSends();
}

// Progress of other ranks shows in the messages that arrive here, so the wait
// needs no deadline of its own: the communicators have one.
void Rank::awaitStep() {
  auto *streams = dynamic_cast<StreamComm *>(comm.get());
  for (int64_t spins = 0; !steps->stepEnded(); ++spins) {
    if (streams && spins % 64 == 63)
      streams->poll();
    if (spins > 2000)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  if (streams)
    streams->stepEnded();
}

void Rank::stepOnDevice(const StepIo &io) {
  auto *streams = dynamic_cast<StreamComm *>(comm.get());
  for (Prepared &p : prepared)
    if (p.instruction->op == Instruction::Input) {
      steps->hostAccess(p.staging->data, p.slotBytes, true);
      p.copy.run(io.inputs[p.instruction->index], p.staging->data);
    }
  bool begun = false;
  while (!begun) { // once more if the device cannot keep the step for replay
    bool enqueueNow = steps->beginStep();
    if (streams)
      streams->beginStep(enqueueNow);
    if (enqueueNow)
      enqueueStep();
    if (streams)
      streams->joinStreams();
    begun = steps->endStep();
    if (!begun && streams)
      streams->abandonStep();
  }
  position.store(static_cast<int64_t>(prepared.size()),
                 std::memory_order_relaxed);
  awaitStep();
  workSeconds.push_back(steps->workSeconds());
  steps->checkKernels();
  for (Prepared &p : prepared)
    if (p.instruction->op == Instruction::Output && !p.skip) {
      steps->hostAccess(p.staging->data, p.slotBytes, false);
      p.copy.run(p.staging->data, io.outputs[p.instruction->index]);
    }
  recordSplit();
}
