//===- Copies.cpp - strided copies on a stream, and local ranks -----------===//
#include "Copies.h"

#include "../../comm/Rendezvous.h"
#include "CudaDevice.h"

#include <algorithm>

using namespace kerf::rt;

static cu::DevicePtr address(const void *pointer) {
  return reinterpret_cast<cu::DevicePtr>(pointer);
}

std::pair<int64_t, int64_t> kerf::rt::localRank(int64_t rank, int64_t ranks) {
  JobEnvironment job = jobEnvironment();
  if (job.launcher != JobEnvironment::None && job.size == ranks &&
      job.rank == rank && ranks > 1)
    return {job.localRank, job.localSize ? job.localSize : ranks};
  return {rank, ranks};
}

// A run with up to two loops is one strided copy; loops further out are walked,
// and so are those whose rows lie further apart than the GPU can copy.
void kerf::rt::copyBoxOn(const Driver &cuda, const GpuInfo &gpu,
                         const BoxCopy &box, const void *src, void *dst,
                         cu::Stream stream) {
  if (box.runBytes == 0)
    return;
  size_t n = box.loops.size();
  auto one = [&](int64_t from, int64_t to, size_t inner) {
    cu::Memcpy3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = cu::MemoryTypeDevice;
    copy.srcDevice = address(src) + static_cast<uint64_t>(from);
    copy.dstDevice = address(dst) + static_cast<uint64_t>(to);
    copy.widthInBytes = static_cast<size_t>(box.runBytes);
    copy.height = copy.depth = 1;
    copy.srcPitch = copy.dstPitch = copy.widthInBytes;
    if (inner >= 1) {
      const BoxCopy::Loop &rows = box.loops[n - 1];
      copy.height = static_cast<size_t>(rows.count);
      copy.srcPitch = static_cast<size_t>(rows.srcStride);
      copy.dstPitch = static_cast<size_t>(rows.dstStride);
    }
    copy.srcHeight = copy.dstHeight = copy.height;
    if (inner == 2) {
      const BoxCopy::Loop &planes = box.loops[n - 2];
      copy.depth = static_cast<size_t>(planes.count);
      copy.srcHeight = static_cast<size_t>(planes.srcStride) / copy.srcPitch;
      copy.dstHeight = static_cast<size_t>(planes.dstStride) / copy.dstPitch;
    }
    if (inner == 0)
      cuda.check(cuda.memcpyDtoDAsync(copy.dstDevice, copy.srcDevice,
                                      copy.widthInBytes, stream),
                 "a copy");
    else
      cuda.check(cuda.memcpy3DAsync(&copy, stream), "a strided copy");
  };
  size_t inner = std::min<size_t>(n, 2);
  if (n > 0 && std::max(box.loops[n - 1].srcStride,
                        box.loops[n - 1].dstStride) > gpu.maxPitch)
    inner = 0;
  if (inner == 2) {
    const BoxCopy::Loop &rows = box.loops[n - 1], &planes = box.loops[n - 2];
    if (planes.srcStride % rows.srcStride || planes.dstStride % rows.dstStride)
      inner = 1;
  }
  BoxCopy outer = box;
  outer.loops.resize(n - inner);
  outer.forEachRun([&](int64_t from, int64_t to) { one(from, to, inner); });
}
