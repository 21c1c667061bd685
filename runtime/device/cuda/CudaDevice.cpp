//===- CudaDevice.cpp - a rank on a GPU -----------------------------------===//
//
// Everything of a step goes onto one compute stream (communication has its own,
// see comm/nccl). The first step is enqueued call by call, so that libraries
// can set themselves up; the second is captured into a CUDA graph while it is
// enqueued; later ones launch that graph. Addresses never change, so a graph
// stays valid. Invariant: from beginStep to stepEnded no call waits for the
// GPU.
//
//===----------------------------------------------------------------------===//
#include "CudaDeviceImpl.h"

#include "driver/Activity.h"
#include "driver/Nccl.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace kerf::rt;

// Only memory that NCCL allocated can become a symmetric window. If NCCL
// refuses, the driver allocates, and reports what is wrong.
bool CudaDevice::reserveFromNccl() {
  if (package.manifest.mesh.numRanks() == 1)
    return false;
  makeCurrent();
  void *place = nullptr;
  try {
    const Nccl &nccl = Nccl::get();
    poolOfNccl =
        nccl.wantsWindows() &&
        nccl.memAlloc(&place, static_cast<size_t>(poolBytes)) == nccl::Success;
  } catch (const Error &) {
    return false; // reported when ranks connect
  }
  if (poolOfNccl)
    pool = static_cast<char *>(place);
  return poolOfNccl;
}

void CudaDevice::freePool() {
  if (poolOfNccl)
    Nccl::get().memFree(pool);
  else if (pool)
    cuda.memFree(address(pool));
}

void *CudaDevice::deviceAllocate(int64_t bytes, const std::string &what) {
  makeCurrent();
  cu::DevicePtr place = 0;
  cu::Result result = cuda.memAlloc(&place, static_cast<size_t>(bytes));
  if (result == cu::ErrorOutOfMemory) {
    size_t free = 0, total = 0;
    cuda.memGetInfo(&free, &total);
    throw Error(KERF_OUT_OF_MEMORY,
                cat("out of memory on GPU ", choice.ordinal, " (", gpu().text(),
                    "): rank ", rank, " asks for ", bytes, " bytes (", what,
                    "), ", free, " of ", total, " bytes are free"));
  }
  cuda.check(result, "cuMemAlloc");
  return reinterpret_cast<void *>(place);
}

// Polls instead of blocking: a recording driver works only when it is called.
void CudaDevice::await(cu::Event event) const {
  for (int64_t spins = 0;; ++spins) {
    cu::Result result = cuda.eventQuery(event);
    if (result == cu::Success)
      return;
    if (result != cu::ErrorNotReady)
      cuda.check(result, cat("work on GPU ", choice.ordinal));
    if (spins > 1000)
      std::this_thread::yield();
  }
}

CudaDevice::Stage &CudaDevice::nextStage() {
  Stage &next = staging[stage ^= 1];
  if (!next.memory) {
    next.memory = allocatePinned(stageBytes);
    next.free = newEvent();
  }
  if (next.used)
    await(next.free);
  return next;
}

// Shard indices are stored by copies from here, which a graph can hold.
void CudaDevice::uploadNumbers() {
  int64_t max = 1;
  for (const AxisList &axes : package.manifest.shardIndices)
    max = std::max(max, Mesh::sizeOf(axes));
  std::vector<int64_t> values(static_cast<size_t>(max));
  for (int64_t i = 0; i < max; ++i)
    values[i] = i;
  numbers = ownAllocation(max * 8, "numbers");
  upload(values.data(), numbers->data, max * 8);
}

void CudaDevice::uploadBox(const BoxCopy &box, const void *src, void *dst) {
  makeCurrent();
  Stage *current = nullptr;
  int64_t filled = 0, begin = 0;
  auto flush = [&] {
    if (filled == 0)
      return;
    enqueueUpload(current->memory->data, static_cast<char *>(dst) + begin,
                  filled);
    cuda.check(cuda.eventRecord(current->free, compute), "cuEventRecord");
    current->used = true;
    current = nullptr;
    filled = 0;
  };
  box.forEachRun([&](int64_t from, int64_t to) {
    for (int64_t rest = box.runBytes; rest > 0;) {
      if (filled == stageBytes || (filled != 0 && to != begin + filled))
        flush();
      if (!current) {
        current = &nextStage();
        begin = to;
      }
      int64_t bytes = std::min(rest, stageBytes - filled);
      char *place = static_cast<char *>(current->memory->data) + filled;
      hostAccess(place, bytes, true);
      std::memcpy(place, static_cast<const char *>(src) + from,
                  static_cast<size_t>(bytes));
      filled += bytes;
      from += bytes;
      to += bytes;
      rest -= bytes;
    }
  });
  flush();
}

void CudaDevice::download(const void *src, void *dst, int64_t bytes) {
  makeCurrent();
  for (int64_t at = 0; at < bytes; at += stageBytes) {
    Stage &stage = nextStage();
    int64_t part = std::min(stageBytes, bytes - at);
    enqueueDownload(static_cast<const char *>(src) + at, stage.memory->data,
                    part);
    cuda.check(cuda.eventRecord(stage.free, compute), "cuEventRecord");
    stage.used = true;
    await(stage.free);
    hostAccess(stage.memory->data, part, false);
    std::memcpy(static_cast<char *>(dst) + at, stage.memory->data,
                static_cast<size_t>(part));
  }
}

