//===- Rank.cpp - one rank: load, then run the instruction list -----------===//
//
// See Rank.h. The order of loading keeps peak memory low: parts that only
// library calls need are loaded one by one, packed, and released.
//
//===----------------------------------------------------------------------===//
#include "Rank.h"

#include "../device/cuda/CudaDevice.h"

#include <algorithm>
#include <cstring>

using namespace kerf::rt;

Rank::Rank(std::shared_ptr<const Package> opened, int64_t rankIndex,
           int32_t threads, World &world, ParameterStore &store,
           std::shared_ptr<PackCache> packCache, const StepIo &io, bool trace)
    : package(std::move(opened)), manifest(package->manifest), rank(rankIndex),
      stageIndex(manifest.mesh.stageOf(rank)),
      stageDesc(manifest.stages[stageIndex]) {
  if (manifest.cuda.used) {
    auto gpu = makeCudaDevice(*package, rank, threads, std::move(packCache));
    steps = gpu.get();
    device = std::move(gpu);
    if (trace)
      steps->enableTrace();
    reserveMemory();
  } else {
    device = makeCpuDevice(rank, threads, std::move(packCache));
  }
  comm = world.joinOn(rank, *device);
  try {
    load(store, io, trace);
  } catch (const Error &error) {
    if (steps) // communicators of a failed world are aborted, not destroyed
      world.fail(error);
    throw;
  }
}

void Rank::load(ParameterStore &store, const StepIo &io, bool trace) {
  context.manifest = &manifest;
  context.device = device.get();
  context.comm = comm.get();
  context.rank = rank;
  if (trace)
    context.trace.enable(1 << 16);
  context.library.resize(manifest.library.size());
  loadParameters(store);
  prepareLibrary(store);
  shareChoices("choices-0");
  computeDerived(store);
  prepareLibrary(store); // those that pack derived parameters
  shareChoices("choices-1");
  for (size_t i = 0; i < parts.size(); ++i) {
    const Parameter &p = manifest.parameters[i];
    bool keep = !p.libraryOnly && !p.initOnly;
    params.push_back(keep ? const_cast<void *>(parts[i].data) : nullptr);
    if (keep && parts[i].owner)
      owners.push_back(parts[i].owner);
    if (keep && p.isMutable && parts[i].owner)
      own[p.name] = std::static_pointer_cast<DeviceMemory>(parts[i].owner);
  }
  parts.clear();
  arena = device->allocate(stageDesc.arenaBytes, "the arena");
  prepareInstructions(io);
  if (steps)
    prepareStaging();
  findAwaitedSends();
  seconds.resize(stageDesc.instructions.size());
  stepSplits.reserve(kMaxSplits);
  first.collectives.resize(counters().collectives.size());
  first.sends.resize(counters().sends.size());
  first.receives.resize(counters().receives.size());
  first.instructions.resize(seconds.size());
}

void Rank::loadParameters(ParameterStore &store) {
  parts.resize(manifest.parameters.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const Parameter &p = manifest.parameters[i];
    if (!p.heldBy(stageIndex))
      continue;
    if (!p.initOnly)
      heldBytes += numBytes(p.localShape, p.dtype);
    auto index = static_cast<int64_t>(i);
    if (p.source != Parameter::Derived && !isPacked(index))
      parts[i] = store.get(index, rank, *device);
  }
}

bool Rank::isPacked(int64_t parameter) const {
  const Parameter &p = manifest.parameters[parameter];
  return p.libraryOnly && p.source != Parameter::Derived &&
         p.heldBy(stageIndex);
}

// Ranks that hold the same parts at the same indices derive the same values:
// one of them computes for all.
void Rank::computeDerived(ParameterStore &store) {
  if (stageDesc.init.empty())
    return;
  std::string signature = cat("stage ", stageIndex);
  for (size_t i = 0; i < parts.size(); ++i)
    if (!manifest.parameters[i].isMutable) // nothing is derived from those
      signature += "|" + parts[i].key;
  for (const AxisList &axes : manifest.shardIndices)
    signature += cat("#", manifest.mesh.position(rank, axes));
  // Memory of a GPU belongs to one rank.
  ParameterStore::Derived derived =
      steps ? runInit() : store.derived(signature, [&] { return runInit(); });
  for (auto &[index, memory] : derived) {
    ParameterView &part = parts[index];
    part.data = memory->data;
    part.elements = numElements(manifest.parameters[index].localShape);
    part.key = cat("derived ", index, " of ", signature);
    part.owner = memory;
  }
  for (size_t i = 0; i < parts.size(); ++i)
    if (device->onHost() && manifest.parameters[i].initOnly && parts[i].data) {
      store.forget(static_cast<int64_t>(i));
      parts[i] = {};
    }
}

