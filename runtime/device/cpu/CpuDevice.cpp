//===- CpuDevice.cpp - a rank on the CPU ----------------------------------===//
//
// Kernels run on the rank's OpenMP team in equal contiguous ranges, one per
// thread; the split depends on count, grain and threads alone, so results do
// not change from run to run. A launch that is not worth the team (Team.h) is a
// plain call.
//
//===----------------------------------------------------------------------===//
#include "../Device.h"
#include "AttentionCall.h"
#include "Epilogue.h"
#include "NativeCalls.h"
#include "OpenMP.h"
#include "Team.h"
#include "WidenedCall.h"
#include "dnnl/KnownBounds.h"
#include "gemm/GemmCall.h"
#include "gemm/PackCache.h"

#ifdef KERF_HAVE_ONEDNN
#include "dnnl/DnnlCall.h"
#endif

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

using namespace kerf::rt;

namespace {

/// Large memory begins at the boundary of a huge page, so that huge pages can
/// back all of it except its end.
class MappedMemory : public DeviceMemory {
public:
  explicit MappedMemory(int64_t size) {
    constexpr size_t hugePage = size_t(2) << 20;
    bytes = size;
    length = static_cast<size_t>(std::max<int64_t>(size, 1));
    bool huge = length >= hugePage;
    reserved = length + (huge ? hugePage : 0);
    base = ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
      throw std::bad_alloc();
    data = base;
    if (!huge)
      return;
    auto address = reinterpret_cast<uintptr_t>(base);
    data =
        static_cast<char *>(base) + (hugePage - address % hugePage) % hugePage;
    ::madvise(data, length, MADV_HUGEPAGE);
  }
  ~MappedMemory() override { ::munmap(base, reserved); }

private:
  void *base;
  size_t length, reserved;
};

// Tells the thread sanitizer about the barriers of libgomp, which it cannot
// see.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KERF_TSAN 1
extern "C" void __tsan_acquire(void *);
extern "C" void __tsan_release(void *);
#endif
#endif
void enterTeam(const void *job) {
#ifdef KERF_TSAN
  __tsan_acquire(const_cast<void *>(job));
#endif
}
void leaveTeam(const void *job) {
#ifdef KERF_TSAN
  __tsan_release(const_cast<void *>(job));
#endif
}

/// What the threads of a team need to run their ranges.
struct TeamJob {
  kerf_kernel_t kernel;
  void *const *buffers;
  const int64_t *scalars;
  int64_t count, ranges;
};

void runShare(void *data) {
  enterTeam(data);
  const TeamJob &job = *static_cast<const TeamJob *>(data);
  const OpenMP &omp = OpenMP::get();
  // The team may be smaller than asked for: then threads take several ranges.
  for (int64_t i = omp.threadNumber(), n = omp.numThreads(); i < job.ranges;
       i += n) {
    int64_t share = job.count / job.ranges, rest = job.count % job.ranges;
    int64_t begin = i * share + std::min(i, rest);
    int64_t end = begin + share + (i < rest);
    if (begin < end)
      job.kernel(job.buffers, job.scalars, begin, end);
  }
  leaveTeam(data);
}

void copyRange(void *const *buffers, const int64_t *scalars, int64_t begin,
               int64_t end) {
  int64_t block = scalars[0], bytes = scalars[1];
  int64_t from = begin * block, to = std::min(end * block, bytes);
  std::memcpy(static_cast<char *>(buffers[1]) + from,
              static_cast<const char *>(buffers[0]) + from,
              static_cast<size_t>(to - from));
}

void zeroRange(void *const *buffers, const int64_t *scalars, int64_t begin,
               int64_t end) {
  int64_t block = scalars[0], bytes = scalars[1];
  int64_t from = begin * block, to = std::min(end * block, bytes);
  std::memset(static_cast<char *>(buffers[0]) + from, 0,
              static_cast<size_t>(to - from));
}

class CpuDevice : public Device {
public:
  CpuDevice(int64_t rank, int32_t threadCount,
            std::shared_ptr<PackCache> packCache)
      : rank(rank), team(threadCount), cache(std::move(packCache)) {}

