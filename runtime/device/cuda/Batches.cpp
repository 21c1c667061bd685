//===- Batches.cpp - updates that are launched together -------------------===//
#include "Batches.h"

#include "CudaDeviceImpl.h"

#include <cstdlib>
#include <cstring>

using namespace kerf::rt;

/// The most tensors of one table (lib/Lower/Gpu/GpuBatch.h).
static constexpr size_t maxMembers = 4096;

bool ByteRanges::overlaps(uint64_t begin, uint64_t end) const {
  auto next = ranges.lower_bound(end); // the first that begins behind
  return next != ranges.begin() && std::prev(next)->second > begin;
}

void ByteRanges::add(uint64_t begin, uint64_t end) {
  if (begin >= end)
    return;
  auto it = ranges.upper_bound(begin);
  if (it != ranges.begin() && std::prev(it)->second >= begin)
    begin = (--it)->first;
  while (it != ranges.end() && it->first <= end) {
    end = std::max(end, it->second);
    it = ranges.erase(it);
  }
  ranges[begin] = end;
}

std::vector<uint64_t>
kerf::rt::batchTable(const Manifest &manifest,
                     const std::vector<KernelLaunch> &launches,
                     int64_t &blocks) {
  std::vector<uint64_t> words, rows;
  blocks = 0;
  for (const KernelLaunch &launch : launches) {
    const CudaKernel &k = manifest.kernels[launch.kernel].cuda;
    words.push_back(static_cast<uint64_t>(blocks));
    blocks += ceilDiv(k.batch.elements, k.batch.chunk);
    for (int64_t i = 0; i < k.buffers; ++i)
      rows.push_back(reinterpret_cast<uint64_t>(launch.buffers[i]));
    rows.push_back(static_cast<uint64_t>(k.batch.elements));
  }
  words.push_back(static_cast<uint64_t>(blocks));
  words.insert(words.end(), rows.begin(), rows.end());
  return words;
}

std::unique_ptr<LaunchBatches> LaunchBatches::make(CudaDevice &device,
                                                   const Manifest &manifest) {
  const char *given = std::getenv("KERF_CUDA_BATCH");
  if (given && *given == '0')
    return nullptr;
  int64_t bytes = 0;
  for (const KernelEntry &kernel : manifest.kernels)
    if (!kernel.cuda.batch.entry.empty())
      bytes += (kernel.cuda.buffers + 3) * 8;
  // Other micro-batches may have other addresses, and so other tables.
  return std::unique_ptr<LaunchBatches>(
      bytes ? new LaunchBatches(device, manifest, 4 * bytes) : nullptr);
}

LaunchBatches::LaunchBatches(CudaDevice &device, const Manifest &manifest,
                             int64_t bytes)
    : device(device), manifest(manifest),
      memory(device.allocateTemporary(bytes, "tables of updates")),
      pinned(device.allocatePinned(bytes)) {}

bool LaunchBatches::add(const KernelLaunch &launch) {
  const CudaKernel &k = manifest.kernels[launch.kernel].cuda;
  if (k.batch.entry.empty() ||
      static_cast<int64_t>(k.access.size()) != k.buffers)
    return false;
  auto range = [&](int64_t i) {
    auto begin = reinterpret_cast<uint64_t>(launch.buffers[i]);
    return std::make_pair(begin,
                          begin + static_cast<uint64_t>(k.access[i].bytes));
  };
  bool conflict = false;
  for (int64_t i = 0; i < k.buffers; ++i) {
    auto [begin, end] = range(i);
    conflict |= writes.overlaps(begin, end) ||
                (k.access[i].writes && reads.overlaps(begin, end));
  }
  if (conflict)
    flush();
  for (int64_t i = 0; i < k.buffers; ++i) {
    auto [begin, end] = range(i);
    (k.access[i].writes ? writes : reads).add(begin, end);
  }
  std::vector<KernelLaunch> &list = waiting[k.batch.entry];
  list.push_back(launch);
  if (list.size() == maxMembers)
    flush();
  return true;
}

void LaunchBatches::abandon() {
  waiting.clear();
  reads.clear();
  writes.clear();
}

void LaunchBatches::flush() {
  if (waiting.empty())
    return;
  auto lists = std::move(waiting); // first: the launches must not be queued
  abandon();
  for (auto &[entry, launches] : lists)
    launch(launches);
}

void LaunchBatches::launch(const std::vector<KernelLaunch> &launches) {
  int64_t blocks = 0;
  std::vector<uint64_t> table;
  void *at = nullptr;
  if (launches.size() > 1) {
    table = batchTable(manifest, launches, blocks);
    at = blocks <= INT32_MAX ? place(table) : nullptr;
  }
  if (at)
    return device.launchBatch(launches, at, static_cast<int64_t>(table.size()),
                              blocks);
  for (const KernelLaunch &each : launches)
    device.launchAlone(each);
}

void *LaunchBatches::place(const std::vector<uint64_t> &table) {
  auto [it, added] = known.try_emplace(table, used);
  char *target = static_cast<char *>(memory->data) + it->second;
  if (!added)
    return target;
  auto bytes = static_cast<int64_t>(table.size() * sizeof(uint64_t));
  if (used + bytes > memory->bytes) {
    known.erase(it);
    return nullptr;
  }
  char *source = static_cast<char *>(pinned->data) + used;
  device.hostAccess(source, bytes, true);
  std::memcpy(source, table.data(), static_cast<size_t>(bytes));
  device.enqueueUpload(source, target, bytes);
  used += ceilDiv(bytes, 16) * 16;
  return target;
}