ParameterStore::Derived Rank::runInit() {
  ParameterStore::Derived derived;
  std::vector<void *> all;
  for (const ParameterView &part : parts)
    all.push_back(const_cast<void *>(part.data));
  int64_t scratchBytes = 0;
  for (const InitCall &call : stageDesc.init)
    scratchBytes =
        std::max(scratchBytes, manifest.functions[call.function].scratchBytes);
  auto scratch = device->allocateTemporary(scratchBytes, "init scratch");
  if (steps)
    steps->beginStep(/*counted=*/false);
  for (const InitCall &call : stageDesc.init) {
    std::vector<void *> ios;
    for (int64_t index : call.parameters) {
      const Parameter &p = manifest.parameters[index];
      std::shared_ptr<DeviceMemory> memory = device->allocate(
          numBytes(p.localShape, p.dtype), ("parameter " + p.name).c_str());
      derived[index] = memory;
      all[index] = memory->data;
      ios.push_back(memory->data);
    }
    context.run(package->functions[call.function],
                manifest.functions[call.function].symbol.c_str(), all.data(),
                ios.data(), scratch->data);
  }
  if (steps) {
    steps->endStep();
    awaitStep();
    steps->checkKernels();
  }
  return derived;
}

void Rank::prepareLibrary(ParameterStore &store) {
  std::vector<size_t> lastUse(parts.size());
  for (size_t i = 0; i < manifest.library.size(); ++i)
    for (const Operand *operand : manifest.library[i].operands())
      if (operand->kind == Operand::Param)
        lastUse[operand->index] = i;
  for (size_t i = 0; i < manifest.library.size(); ++i) {
    const LibraryDesc &desc = manifest.library[i];
    std::vector<int64_t> read;
    for (const Operand *operand : desc.operands())
      if (operand->kind == Operand::Param)
        read.push_back(operand->index);
    bool ready = std::all_of(read.begin(), read.end(), [&](int64_t index) {
      return parts[index].data || isPacked(index);
    });
    if (!ready || context.library[i]) // of another stage, or derived later
      continue;
    for (int64_t index : read)
      if (!parts[index].data)
        parts[index] = store.get(index, rank, *device);
    context.library[i] = device->prepare(desc, static_cast<int64_t>(i),
                                         [&](int64_t p) { return parts[p]; });
    libraryScratchBytes =
        std::max(libraryScratchBytes, context.library[i]->scratchBytes());
    for (int64_t index : read) {
      store.forget(index);
      if (device->onHost() && lastUse[index] == i &&
          manifest.parameters[index].libraryOnly)
        parts[index] = {};
    }
  }
  libraryScratch = device->allocate(libraryScratchBytes, "library scratch");
  context.libraryScratch = libraryScratch->data;
}

void Rank::prepareInput(Prepared &p, const GlobalTensor &tensor) {
  const Shape &local = p.instruction->localShape;
  Part part = partOf(manifest.mesh, p.instruction->sharding, tensor.globalShape,
                     rank, p.instruction->microBatch);
  p.copy = makeBoxCopy(tensor.globalShape, part.starts, local,
                       Shape(part.starts.size(), 0), part.sizes,
                       dtypeSize(tensor.dtype));
  p.slotBytes = numBytes(local, tensor.dtype);
  p.zeroFirst = part.sizes != local;
}

void Rank::prepareOutput(Prepared &p, const GlobalTensor &tensor) {
  auto partOfRank = [&](int64_t r) {
    return partOf(manifest.mesh, tensor.sharding, tensor.globalShape, r,
                  p.instruction->microBatch);
  };
  Part part = partOfRank(rank);
  p.copy = makeBoxCopy(tensor.localShape, Shape(part.starts.size(), 0),
                       tensor.globalShape, part.starts, part.sizes,
                       dtypeSize(tensor.dtype));
  p.slotBytes = numBytes(tensor.localShape, tensor.dtype);
  for (int64_t r = 0; r < rank && !p.skip; ++r)
    if (manifest.mesh.stageOf(r) == stageIndex) {
      Part other = partOfRank(r);
      p.skip = other.starts == part.starts && other.sizes == part.sizes;
    }
}

// The most bytes that any instruction reads or writes in a slot.
int64_t Rank::bytesUsed(int64_t slot) const {
  int64_t bytes = 0;
  for (const Prepared &p : prepared) {
    const Instruction &in = *p.instruction;
    for (size_t i = 0; i < in.slots.size(); ++i)
      if (in.slots[i] == slot)
        bytes = std::max(
            bytes, in.op == Instruction::Run
                       ? manifest.functions[in.index].ios[i].bytes()
                   : in.op == Instruction::Send || in.op == Instruction::Recv
                       ? manifest.channels[in.index].bytes()
                       : p.slotBytes);
  }
  return bytes;
}

