//===- Team.cpp - how many threads a call gets ----------------------------===//
//
// kerf-bench-library prints where two threads begin to pay, on the host at
// hand. A team whose threads still spin is entered and left within a
// microsecond, and its threads find each other's results in another core's
// cache; so a part is some two or three microseconds of a core.
//
//===----------------------------------------------------------------------===//
#include "Team.h"

#include "OpenMP.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

using namespace kerf::rt;

/// Of one core in a few microseconds: products at some 100 GFLOP/s, and bytes
/// from its second-level cache.
static constexpr double kPartFlops = 1 << 18, kPartBytes = 1 << 18;
/// Besides its operations a product of two small matrices takes what so many
/// would, and columns are multiplied in vectors.
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
  return parts >= 2 || always ? all : 1;
}