bool CudaDevice::beginStep(bool counted) {
  makeCurrent();
  enqueuing = true;
  if (batches)
    batches->abandon();
  if (!counted)
    return true;
  ++step;
  if (tracing)
    GpuActivity::get().forget(choice.ordinal);
  if (graph) {
    enqueuing = false;
    return false;
  }
  launched.clear();
  if (step >= 2 && !decided)
    captureStep();
  return true;
}

// A rank that runs its graph while another still captures has kernels that wait
// for the other rank, whose driver may wait for kernels. So all ranks capture,
// or none, and no rank launches before all are ready.
bool CudaDevice::allCan(bool mine) {
  if (!agree || agree(mine))
    return mine;
  dropGraph();
  if (useGraph)
    noGraph("another rank cannot keep its step");
  return false;
}

void CudaDevice::captureStep() {
  decided = true;
  if (useGraph) {
    cu::Result result =
        cuda.streamBeginCapture(compute, cu::CaptureModeThreadLocal);
    capturing = result == cu::Success;
    if (!capturing)
      noGraph(cat("beginning: ", cuda.describe(result)));
  }
  allCan(capturing);
}

bool CudaDevice::endStep() {
  flushFor(compute);
  if (enqueuing)
    enqueueDownload(record->data, recordCopy->data, sizeof(FailureRecord));
  if (capturing && !keepGraph()) {
    checkRecording();
    return false;
  }
  if (graph)
    cuda.check(cuda.graphLaunch(graph, compute), "cuGraphLaunch");
  cuda.check(cuda.eventRecord(done, compute), "cuEventRecord");
  return true;
}

// Ends the capture, and waits until the device has the graph. The flag
// UseNodePriority is needed for the graph to keep the priorities of streams.
bool CudaDevice::keepGraph() {
  capturing = false;
  cu::Graph captured = nullptr;
  cu::GraphExec made = nullptr;
  const char *what = "capturing";
  cu::Result result = cuda.streamEndCapture(compute, &captured);
  if (result == cu::Success) {
    what = "instantiating";
    result =
        cuda.graphInstantiate(&made, captured, cu::InstantiateUseNodePriority);
  }
  if (captured)
    cuda.graphDestroy(captured);
  if (result == cu::Success) {
    graph = made;
    what = "uploading";
    result = cuda.graphUpload(graph, compute);
  }
  if (result == cu::Success)
    result = cuda.streamSynchronize(compute);
  if (result != cu::Success) {
    dropGraph();
    noGraph(cat(what, ": ", cuda.describe(result)));
  }
  return allCan(graph);
}

void CudaDevice::dropGraph() {
  cuda.contextSetCurrent(context);
  if (capturing) {
    cu::Graph captured = nullptr;
    cuda.streamEndCapture(compute, &captured);
    if (captured)
      cuda.graphDestroy(captured);
  }
  if (graph)
    cuda.graphExecDestroy(graph);
  capturing = false;
  graph = nullptr;
}

bool CudaDevice::stepEnded() {
  cu::Result result = cuda.eventQuery(done);
  if (result == cu::ErrorNotReady)
    return false;
  if (result != cu::Success) {
    checkRecording();
    throw Error(KERF_PROGRAM_FAILURE,
                cat("GPU ", choice.ordinal, " of rank ", rank,
                    " failed: ", cuda.describe(result)));
  }
  checkRecording();
  return true;
}

// An event that others wait for must be recorded as a node of the graph.
void CudaDevice::mark(Mark mark) {
  cuda.check(cuda.eventRecordWithFlags(marks[mark], computeStream(),
                                       capturing ? cu::EventRecordExternal : 0),
             "cuEventRecordWithFlags");
}

double CudaDevice::workSeconds() {
  float milliseconds = 0;
  cuda.check(
      cuda.eventElapsedTime(&milliseconds, marks[WorkBegins], marks[WorkEnds]),
      "cuEventElapsedTime");
  return milliseconds * 1e-3;
}

void CudaDevice::enableTrace() {
  try {
    GpuActivity::get();
    tracing = true;
  } catch (const Error &error) {
    messages.push_back(
        cat("the trace shows what the host does alone: ", error.message));
  }
}

// A stream works in order: the n-th run of a function belongs to its n-th
// launch.
std::vector<DeviceSpan> CudaDevice::spans() const {
  if (!tracing)
    return {};
  std::vector<DeviceSpan> spans = GpuActivity::get().spans(choice.ordinal);
  std::map<std::string, size_t> seen;
  for (DeviceSpan &span : spans)
    if (auto found = launched.find(span.name); found != launched.end())
      if (size_t n = seen[span.name]++; n < found->second.size())
        span.kernel = found->second[n];
  return spans;
}

void CudaDevice::checkRecording() const {
  const char *report =
      cuda.recording.report ? cuda.recording.report() : nullptr;
  if (report && *report)
    throw Error(KERF_INTERNAL, cat("the recording driver: ", report));
}

void CudaDevice::checkKernels() {
  hostAccess(recordCopy->data, sizeof(FailureRecord), false);
  FailureRecord copy;
  std::memcpy(&copy, recordCopy->data, sizeof(copy));
  if (copy.state == 0)
    return;
  const auto &kernels = package.manifest.kernels;
  std::string node =
      copy.kernel < kernels.size() ? kernels[copy.kernel].node : "";
  throw programFailure(static_cast<int32_t>(copy.code), copy.detail, rank,
                       node);
}

std::unique_ptr<CudaDeviceBase>
kerf::rt::makeCudaDevice(const Package &package, int64_t rank, int32_t threads,
                         std::shared_ptr<PackCache> packs) {
  return std::make_unique<CudaDevice>(package, rank, threads, std::move(packs));
}