  std::unique_ptr<DeviceMemory> allocate(int64_t bytes,
                                         const char *what) override {
    try {
      return std::make_unique<MappedMemory>(bytes);
    } catch (const std::bad_alloc &) {
      throw Error(KERF_OUT_OF_MEMORY,
                  cat("out of memory: ", bytes, " bytes for ", what,
                      " of rank ", rank));
    }
  }

  void launch(kerf_kernel_t kernel, void *const *buffers,
              const int64_t *scalars, int64_t count, int64_t grain) override {
    known.forget();
    if (count <= 0)
      return;
    grain = std::max<int64_t>(1, grain);
    int32_t threads = team.threadsFor(static_cast<double>(count) /
                                      static_cast<double>(grain));
    int64_t ranges = std::min<int64_t>(threads, ceilDiv(count, grain));
    if (ranges <= 1)
      return kernel(buffers, scalars, 0, count);
    TeamJob job{kernel, buffers, scalars, count, ranges};
    leaveTeam(&job);
    OpenMP::get().parallel(runShare, &job, static_cast<unsigned>(threads), 0);
    enterTeam(&job);
  }

  void copy(const void *src, void *dst, int64_t bytes) override {
    constexpr int64_t block = 4096;
    void *buffers[] = {const_cast<void *>(src), dst};
    int64_t scalars[] = {block, bytes};
    launch(copyRange, buffers, scalars, ceilDiv(bytes, block),
           grainOf({0, 2 * block}));
  }

  void zero(void *data, int64_t bytes) override {
    constexpr int64_t block = 4096;
    int64_t scalars[] = {block, bytes};
    launch(zeroRange, &data, scalars, ceilDiv(bytes, block),
           grainOf({0, block}));
  }

  void memoryChanges() override { known.forget(); }

  std::unique_ptr<LibraryCall>
  prepare(const LibraryDesc &desc, int64_t index,
          const std::function<ParameterView(int64_t)> &parameter) override {
    if (hasGradientEpilogue(desc))
      return makeEpilogueCall(
          desc,
          [&](const LibraryDesc &plain) {
            return prepare(plain, index, parameter);
          },
          [this] { known.forget(); });
    if (wantsWidening(desc))
      return makeWidenedCall(desc, *this, index, parameter);
    try {
      if (desc.isAttention())
        return makeAttentionCall(desc, *this);
      if (auto native = makeNativeCall(desc, *this))
        return native;
      int32_t threads = team.threadsFor(partsOf(workOf(desc)));
      if (auto gemm = makeGemmCall(desc, *this, threads))
        return gemm;
#ifdef KERF_HAVE_ONEDNN
      if (!dnnl)
        dnnl = std::make_unique<DnnlContext>();
      return makeDnnlCall(desc, *dnnl, *this,
                          static_cast<CpuPackCache &>(*cache), known, parameter,
                          threads);
#else
      throw Error(KERF_UNSUPPORTED_HOST,
                  "this runtime was built without oneDNN");
#endif
    } catch (Error &error) {
      error.message = cat("library[", index, "]: ", error.message);
      error.node = desc.node;
      throw;
    }
  }

private:
  /// A call for the library with a type that it lacks on this CPU.
  static bool wantsWidening(const LibraryDesc &desc) {
#ifdef KERF_HAVE_ONEDNN
    return isBrainFloat(desc) && !desc.isAttention() && !isNativeCall(desc) &&
           !Dnnl::get().hasBrainFloat();
#else
    return false;
#endif
  }

  int64_t rank;
  Team team;
  std::shared_ptr<PackCache> cache;
  KnownBounds known;
#ifdef KERF_HAVE_ONEDNN
  std::unique_ptr<DnnlContext> dnnl;
#endif
};

} // namespace

std::shared_ptr<PackCache> kerf::rt::makeCpuPackCache() {
  return std::make_shared<CpuPackCache>();
}

std::unique_ptr<Device>
kerf::rt::makeCpuDevice(int64_t rank, int32_t threads,
                        std::shared_ptr<PackCache> cache) {
  return std::make_unique<CpuDevice>(rank, threads, std::move(cache));
}
