//===- CudaDeviceImpl.h - a rank on a GPU, inside ---------------*- C++ -*-===//
//
// The class behind makeCudaDevice: CudaDevice.cpp has its memory and steps,
// CudaLaunch.cpp its launches and calls.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_DEVICE_CUDA_CUDADEVICEIMPL_H
#define KERF_RT_DEVICE_CUDA_CUDADEVICEIMPL_H

#include "Batches.h"
#include "Copies.h"
#include "CudaDevice.h"
#include "GpuCalls.h"
#include "driver/Module.h"
#include "recording/Answers.h"

#include <map>

namespace kerf::rt {

inline cu::DevicePtr address(const void *pointer) {
  return reinterpret_cast<cu::DevicePtr>(pointer);
}

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
    for (cu::Event &event : marks)
      event = newEvent(cu::EventDefault);
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
    batches = LaunchBatches::make(*this, package.manifest);
  }

  ~CudaDevice() override {
    stop();
    calls.reset();
    module.reset();
    batches.reset();
    record.reset();
    numbers.reset();
    recordCopy.reset();
    for (Stage &stage : staging)
      stage.memory.reset();
    for (cu::Event event : events)
      cuda.eventDestroy(event);
    freePool();
    cuda.primaryContextRelease(handle);
  }

  // Memory.

  void reserve(int64_t bytes, const std::string &detail) override {
    poolBytes = std::max<int64_t>(bytes, 256);
    if (!reserveFromNccl())
      pool = static_cast<char *>(deviceAllocate(poolBytes, detail));
  }
  bool reservedByNccl() const override { return poolOfNccl; }
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
                                      static_cast<size_t>(bytes),
                                      computeStream()),
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
    flushFor(stream);
    if (bytes > 0)
      cuda.check(cuda.memsetD8Async(address(data), 0,
                                    static_cast<size_t>(bytes), stream),
                 "zeros");
  }
  void copyBox(const BoxCopy &box, const void *src, void *dst,
               cu::Stream stream) const override {
    flushFor(stream);
    copyBoxOn(cuda, gpu(), box, src, dst, stream);
  }
  void enqueueUpload(const void *pinned, void *dst, int64_t bytes) override {
    flushFor(compute);
    if (bytes > 0)
      cuda.check(cuda.memcpyHtoDAsync(address(dst), pinned,
                                      static_cast<size_t>(bytes), compute),
                 "a copy to the GPU");
  }
  void enqueueDownload(const void *src, void *pinned, int64_t bytes) override {
    if (bytes > 0)
      cuda.check(cuda.memcpyDtoHAsync(pinned, address(src),
                                      static_cast<size_t>(bytes),
                                      computeStream()),
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
  void mark(Mark mark) override;
  double workSeconds() override;
  void enableTrace() override;
  int64_t ownBytes() const override { return ownedBytes; }
  std::vector<DeviceSpan> spans() const override;

  void stop() override {
    dropGraph(); // communicators outlive it
    for (cu::Stream stream : streams)
      cuda.streamDestroy(stream);
    streams.clear();
  }

  std::vector<MeasuredChoices *> &choosers() override { return measured; }
  void dropGraph() override;
  void agreeOnGraphs(std::function<bool(bool mine)> all) override {
    agree = std::move(all);
  }
  bool isShared() const override { return choice.shared; }
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
  /// Launches the queue of the batches, so that it precedes the caller's next
  /// work.
  cu::Stream computeStream() const override {
    flushFor(compute);
    return compute;
  }
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
  cu::Event newEvent() override { return newEvent(cu::EventDisableTiming); }
  void order(cu::Stream from, cu::Event event, cu::Stream to) const override {
    flushFor(from);
    flushFor(to);
    cuda.check(cuda.eventRecord(event, from), "cuEventRecord");
    cuda.check(cuda.streamWaitEvent(to, event, 0), "cuStreamWaitEvent");
  }
  // Launches that the batches make (Batches.h).
  void launchAlone(const KernelLaunch &launch);
  void launchBatch(const std::vector<KernelLaunch> &launches, void *table,
                   int64_t words, int64_t blocks);

  int64_t gpuOrdinal() const override { return choice.ordinal; }
  std::string gpuName() const override { return gpu().text(); }
  double memoryBytesPerSecond() const override { return gpu().bytesPerSecond; }
  void replaceKernel(int64_t index, bool value) override {
    replaced.resize(package.manifest.kernels.size());
    replaced.at(static_cast<size_t>(index)) = value;
  }

private:
  cu::Event newEvent(unsigned flags) {
    cu::Event event = nullptr;
    cuda.check(cuda.eventCreate(&event, flags), "an event");
    events.push_back(event);
    return event;
  }
  /// A piece of pinned memory through which parameters go to the GPU.
  struct Stage {
    std::unique_ptr<DeviceMemory> memory;
    cu::Event free = nullptr;
    bool used = false;
  };
  static constexpr int64_t stageBytes = 8 << 20;

  static int64_t aligned(int64_t bytes) { return ceilDiv(bytes, 256) * 256; }
  class EpilogueKernel;
  class FlushingCall;
  void flushFor(cu::Stream stream) const {
    if (batches && stream == compute)
      batches->flush();
  }
  void enqueueKernel(int32_t index, kerf_kernel_t kernel, void *const *buffers,
                     int32_t numBuffers, const int64_t *scalars, int64_t count);
  void launchFunction(cu::Function function, const CudaKernel &kernel,
                      void **arguments, const std::string &node);
  const GpuInfo &gpu() const { return cuda.gpus[choice.ordinal]; }
  bool reserveFromNccl();
  void freePool();
  void *deviceAllocate(int64_t bytes, const std::string &what);
  std::unique_ptr<GpuMemory> ownAllocation(int64_t bytes, const char *what) {
    auto memory = std::make_unique<GpuMemory>(
        deviceAllocate(std::max<int64_t>(bytes, 1), what), bytes);
    ownedBytes += bytes;
    memory->release = [this, bytes](void *data) {
      cuda.contextSetCurrent(context);
      cuda.memFree(address(data));
      ownedBytes -= bytes;
    };
    return memory;
  }
  void noGraph(const std::string &why) {
    useGraph = false;
    messages.push_back(cat("no CUDA graph of the step (", why,
                           "): every step is enqueued call by call"));
  }
  void captureStep();
  bool keepGraph();
  bool allCan(bool mine);
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
  cu::Event marks[2] = {};
  std::vector<cu::Stream> streams;
  std::vector<cu::Event> events;
  std::unique_ptr<CudaModule> module;
  std::unique_ptr<LaunchBatches> batches;
  std::vector<MeasuredChoices *> measured;
  std::vector<bool> replaced;      ///< by kernel; may be shorter: none
  std::unique_ptr<GpuCalls> calls; ///< cuBLASLt and cuDNN, on first use
  std::unique_ptr<Device> cpu;     ///< answers for a recording driver
  char *pool = nullptr;
  int64_t poolBytes = 0, poolUsed = 0, ownedBytes = 0;
  bool poolOfNccl = false;
  std::unique_ptr<GpuMemory> record;
  std::unique_ptr<GpuMemory> numbers; ///< 0, 1, 2, ...
  std::unique_ptr<DeviceMemory> recordCopy;
  Stage staging[2];
  int stage = 0;
  std::vector<std::string> messages;

  bool tracing = false;
  /// While tracing: the kernels of the manifest that a function of the GPU's
  /// code was launched for, in the order of a step.
  std::map<std::string, std::vector<int32_t>> launched;

  bool useGraph = true, enqueuing = false, capturing = false;
  bool decided = false;            ///< whether steps are captured
  std::function<bool(bool)> agree; ///< empty: a rank alone
  int64_t step = 0;
  cu::GraphExec graph = nullptr;
};

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CUDA_CUDADEVICEIMPL_H
