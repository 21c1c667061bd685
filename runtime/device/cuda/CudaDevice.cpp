//===- CudaDevice.cpp - a rank on a GPU -----------------------------------===//
//
// Everything of a step goes onto one compute stream (communication has its own,
// see comm/nccl). The first step is enqueued call by call, so that libraries
// can set themselves up; the second is captured into a CUDA graph as it is
// enqueued; later ones launch that graph. Addresses never change, so a graph
// stays valid. Invariant: from beginStep to stepEnded no call waits for the
// GPU.
//
//===----------------------------------------------------------------------===//
#include "CudaDevice.h"

#include "Answers.h"
#include "Copies.h"
#include "GpuCalls.h"
#include "KernelCall.h"
#include "Module.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace kerf::rt;

static cu::DevicePtr address(const void *pointer) {
  return reinterpret_cast<cu::DevicePtr>(pointer);
}

static int64_t aligned(int64_t bytes) { return ceilDiv(bytes, 256) * 256; }

namespace {

/// A part of the device's one allocation, or an allocation of its own.
class GpuMemory : public DeviceMemory {
public:
  GpuMemory(void *place, int64_t size) {
    data = place;
    bytes = size;
  }
  ~GpuMemory() override {
    if (release)
      release(data);
  }
  std::function<void(void *)> release; ///< empty: not owned
};

class CudaDevice : public CudaDeviceBase {
public:
  CudaDevice(const Package &package, int64_t rank, int32_t threads,
             std::shared_ptr<PackCache> packs)
      : cuda(Driver::get()), package(package), rank(rank) {
    auto [local, count] = localRank(rank, package.manifest.mesh.numRanks());
    choice = chooseGpu(cuda, rank, local, count);
    cu::Device device = 0;
    cuda.check(cuda.deviceGet(&device, choice.ordinal), "cuDeviceGet");
    cuda.check(cuda.primaryContextRetain(&context, device),
               cat("GPU ", choice.ordinal, " for rank ", rank));
    handle = device;
    makeCurrent();
    compute = newStream("compute");
    done = newEvent();
    module = std::make_unique<CudaModule>(cuda, package, gpu());
    messages = module->notes();
    if (choice.shared)
      messages.push_back(cat("GPU ", choice.ordinal,
                             " is shared by several ranks: for testing only"));
    if (cuda.isRecording())
      cpu = makeCpuDevice(rank, threads, std::move(packs));
    const char *graphs = std::getenv("KERF_CUDA_GRAPH");
    useGraph = !graphs || std::string(graphs) != "0";
    record = ownAllocation(sizeof(FailureRecord), "the failure record");
    zero(record->data, sizeof(FailureRecord));
    uploadNumbers();
    recordCopy = allocatePinned(sizeof(FailureRecord));
    std::memset(recordCopy->data, 0, sizeof(FailureRecord));
  }

  ~CudaDevice() override {
    stop();
    calls.reset();
    if (graph)
      cuda.graphExecDestroy(graph);
    module.reset();
    record.reset();
    numbers.reset();
    recordCopy.reset();
    for (Stage &stage : staging)
      stage.memory.reset();
    for (cu::Event event : events)
      cuda.eventDestroy(event);
    if (pool)
      cuda.memFree(address(pool));
    cuda.primaryContextRelease(handle);
  }

  // Memory.

  void reserve(int64_t bytes, const std::string &detail) override {
    poolBytes = std::max<int64_t>(bytes, 256);
    pool = static_cast<char *>(deviceAllocate(poolBytes, detail));
  }
  std::pair<void *, int64_t> reserved() const override {
    return {pool, poolBytes};
  }

  std::unique_ptr<DeviceMemory> allocate(int64_t bytes,
                                         const char *what) override {
    if (poolUsed + aligned(bytes) > poolBytes)
      return allocateTemporary(bytes, what);
    auto memory = std::make_unique<GpuMemory>(pool + poolUsed, bytes);
    poolUsed += aligned(bytes);
    zero(memory->data, bytes);
    return memory;
  }

  std::unique_ptr<DeviceMemory> allocateTemporary(int64_t bytes,
                                                  const char *what) override {
    auto memory = ownAllocation(bytes, what);
    zero(memory->data, bytes);
    return memory;
  }

