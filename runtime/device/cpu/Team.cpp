//===- Team.cpp - how many threads a call gets ----------------------------===//
//
// kerf-bench-library prints where two threads begin to pay, on the host at
// hand. A team whose threads still spin is entered and left within one or two
// microseconds, and its threads find each other's results in another core's
// cache; so a part is some three or four microseconds of a core.
//
//===----------------------------------------------------------------------===//
#include "Team.h"

#include "../Device.h"
#include "OpenMP.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sched.h>

using namespace kerf::rt;

/// The work of one core in a few microseconds: operations of products at some
/// 100 GFLOP/s, and bytes from its second-level cache.
static constexpr double kPartFlops = 3 << 17, kPartBytes = 3 << 17;
/// A product of two small matrices takes as long as its operations and this
/// many more; its columns are multiplied in vectors of this length.
static constexpr double kProductFlops = 1 << 14, kLanes = 16;

static double volume(const Shape &shape) {
  double result = 1;
  for (int64_t size : shape)
    result *= static_cast<double>(size);
  return result;
}

Work kerf::rt::workOf(const LibraryDesc &desc) {
  auto real = [](int64_t number) { return static_cast<double>(number); };
  double batch = volume(desc.batch);
  auto operand = static_cast<double>(dtypeSize(desc.dtype)),
       result = static_cast<double>(dtypeSize(desc.dstDtype));
  Work work;
  if (desc.kind == LibraryDesc::Matmul) {
    double m = real(desc.m), n = real(desc.n), k = real(desc.k);
    // A right side that repeats along the batch is read once.
    bool repeats =
        !desc.rhs.strides.empty() &&
        std::all_of(desc.rhs.strides.begin(), desc.rhs.strides.end() - 2,
                    [](int64_t stride) { return stride == 0; });
    work.flops =
        batch * (2 * m * std::ceil(n / kLanes) * kLanes * k + kProductFlops);
    work.bytes = operand * (batch * m * k + (repeats ? 1 : batch) * k * n) +
                 result * batch * m * n;
    return work;
  }
  // Convolutions, pools and their gradients: the same sums in another order.
  bool pools = desc.kind == LibraryDesc::Pool;
  double in = real(desc.inChannels), out = real(desc.outChannels),
         taps = volume(desc.kernel),
         perResult = pools ? 1 : in / std::max(real(desc.groups), 1.0);
  work.flops = 2 * batch * volume(desc.out) * out * perResult * taps;
  work.bytes = batch * (operand * volume(desc.in) * in +
                        result * volume(desc.out) * out) +
               (pools ? 0 : operand * taps * perResult * out);
  return work;
}

double kerf::rt::partsOf(const Work &work) {
  return work.flops / kPartFlops + work.bytes / kPartBytes;
}

int64_t kerf::rt::grainOf(const Work &iteration) {
  return std::max<int64_t>(
      static_cast<int64_t>(std::ceil(1 / partsOf(iteration))), 1);
}

Team::Team(int32_t threads)
    : all(OpenMP::get().available() ? std::max(1, threads) : 1) {
  const char *given = std::getenv("KERF_TEAMS");
  always = given && std::strcmp(given, "always") == 0;
}

int32_t Team::threadsFor(double parts) const {
  return parts > 1 || always ? all : 1;
}

// A team of two never changes its size, so its first thread can be bound, too.
// Of a larger one oneDNN may use a part, and the threads that libgomp makes
// anew take over where their maker may run: all of the rank's cores.
void kerf::rt::bindCpuTeam(int64_t first, int32_t threads) {
  const OpenMP &omp = OpenMP::get();
  cpu_set_t allowed;
  if (threads < 2 || !omp.available() ||
      ::sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return;
  for (const char *name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"})
    if (std::getenv(name))
      return;
  struct Cores {
    std::vector<int> mine;
    void take(size_t from, size_t to) const {
      cpu_set_t set;
      CPU_ZERO(&set);
      for (size_t i = from; i < to; ++i)
        CPU_SET(mine[i], &set);
      ::sched_setaffinity(0, sizeof set, &set);
    }
  } cores;
  int64_t seen = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed) && seen++ >= first &&
        static_cast<int32_t>(cores.mine.size()) < threads)
      cores.mine.push_back(cpu);
  if (static_cast<int32_t>(cores.mine.size()) < threads)
    return;
  omp.parallel(
      [](void *data) {
        const auto &cores = *static_cast<const Cores *>(data);
        auto at = static_cast<size_t>(OpenMP::get().threadNumber());
        bool all = at == 0 && cores.mine.size() > 2;
        cores.take(all ? 0 : at, all ? cores.mine.size() : at + 1);
      },
      &cores, static_cast<unsigned>(threads), 0);
}