// An output slot that is stored once, as one aligned run, can be placed
// directly in the output: instructions write there, and storing does nothing.
// No other code sees the slot in the arena, since every access goes through its
// number.
std::vector<char *> Rank::placeSlots(const StepIo &io) {
  std::vector<char *> places;
  for (const Slot &slot : stageDesc.slots)
    places.push_back(static_cast<char *>(arena->data) + slot.offset);
  for (const Prepared &p : prepared) {
    const Instruction &in = *p.instruction;
    if (steps || in.op != Instruction::Output || p.skip ||
        !p.copy.loops.empty())
      continue;
    auto stores = [&](const Prepared &other) {
      return other.instruction->op == Instruction::Output &&
             other.instruction->slots[0] == in.slots[0];
    };
    if (std::count_if(prepared.begin(), prepared.end(), stores) == 1 &&
        p.copy.runBytes == p.slotBytes && p.slotBytes != 0 &&
        p.copy.dstOffset % KERF_BUFFER_ALIGNMENT == 0 &&
        bytesUsed(in.slots[0]) == p.slotBytes)
      places[in.slots[0]] = io.outputs[in.index] + p.copy.dstOffset;
  }
  return places;
}

void Rank::prepareInstructions(const StepIo &io) {
  for (const Instruction &in : stageDesc.instructions) {
    Prepared p;
    p.instruction = &in;
    if (in.op == Instruction::Input)
      prepareInput(p, manifest.inputs[in.index]);
    if (in.op == Instruction::Output)
      prepareOutput(p, manifest.outputs[in.index]);
    if (in.op == Instruction::Zero)
      p.slotBytes = stageDesc.slots[in.slots[0]].bytes;
    if (in.op == Instruction::Send) {
      p.sendOrdinal = sends.size();
      sends.push_back({in.index, -1, false});
    }
    prepared.push_back(std::move(p));
  }
  std::vector<char *> places = placeSlots(io);
  for (Prepared &p : prepared)
    for (int64_t slot : p.instruction->slots)
      p.pointers.push_back(places[slot]);
}

void Rank::findAwaitedSends() {
  struct Range {
    int64_t begin, end;
    bool overlaps(const Range &other) const {
      return begin < other.end && other.begin < end;
    }
  };
  struct Open {
    size_t ordinal;
    Range range;
  };
  std::vector<Open> open;
  auto slotRange = [&](int64_t slot, int64_t bytes) {
    int64_t offset = stageDesc.slots[slot].offset;
    return Range{offset, offset + bytes};
  };
  for (Prepared &p : prepared) {
    const Instruction &in = *p.instruction;
    std::vector<Range> writes;
    if (in.op == Instruction::Send) {
      open.push_back(
          {p.sendOrdinal,
           slotRange(in.slots[0], manifest.channels[in.index].bytes())});
    } else if (in.op == Instruction::Input || in.op == Instruction::Zero) {
      writes.push_back(slotRange(in.slots[0], p.slotBytes));
    } else if (in.op == Instruction::Recv) {
      writes.push_back(
          slotRange(in.slots[0], manifest.channels[in.index].bytes()));
    } else if (in.op == Instruction::Run) {
      const FunctionDesc &f = manifest.functions[in.index];
      for (size_t i = f.numArguments; i < f.ios.size(); ++i)
        writes.push_back(slotRange(in.slots[i], f.ios[i].bytes()));
      writes.push_back(
          {stageDesc.scratchOffset, stageDesc.scratchOffset + f.scratchBytes});
    }
    for (const Range &write : writes)
      open.erase(std::remove_if(open.begin(), open.end(),
                                [&](const Open &o) {
                                  if (!o.range.overlaps(write))
                                    return false;
                                  p.awaitedSends.push_back(o.ordinal);
                                  return true;
                                }),
                 open.end());
  }
}

void Rank::awaitSends(const Prepared &p) {
  int64_t begin = Trace::now();
  for (size_t ordinal : p.awaitedSends)
    if (sends[ordinal].open) {
      comm->finishSend(sends[ordinal].channel, sends[ordinal].number);
      sends[ordinal].open = false;
    }
  sendWaits += static_cast<double>(Trace::now() - begin) * 1e-9;
}

void Rank::finishSends() {
  int64_t begin = Trace::now();
  for (SendState &send : sends)
    if (send.open) {
      comm->finishSend(send.channel, send.number);
      send.open = false;
    }
  sendWaits += static_cast<double>(Trace::now() - begin) * 1e-9;
}