  std::unique_ptr<DeviceMemory> allocatePinned(int64_t bytes) override {
    void *data = nullptr;
    makeCurrent();
    cu::Result result = cuda.memAllocHost(
        &data, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
    if (result != cu::Success)
      throw Error(KERF_OUT_OF_MEMORY,
                  cat("out of pinned host memory: ", bytes, " bytes for rank ",
                      rank, ": ", cuda.describe(result)));
    auto memory = std::make_unique<GpuMemory>(data, bytes);
    memory->release = [this](void *data) { cuda.memFreeHost(data); };
    return memory;
  }

  // Copies.

  void copy(const void *src, void *dst, int64_t bytes) override {
    if (bytes > 0)
      cuda.check(cuda.memcpyDtoDAsync(address(dst), address(src),
                                      static_cast<size_t>(bytes), compute),
                 "a copy");
  }
  void zero(void *data, int64_t bytes) override {
    zeroOn(data, bytes, compute);
  }
  void storeNumber(int64_t value, void *dst) override {
    if (value < 0 || value * 8 >= numbers->bytes)
      throw Error(KERF_INTERNAL, cat("no number ", value, " on the GPU"));
    copy(static_cast<char *>(numbers->data) + value * 8, dst, 8);
  }
  void zeroOn(void *data, int64_t bytes, cu::Stream stream) const override {
    if (bytes > 0)
      cuda.check(cuda.memsetD8Async(address(data), 0,
                                    static_cast<size_t>(bytes), stream),
                 "zeros");
  }
  void copyBox(const BoxCopy &box, const void *src, void *dst,
               cu::Stream stream) const override {
    copyBoxOn(cuda, box, src, dst, stream);
  }
  void enqueueUpload(const void *pinned, void *dst, int64_t bytes) override {
    if (bytes > 0)
      cuda.check(cuda.memcpyHtoDAsync(address(dst), pinned,
                                      static_cast<size_t>(bytes), compute),
                 "a copy to the GPU");
  }
  void enqueueDownload(const void *src, void *pinned, int64_t bytes) override {
    if (bytes > 0)
      cuda.check(cuda.memcpyDtoHAsync(pinned, address(src),
                                      static_cast<size_t>(bytes), compute),
                 "a copy from the GPU");
  }
  void hostAccess(const void *pinned, int64_t bytes, bool writes) override {
    if (cuda.recording.hostAccess)
      cuda.recording.hostAccess(pinned, bytes, writes);
  }
  void upload(const void *src, void *dst, int64_t bytes) override {
    BoxCopy box;
    box.runBytes = bytes;
    uploadBox(box, src, dst);
  }
  void uploadBox(const BoxCopy &box, const void *src, void *dst) override;
  void download(const void *src, void *dst, int64_t bytes) override;

  // Work.

  void launch(kerf_kernel_t, void *const *, const int64_t *, int64_t,
              int64_t) override {
    throw Error(KERF_BAD_PACKAGE, "a kernel without an entry in the manifest");
  }
  void launchKernel(int32_t index, kerf_kernel_t kernel, void *const *buffers,
                    int32_t numBuffers, const int64_t *scalars, int64_t count,
                    int64_t grain) override;
  std::unique_ptr<LibraryCall>
  prepare(const LibraryDesc &desc, int64_t index,
          const std::function<ParameterView(int64_t)> &parameter) override;

  // Steps.

  bool beginStep(bool counted) override;
  bool endStep() override;
  bool stepEnded() override;
  void checkKernels() override;

  void stop() override {
    cuda.contextSetCurrent(context);
    for (cu::Stream stream : streams)
      cuda.streamDestroy(stream);
    streams.clear();
  }

  std::vector<std::string> notes() const override { return messages; }
  std::vector<std::string> facts() const override {
    std::vector<std::string> all = {
        cat("rank ", rank, " runs on GPU ", choice.ordinal, ", ", gpu().text(),
            ", CUDA ", cuda.version / 1000, ".", cuda.version % 1000 / 10)};
    if (calls)
      for (const std::string &fact : calls->facts())
        all.push_back(fact);
    return all;
  }

  // Streams.

  const Driver &driver() const override { return cuda; }
  cu::Stream computeStream() const override { return compute; }
  void makeCurrent() const override {
    cuda.check(cuda.contextSetCurrent(context), "cuCtxSetCurrent");
  }
  cu::Stream newStream(const std::string &name) override {
    cu::Stream stream = nullptr;
    makeCurrent();
    cuda.check(cuda.streamCreateWithPriority(&stream, cu::StreamNonBlocking,
                                             name == "compute" ? 0 : -1),
               "a stream");
    streams.push_back(stream);
    if (cuda.recording.nameStream)
      cuda.recording.nameStream(stream, cat("rank", rank, ".", name).c_str());
    return stream;
  }
  cu::Event newEvent() override {
    cu::Event event = nullptr;
    cuda.check(cuda.eventCreate(&event, cu::EventDisableTiming), "an event");
    events.push_back(event);
    return event;
  }
  void order(cu::Stream from, cu::Event event, cu::Stream to) const override {
    cuda.check(cuda.eventRecord(event, from), "cuEventRecord");
    cuda.check(cuda.streamWaitEvent(to, event, 0), "cuStreamWaitEvent");
  }
  int64_t gpuOrdinal() const override { return choice.ordinal; }
  std::string gpuName() const override { return gpu().text(); }

private:
  /// A piece of pinned memory through which parameters go to the GPU.
  struct Stage {
    std::unique_ptr<DeviceMemory> memory;
    cu::Event free = nullptr;
    bool used = false;
  };
  static constexpr int64_t stageBytes = 8 << 20;

  void launchFunction(cu::Function function, const CudaKernel &kernel,
                      void **arguments, const std::string &node);
  const GpuInfo &gpu() const { return cuda.gpus[choice.ordinal]; }
  void *deviceAllocate(int64_t bytes, const std::string &what);
  std::unique_ptr<GpuMemory> ownAllocation(int64_t bytes, const char *what) {
    auto memory = std::make_unique<GpuMemory>(
        deviceAllocate(std::max<int64_t>(bytes, 1), what), bytes);
    memory->release = [this](void *data) {
      cuda.contextSetCurrent(context);
      cuda.memFree(address(data));
    };
    return memory;
  }
  void noGraph(const char *what, cu::Result result) {
    useGraph = false;
    messages.push_back(cat("no CUDA graph of the step (", what, ": ",
                           cuda.describe(result),
                           "): every step is enqueued call by call"));
  }
  Stage &nextStage();
  void uploadNumbers();
  void await(cu::Event event) const;
  void checkRecording() const;

  const Driver &cuda;
  const Package &package;
  int64_t rank;
  GpuChoice choice;
  cu::Device handle = 0;
  cu::Context context = nullptr;
  cu::Stream compute = nullptr;
  cu::Event done = nullptr;
  std::vector<cu::Stream> streams;
  std::vector<cu::Event> events;
  std::unique_ptr<CudaModule> module;
  std::unique_ptr<GpuCalls> calls; ///< cuBLASLt and cuDNN, on first use
  std::unique_ptr<Device> cpu;     ///< answers for a recording driver
  char *pool = nullptr;
  int64_t poolBytes = 0, poolUsed = 0;
  std::unique_ptr<GpuMemory> record;
  std::unique_ptr<GpuMemory> numbers; ///< 0, 1, 2, ...
  std::unique_ptr<DeviceMemory> recordCopy;
  Stage staging[2];
  int stage = 0;
  std::vector<std::string> messages;

  bool useGraph = true, enqueuing = false, capturing = false;
  int64_t step = 0;
  cu::GraphExec graph = nullptr;
};

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

// Polling, not blocking: a recording driver works when it is asked.
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
  int64_t most = 1;
  for (const AxisList &axes : package.manifest.shardIndices)
    most = std::max(most, Mesh::sizeOf(axes));
  std::vector<int64_t> values(static_cast<size_t>(most));
  for (int64_t i = 0; i < most; ++i)
    values[i] = i;
  numbers = ownAllocation(most * 8, "numbers");
  upload(values.data(), numbers->data, most * 8);
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

void CudaDevice::launchKernel(int32_t index, kerf_kernel_t kernel,
                              void *const *buffers, int32_t numBuffers,
                              const int64_t *scalars, int64_t count, int64_t) {
  const auto &kernels = package.manifest.kernels;
  if (index < 0 || static_cast<size_t>(index) >= kernels.size() ||
      !module->function(index))
    throw Error(KERF_BAD_PACKAGE,
                cat("kernel ", index, " has no GPU form in the manifest"));
  const CudaKernel &k = kernels[index].cuda;
  if (numBuffers < k.buffers)
    throw Error(KERF_BAD_PACKAGE,
                cat("kernel ", k.entry, " takes ", k.buffers,
                    " buffers, it is launched with ", numBuffers),
                kernels[index].node);
  if (k.grid[0] == 0 || k.grid[1] == 0 || k.grid[2] == 0)
    return; // nothing to do
  void *recordPointer = record->data;
  std::vector<void *> arguments;
  arguments.reserve(static_cast<size_t>(k.buffers + k.scalars + 1));
  for (int64_t i = 0; i < k.buffers; ++i)
    arguments.push_back(const_cast<void **>(&buffers[i]));
  for (int64_t i = 0; i < k.scalars; ++i)
    arguments.push_back(const_cast<int64_t *>(&scalars[i]));
  if (k.fails)
    arguments.push_back(&recordPointer);
  if (cuda.recording.bind)
    bindHostKernel(cuda, kernels[index], index, kernel, buffers, numBuffers,
                   scalars, count, static_cast<FailureRecord *>(recordPointer));
  launchFunction(module->function(index), k, arguments.data(),
                 kernels[index].node);
}

void CudaDevice::launchFunction(cu::Function function, const CudaKernel &k,
                                void **arguments, const std::string &node) {
  auto u = [](int64_t v) { return static_cast<unsigned>(v); };
  cu::Result result =
      cuda.launchKernel(function, u(k.grid[0]), u(k.grid[1]), u(k.grid[2]),
                        u(k.block[0]), u(k.block[1]), u(k.block[2]),
                        u(k.sharedBytes), compute, arguments, nullptr);
  if (result != cu::Success)
    throw Error(KERF_PROGRAM_FAILURE,
                cat("launch of ", k.entry, " failed: ", cuda.describe(result)),
                node);
}

std::unique_ptr<LibraryCall>
CudaDevice::prepare(const LibraryDesc &desc, int64_t index,
                    const std::function<ParameterView(int64_t)> &parameter) {
  if (cpu) {
    // The CPU's library may pack parameters now: they must have arrived.
    cu::Event arrived = newEvent();
    cuda.check(cuda.eventRecord(arrived, compute), "cuEventRecord");
    await(arrived);
    return makeAnsweredCall(cuda, compute, *cpu, desc, index, parameter);
  }
  bool hasKernel = !desc.cuda.entry.empty();
  auto kernelCall = [&] {
    cu::Function function = module->call(index);
    return std::make_unique<KernelCall>(
        desc, [this, function, node = desc.node](const CudaKernel &kernel,
                                                 void **arguments) {
          launchFunction(function, kernel, arguments, node);
        });
  };
  if (hasKernel && !desc.isAttention())
    return kernelCall();
  try {
    if (!calls)
      calls = makeGpuCalls(*this, package.manifest.precision);
    return calls->prepare(desc, parameter);
  } catch (Error &error) {
    if (hasKernel) {
      std::string note =
          cat("no fused attention on this GPU (", error.message,
              "): the package's own kernels are used, which are slow");
      if (std::find(messages.begin(), messages.end(), note) == messages.end())
        messages.push_back(note);
      return kernelCall();
    }
    error.message = cat("library[", index, "]: ", error.message);
    error.node = desc.node;
    throw;
  }
}

bool CudaDevice::beginStep(bool counted) {
  makeCurrent();
  enqueuing = true;
  if (!counted)
    return true;
  ++step;
  if (graph) {
    enqueuing = false;
    return false;
  }
  if (useGraph && step >= 2) {
    cu::Result result =
        cuda.streamBeginCapture(compute, cu::CaptureModeThreadLocal);
    capturing = result == cu::Success;
    if (!capturing)
      noGraph("beginning", result);
  }
  return true;
}

bool CudaDevice::endStep() {
  if (enqueuing)
    enqueueDownload(record->data, recordCopy->data, sizeof(FailureRecord));
  if (capturing) {
    capturing = false;
    cu::Graph captured = nullptr;
    cu::Result result = cuda.streamEndCapture(compute, &captured);
    const char *what = "capturing";
    if (result == cu::Success) {
      what = "instantiating";
      result = cuda.graphInstantiate(&graph, captured, 0);
    }
    if (captured)
      cuda.graphDestroy(captured);
    if (result != cu::Success) {
      graph = nullptr;
      noGraph(what, result);
      checkRecording();
      return false;
    }
  }
  if (graph)
    cuda.check(cuda.graphLaunch(graph, compute), "cuGraphLaunch");
  cuda.check(cuda.eventRecord(done, compute), "cuEventRecord");
  return true;
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

} // namespace

std::unique_ptr<CudaDeviceBase>
kerf::rt::makeCudaDevice(const Package &package, int64_t rank, int32_t threads,
                         std::shared_ptr<PackCache> packs) {
  return std::make_unique<CudaDevice>(package, rank, threads, std::move(packs));
}
