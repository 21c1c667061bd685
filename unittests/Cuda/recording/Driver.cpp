//===- Driver.cpp - CUDA's driver API over the engine ---------------------===//
//
// The functions of device/cuda/DriverApi.h and the hooks of Recording.h. Device
// memory is host memory that begins as NaN; handles are pointers to the structs
// of Engine.h.
//
//===----------------------------------------------------------------------===//
#include "Engine.h"

#include "device/cuda/driver/DriverApi.h"
#include "device/cuda/driver/Recording.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace recording;
using namespace kerf::rt;
using namespace kerf::rt::cu;

namespace {
using Lock = std::unique_lock<std::mutex>;

Engine &engine() { return Engine::get(); }

struct ModuleImage {
  std::string text; ///< of PTX; empty: a cubin
};
struct KernelHandle {
  std::string name;
};
struct PendingKernel {
  bool bound = false;
  std::string what;
  RecordedWork work{};
  std::vector<RecordedRange> ranges;
  int numArguments = 0;
};
thread_local PendingKernel pendingKernel;
thread_local int currentDevice = 0;

struct State {
  std::map<uintptr_t, int> owner; ///< device of each block; -1: host
  std::map<int, int64_t> used;
};
State &state() {
  static State *made = new State;
  return *made;
}

recording::Stream &streamOf(cu::Stream handle) {
  static recording::Stream *null = [] {
    auto *made = new recording::Stream;
    made->name = "null stream";
    made->lane = engine().newLane(made->name);
    return made;
  }();
  return handle ? *reinterpret_cast<recording::Stream *>(handle) : *null;
}
recording::Event &eventOf(cu::Event handle) {
  return *reinterpret_cast<recording::Event *>(handle);
}

Range rangeOf(const void *begin, int64_t bytes, bool reads, bool writes) {
  auto at = reinterpret_cast<uintptr_t>(begin);
  return {at, at + static_cast<uintptr_t>(bytes), reads, writes};
}

/// Where a block of memory is, as text that does not change from run to run.
std::string place(const void *pointer) {
  auto &blocks = engine().blocks;
  auto at = reinterpret_cast<uintptr_t>(pointer);
  auto it = blocks.upper_bound(at);
  if (it == blocks.begin() || (--it)->second <= at)
    return "elsewhere";
  int device = state().owner[it->first];
  return (device < 0 ? std::string("pinned") : "gpu" + std::to_string(device)) +
         "+" + std::to_string(at - it->first);
}

std::shared_ptr<Work> workOf(std::string what, const RecordedWork &given,
                             const RecordedRange *ranges, int count) {
  auto work = std::make_shared<Work>();
  work->what = std::move(what);
  for (int i = 0; i < count; ++i)
    work->ranges.push_back(rangeOf(ranges[i].begin, ranges[i].bytes,
                                   ranges[i].reads, ranges[i].writes));
  if (given.run) {
    std::shared_ptr<void> user(given.user, given.destroy);
    work->run = [user, run = given.run] { run(user.get()); };
  }
  return work;
}

int allocate(void **pointer, size_t bytes, int device) {
  Lock lock(engine().mutex);
  size_t size = (std::max<size_t>(bytes, 1) + 511) / 512 * 512;
  if (device >= 0 && state().used[device] + static_cast<int64_t>(size) >
                         engine().settings.memory)
    return ErrorOutOfMemory;
  void *block = std::aligned_alloc(512, size);
  if (!block)
    return ErrorOutOfMemory;
  std::memset(block, 0xff, size);
  auto begin = reinterpret_cast<uintptr_t>(block);
  engine().blocks[begin] = begin + size;
  state().owner[begin] = device;
  if (device >= 0)
    state().used[device] += static_cast<int64_t>(size);
  *pointer = block;
  return Success;
}

int release(void *pointer) {
  Lock lock(engine().mutex);
  auto begin = reinterpret_cast<uintptr_t>(pointer);
  auto it = engine().blocks.find(begin);
  if (it == engine().blocks.end())
    return ErrorInvalidValue;
  int device = state().owner[begin];
  if (device >= 0)
    state().used[device] -= static_cast<int64_t>(it->second - begin);
  engine().forgetRange(begin, it->second);
  engine().blocks.erase(it);
  state().owner.erase(begin);
  std::free(pointer);
  return Success;
}

int put(cu::Stream stream, std::string what, std::vector<Range> ranges,
        std::function<void()> run) {
  Lock lock(engine().mutex);
  auto work = std::make_shared<Work>();
  work->what = std::move(what);
  work->ranges = std::move(ranges);
  work->run = std::move(run);
  engine().enqueue(streamOf(stream), work);
  return Success;
}

void *pointerOf(DevicePtr address) { return reinterpret_cast<void *>(address); }

// Gives others a chance when nothing of what is there can run.
void pause(Lock &lock) {
  engine().changed.wait_for(lock, std::chrono::microseconds(200));
}
} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int cuInit(unsigned) { return Success; }
EXPORT int cuDriverGetVersion(int *version) {
  *version = engine().settings.driverVersion;
  return Success;
}
EXPORT int cuDeviceGetCount(int *count) {
  *count = engine().settings.devices;
  return Success;
}
EXPORT int cuDeviceGet(Device *device, int ordinal) {
  *device = ordinal;
  return ordinal < engine().settings.devices ? Success : ErrorInvalidDevice;
}
EXPORT int cuDeviceGetName(char *name, int length, Device device) {
  const auto &names = engine().settings.names;
  std::snprintf(name, static_cast<size_t>(length), "%s",
                names[static_cast<size_t>(device) % names.size()].c_str());
  return Success;
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, Device) {
  int arch = engine().settings.arch;
  *value = attribute == AttributeComputeCapabilityMajor   ? arch / 10
           : attribute == AttributeComputeCapabilityMinor ? arch % 10
           : attribute == AttributeMaxPitch               ? INT_MAX
           // Slow memory: what saves a kernel pays, whatever this host does.
           : attribute == AttributeMemoryClockRate      ? 1
           : attribute == AttributeGlobalMemoryBusWidth ? 8
                                                        : 132;
  return Success;
}
EXPORT int cuDevicePrimaryCtxRetain(Context *context, Device device) {
  *context = reinterpret_cast<Context>(static_cast<intptr_t>(device + 1));
  return Success;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(Device) { return Success; }
EXPORT int cuCtxSetCurrent(Context context) {
  currentDevice = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  return Success;
}
EXPORT int cuMemGetInfo_v2(size_t *free, size_t *total) {
  Lock lock(engine().mutex);
  *total = static_cast<size_t>(engine().settings.memory);
  *free = *total - static_cast<size_t>(state().used[currentDevice]);
  return Success;
}
EXPORT int cuMemAlloc_v2(DevicePtr *pointer, size_t bytes) {
  void *block = nullptr;
  int result = allocate(&block, bytes, currentDevice);
  if (result == Success)
    *pointer = reinterpret_cast<DevicePtr>(block);
  return result;
}
EXPORT int cuMemFree_v2(DevicePtr pointer) {
  return release(pointerOf(pointer));
}
EXPORT int cuMemAllocHost_v2(void **pointer, size_t bytes) {
  return allocate(pointer, bytes, -1);
}
EXPORT int cuMemFreeHost(void *pointer) { return release(pointer); }

static int copy(const char *what, const void *src, void *dst, size_t bytes,
                cu::Stream stream) {
  std::string text;
  {
    Lock lock(engine().mutex);
    text = std::string(what) + " " + std::to_string(bytes) + " " + place(src) +
           " -> " + place(dst);
  }
  return put(stream, text,
             {rangeOf(src, static_cast<int64_t>(bytes), true, false),
              rangeOf(dst, static_cast<int64_t>(bytes), false, true)},
             [=] { std::memcpy(dst, src, bytes); });
}
EXPORT int cuMemcpyHtoDAsync_v2(DevicePtr dst, const void *src, size_t bytes,
                                cu::Stream stream) {
  return copy("upload", src, pointerOf(dst), bytes, stream);
}
EXPORT int cuMemcpyDtoHAsync_v2(void *dst, DevicePtr src, size_t bytes,
                                cu::Stream stream) {
  return copy(bytes == 8 ? "mark" : "download", pointerOf(src), dst, bytes,
              stream);
}
EXPORT int cuMemcpyDtoDAsync_v2(DevicePtr dst, DevicePtr src, size_t bytes,
                                cu::Stream stream) {
  return copy("copy", pointerOf(src), pointerOf(dst), bytes, stream);
}
EXPORT int cuMemcpy3DAsync_v2(const Memcpy3D *given, cu::Stream stream) {
  Memcpy3D c = *given;
  if (c.srcPitch < c.widthInBytes || c.dstPitch < c.widthInBytes ||
      std::max(c.srcPitch, c.dstPitch) >
          static_cast<size_t>(engine().settings.maxPitch) ||
      (c.depth > 1 && (c.srcHeight < c.height || c.dstHeight < c.height)) ||
      c.srcMemoryType != MemoryTypeDevice ||
      c.dstMemoryType != MemoryTypeDevice)
    return ErrorInvalidValue;
  std::vector<Range> ranges;
  auto rows = [&](DevicePtr base, size_t pitch, size_t height, bool writes) {
    for (size_t z = 0; z < c.depth; ++z)
      for (size_t y = 0; y < c.height; ++y)
        ranges.push_back(rangeOf(pointerOf(base + (z * height + y) * pitch),
                                 static_cast<int64_t>(c.widthInBytes), !writes,
                                 writes));
  };
  rows(c.srcDevice, c.srcPitch, c.srcHeight, false);
  rows(c.dstDevice, c.dstPitch, c.dstHeight, true);
  return put(
      stream,
      "strided copy " + std::to_string(c.widthInBytes) + "x" +
          std::to_string(c.height) + "x" + std::to_string(c.depth),
      ranges, [=] {
        for (size_t z = 0; z < c.depth; ++z)
          for (size_t y = 0; y < c.height; ++y)
            std::memcpy(
                pointerOf(c.dstDevice + (z * c.dstHeight + y) * c.dstPitch),
                pointerOf(c.srcDevice + (z * c.srcHeight + y) * c.srcPitch),
                c.widthInBytes);
      });
}
EXPORT int cuMemsetD8Async(DevicePtr dst, unsigned char value, size_t bytes,
                           cu::Stream stream) {
  void *to = pointerOf(dst);
  return put(stream, "set " + std::to_string(bytes),
             {rangeOf(to, static_cast<int64_t>(bytes), false, true)},
             [=] { std::memset(to, value, bytes); });
}

EXPORT int cuStreamCreateWithPriority(cu::Stream *stream, unsigned flags,
                                      int priority) {
  if (flags != StreamNonBlocking)
    return ErrorInvalidValue;
  Lock lock(engine().mutex);
  auto *made = new recording::Stream; // kept: operations name it
  made->device = currentDevice;
  made->priority = priority;
  made->name = "stream " + std::to_string(engine().streams.size());
  made->lane = engine().newLane(made->name);
  engine().streams.push_back(made);
  *stream = reinterpret_cast<cu::Stream>(made);
  return Success;
}
EXPORT int cuStreamDestroy_v2(cu::Stream stream) {
  Lock lock(engine().mutex);
  engine().destroyStream(streamOf(stream));
  return Success;
}
EXPORT int cuStreamSynchronize(cu::Stream stream) {
  Lock lock(engine().mutex);
  if (streamOf(stream).capture)
    return ErrorStreamCaptureUnsupported;
  while (!engine().joinHost(streamOf(stream).tail))
    if (!engine().runOne())
      pause(lock);
  return Success;
}
EXPORT int cuStreamWaitEvent(cu::Stream stream, cu::Event event, unsigned) {
  Lock lock(engine().mutex);
  if (engine().dropped("wait", streamOf(stream)))
    return Success;
  return engine().wait(streamOf(stream), eventOf(event));
}
EXPORT int cuEventCreate(cu::Event *event, unsigned flags) {
  auto *made = new recording::Event;
  made->timed = !(flags & EventDisableTiming);
  *event = reinterpret_cast<cu::Event>(made);
  return Success;
}
EXPORT int cuEventDestroy_v2(cu::Event event) {
  delete &eventOf(event);
  return Success;
}
EXPORT int cuEventRecordWithFlags(cu::Event event, cu::Stream stream,
                                  unsigned flags) {
  Lock lock(engine().mutex);
  recording::Event &e = eventOf(event);
  recording::Stream &s = streamOf(stream);
  bool external = flags == EventRecordExternal;
  if (external && !s.capture)
    return ErrorInvalidValue; // it is a node of a graph
  if (e.timed && (external || !s.capture)) {
    auto work = std::make_shared<Work>();
    work->what = "time";
    work->run = [at = e.nanoseconds, device = s.device] {
      *at = recording::nanoseconds() + engine().delays[device];
    };
    engine().enqueue(s, work);
  }
  if (!external && !engine().dropped("record", s))
    engine().record(e, s);
  return Success;
}
EXPORT int cuEventRecord(cu::Event event, cu::Stream stream) {
  return cuEventRecordWithFlags(event, stream, 0);
}
EXPORT int cuEventQuery(cu::Event event) {
  Lock lock(engine().mutex);
  recording::Event &e = eventOf(event);
  if (e.capture)
    return ErrorStreamCaptureUnsupported;
  if (engine().joinHost(e.operation))
    return Success;
  if (!engine().runOne())
    pause(lock);
  return ErrorNotReady;
}
EXPORT int cuEventElapsedTime(float *milliseconds, cu::Event begin,
                              cu::Event end) {
  Lock lock(engine().mutex);
  if (!eventOf(begin).timed || !eventOf(end).timed)
    return ErrorInvalidHandle;
  int64_t from = *eventOf(begin).nanoseconds, to = *eventOf(end).nanoseconds;
  if (from < 0 || to < 0)
    return ErrorNotReady;
  *milliseconds = static_cast<float>(to - from) * 1e-6f;
  return Success;
}

EXPORT int cuModuleLoadDataEx(Module *module, const void *image, unsigned,
                              int *, void **) {
  const char *bytes = static_cast<const char *>(image);
  bool cubin = std::memcmp(bytes,
                           "\x7f"
                           "ELF",
                           4) == 0;
  if (cubin && engine().settings.refuseCubin)
    return ErrorNoBinaryForGpu;
  if (!cubin && engine().settings.refusePtx)
    return ErrorUnsupportedPtxVersion;
  auto *made = new ModuleImage;
  if (!cubin)
    made->text = bytes;
  *module = reinterpret_cast<Module>(made);
  return Success;
}
EXPORT int cuModuleUnload(Module module) {
  delete reinterpret_cast<ModuleImage *>(module);
  return Success;
}
EXPORT int cuModuleGetFunction(Function *function, Module module,
                               const char *name) {
  const auto &image = *reinterpret_cast<ModuleImage *>(module);
  if (!image.text.empty() &&
      image.text.find(std::string(".entry ") + name) == std::string::npos)
    return ErrorNotFound;
  *function = reinterpret_cast<Function>(new KernelHandle{name});
  return Success;
}
EXPORT int cuFuncSetAttribute(Function, int, int) { return Success; }

EXPORT int cuLaunchKernel(Function function, unsigned gx, unsigned gy,
                          unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned, cu::Stream stream, void **arguments,
                          void **) {
  Lock lock(engine().mutex);
  const auto &kernel = *reinterpret_cast<KernelHandle *>(function);
  PendingKernel bound = std::move(pendingKernel);
  pendingKernel = PendingKernel();
  if (gx == 0 || gy == 0 || gz == 0 || bx * by * bz == 0 || bx * by * bz > 1024)
    return ErrorInvalidValue;
  if (!bound.bound || bound.what != kernel.name)
    engine().problem("kernel " + kernel.name + " was launched as " +
                     bound.what);
  // The first arguments are the buffers that the host form works on.
  for (int i = 0; i < bound.numArguments; ++i)
    if (*static_cast<void **>(arguments[i]) != bound.ranges[i].begin)
      engine().problem("argument " + std::to_string(i) + " of " + kernel.name +
                       " is not its buffer");
  std::string what = "launch " + kernel.name;
  for (const RecordedRange &r : bound.ranges)
    what += std::string(r.writes ? (r.reads ? " rw " : " w ") : " r ") +
            place(r.begin);
  engine().enqueue(streamOf(stream),
                   workOf(what, bound.work, bound.ranges.data(),
                          static_cast<int>(bound.ranges.size())));
  return Success;
}

static std::shared_ptr<recording::Graph> *
newHandle(const std::shared_ptr<recording::Graph> &graph) {
  auto *handle = new std::shared_ptr<recording::Graph>(graph);
  engine().graphs.insert(handle);
  return handle;
}
static int destroyGraph(void *given) {
  Lock lock(engine().mutex);
  auto *handle = static_cast<std::shared_ptr<recording::Graph> *>(given);
  if (!engine().graphs.erase(handle))
    return ErrorInvalidValue;
  delete handle;
  return Success;
}

EXPORT int cuStreamBeginCapture_v2(cu::Stream stream, int) {
  Lock lock(engine().mutex);
  return engine().beginCapture(streamOf(stream));
}
EXPORT int cuStreamEndCapture(cu::Stream stream, cu::Graph *graph) {
  Lock lock(engine().mutex);
  std::shared_ptr<recording::Graph> captured;
  int result = engine().endCapture(streamOf(stream), captured);
  if (result == Success)
    *graph = reinterpret_cast<cu::Graph>(newHandle(captured));
  return result;
}
EXPORT int cuGraphInstantiateWithFlags(GraphExec *exec, cu::Graph graph,
                                       unsigned long long flags) {
  Lock lock(engine().mutex);
  auto &captured =
      *reinterpret_cast<std::shared_ptr<recording::Graph> *>(graph);
  std::set<int> priorities;
  for (auto &[stream, lane] : captured->lanes)
    priorities.insert(stream->priority);
  if (priorities.size() > 1 && !(flags & InstantiateUseNodePriority))
    engine().problem("a graph is instantiated without the priorities of the "
                     "streams that it was captured from");
  *exec = reinterpret_cast<GraphExec>(newHandle(captured));
  return Success;
}
EXPORT int cuGraphUpload(GraphExec exec, cu::Stream stream) {
  Lock lock(engine().mutex);
  (*reinterpret_cast<std::shared_ptr<recording::Graph> *>(exec))->uploaded =
      true;
  auto work = std::make_shared<Work>();
  work->what = "graph upload";
  engine().enqueue(streamOf(stream), work);
  return Success;
}
EXPORT int cuGraphLaunch(GraphExec exec, cu::Stream stream) {
  Lock lock(engine().mutex);
  auto &graph = *reinterpret_cast<std::shared_ptr<recording::Graph> *>(exec);
  if (!graph->last)
    checkFirstLaunch(*graph);
  engine().launch(graph, streamOf(stream));
  return Success;
}
EXPORT int cuGraphExecDestroy(GraphExec exec) { return destroyGraph(exec); }
EXPORT int cuGraphDestroy(cu::Graph graph) { return destroyGraph(graph); }
EXPORT int cuGetErrorName(int error, const char **name) {
  *name = error == ErrorOutOfMemory      ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == ErrorNoBinaryForGpu ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
          : error == ErrorUnsupportedPtxVersion
              ? "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
          : error == ErrorStreamCaptureUnjoined
              ? "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"
          : error == ErrorStreamCaptureIsolation
              ? "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"
          : error == ErrorStreamCaptureUnsupported
              ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
              : "CUDA_ERROR";
  return Success;
}
EXPORT int cuGetErrorString(int error, const char **text) {
  static thread_local std::string line;
  line = "error " + std::to_string(error) + " of the recording driver";
  *text = line.c_str();
  return Success;
}

// Hooks.

EXPORT void kerf_recording_enqueue(cu::Stream stream, const char *what,
                                   RecordedWork work,
                                   const RecordedRange *ranges, int count) {
  Lock lock(engine().mutex);
  engine().enqueue(streamOf(stream), workOf(what, work, ranges, count));
}
EXPORT void kerf_recording_bind(const char *what, RecordedWork work,
                                const RecordedRange *ranges, int count,
                                int numArguments) {
  pendingKernel = {true, what, work, {ranges, ranges + count}, numArguments};
}
EXPORT void kerf_recording_name_stream(cu::Stream stream, const char *name) {
  Lock lock(engine().mutex);
  recording::Stream &s = streamOf(stream);
  s.name = name;
  engine().nameLane(s.lane, name);
}
EXPORT void kerf_recording_host_access(const void *begin, int64_t bytes,
                                       int writes) {
  Lock lock(engine().mutex);
  engine().hostAccess(rangeOf(begin, bytes, !writes, writes));
}
EXPORT const char *kerf_recording_dump();

// Asked at the end of every step, so the last dump is that of the whole run.
EXPORT const char *kerf_recording_report() {
  static thread_local std::string copy;
  if (const char *path = std::getenv("KERF_RECORDING_DUMP")) {
    static std::mutex one;
    std::lock_guard<std::mutex> guard(one);
    if (std::FILE *file = std::fopen(path, "w")) {
      std::fputs(kerf_recording_dump(), file);
      std::fclose(file);
    }
  }
  Lock lock(engine().mutex);
  copy = engine().report();
  return copy.c_str();
}

// For tests.

EXPORT void kerf_recording_configure(const char *text) {
  Lock lock(engine().mutex);
  engine().configure(text);
}
EXPORT void kerf_recording_reset() {
  Lock lock(engine().mutex);
  engine().reset();
}
/// Everything that was put on each stream, stream by stream in order of name.
EXPORT const char *kerf_recording_dump() {
  static thread_local std::string text;
  Lock lock(engine().mutex);
  std::map<std::string, std::string> streams;
  for (const recording::Stream *stream : engine().streams) {
    if (stream->log.empty())
      continue;
    std::string &lines = streams[stream->name];
    for (const std::string &line : stream->log)
      lines += "  " + line + "\n";
  }
  text.clear();
  for (auto &[name, lines] : streams)
    text += name + ":\n" + lines;
  std::vector<std::string> others = engine().lines;
  std::sort(others.begin(), others.end());
  for (const std::string &line : others)
    text += line + "\n";
  return text.c_str();
}