void Rank::readParameter(int64_t index, void *data) const {
  const Parameter &p = manifest.parameters[index];
  device->download(params[index], data, numBytes(p.localShape, p.dtype));
}

void Rank::writeParameter(int64_t index, const void *data) {
  const Parameter &p = manifest.parameters[index];
  device->upload(data, params[index], numBytes(p.localShape, p.dtype));
}

void Rank::runFunction(const Prepared &p) {
  int64_t index = p.instruction->index;
  context.run(package->functions[index],
              manifest.functions[index].symbol.c_str(), params.data(),
              p.pointers.data(),
              static_cast<char *>(arena->data) + stageDesc.scratchOffset);
}

void Rank::startSend(const Prepared &p) {
  const Instruction &in = *p.instruction;
  SendState &send = sends[p.sendOrdinal];
  send.number = comm->send(in.index, p.pointers[0], in.microBatch);
  send.open = true;
}

void Rank::execute(Prepared &p, const StepIo &io) {
  const Instruction &in = *p.instruction;
  context.microBatch = in.microBatch;
  switch (in.op) {
  case Instruction::Input: {
    TraceScope scope(context.trace, TraceEvent::Input, in.index, in.microBatch);
    if (p.zeroFirst)
      std::memset(p.pointers[0], 0, static_cast<size_t>(p.slotBytes));
    p.copy.run(io.inputs[in.index], p.pointers[0]);
    return;
  }
  case Instruction::Output: {
    TraceScope scope(context.trace, TraceEvent::Output, in.index,
                     in.microBatch);
    if (!p.skip && p.pointers[0] != io.outputs[in.index] +
                                        p.copy.dstOffset) // see placeSlots
      p.copy.run(p.pointers[0], io.outputs[in.index]);
    return;
  }
  case Instruction::Run: {
    TraceScope scope(context.trace, TraceEvent::Run, in.index, in.microBatch);
    runFunction(p);
    return;
  }
  case Instruction::Send: {
    TraceScope scope(context.trace, TraceEvent::Send, in.index, in.microBatch);
    startSend(p);
    return;
  }
  case Instruction::Recv: {
    TraceScope scope(context.trace, TraceEvent::Recv, in.index, in.microBatch);
    comm->receive(in.index, p.pointers[0], in.microBatch);
    return;
  }
  case Instruction::Zero:
    device->zero(p.pointers[0], p.slotBytes);
    return;
  }
}

void Rank::step(const StepIo &io) {
  context.trace.clear();
  if (steps)
    return stepOnDevice(io);
  for (size_t i = 0; i < prepared.size(); ++i) {
    position.store(static_cast<int64_t>(i), std::memory_order_relaxed);
    if (!prepared[i].awaitedSends.empty())
      awaitSends(prepared[i]);
    int64_t begin = Trace::now();
    execute(prepared[i], io);
    seconds[i] += static_cast<double>(Trace::now() - begin) * 1e-9;
  }
  position.store(static_cast<int64_t>(prepared.size()),
                 std::memory_order_relaxed);
  finishSends();
  recordSplit();
}

/// What this step added to the sums of seconds.
void Rank::recordSplit() {
  double functions = 0, collectives = 0, channels = sendWaits;
  for (size_t i = 0; i < prepared.size(); ++i) {
    Instruction::Op op = prepared[i].instruction->op;
    if (op == Instruction::Run)
      functions += seconds[i];
    else if (op == Instruction::Send || op == Instruction::Recv)
      channels += seconds[i];
  }
  for (const CommCounters::Entry &entry : counters().collectives)
    collectives += entry.seconds;
  // Collectives run inside functions, transfers between them. The counters know
  // how long transfers were under way: this rank computes meanwhile.
  StepSplit sums = {functions - collectives, collectives + channels};
  StepSplit split = {sums.compute - splitSums.compute,
                     sums.communication - splitSums.communication};
  splitSums = sums;
  if (splitSteps++ == 0) {
    auto keep = [](std::vector<double> &to,
                   const std::vector<CommCounters::Entry> &from) {
      for (size_t i = 0; i < to.size(); ++i)
        to[i] = from[i].seconds;
    };
    keep(first.collectives, counters().collectives);
    keep(first.sends, counters().sends);
    keep(first.receives, counters().receives);
    std::copy(seconds.begin(), seconds.end(), first.instructions.begin());
  }
  // A step allocates nothing: of a long run the last steps are kept.
  if (stepSplits.size() < kMaxSplits)
    stepSplits.push_back(split);
  else
    stepSplits[nextSplit++ % kMaxSplits] = split;
}
