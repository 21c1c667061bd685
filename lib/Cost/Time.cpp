//===- Time.cpp - seconds from bytes and operations -----------------------===//
//
// A group that spans k nodes with g ranks each works in two levels: inside the
// nodes first, then g rings of k ranks over the network at once, each on 1/g of
// the buffer. Ports shared by several rings divide their bandwidth. A measured
// curve replaces latency and bandwidth of the local link: a collective is
// looked up by the bytes that its busiest rank sends.
//
//===----------------------------------------------------------------------===//
#include "kerf/Cost/Time.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <cassert>

using namespace kerf;
using namespace kerf::cost;

//===----------------------------------------------------------------------===//
// Placement
//===----------------------------------------------------------------------===//

GroupPlacement kerf::cost::placeStrided(const Machine &machine,
                                        int64_t numRanks,
                                        llvm::ArrayRef<int64_t> strides,
                                        llvm::ArrayRef<int64_t> sizes) {
  assert(strides.size() == sizes.size());
  llvm::SmallVector<int64_t> offsets = {0};
  for (auto [stride, size] : llvm::zip(strides, sizes)) {
    llvm::SmallVector<int64_t> next;
    for (int64_t c = 0; c < size; ++c)
      for (int64_t offset : offsets)
        next.push_back(offset + c * stride);
    offsets = std::move(next);
  }
  GroupPlacement placement;
  placement.size = static_cast<int64_t>(offsets.size());
  if (placement.size == 1)
    return placement;
  // A rank is the first of its group iff all its coordinates are zero.
  auto isFirst = [&](int64_t rank) {
    for (auto [stride, size] : llvm::zip(strides, sizes))
      if (rank / stride % size != 0)
        return false;
    return true;
  };
  int64_t perNode = std::max<int64_t>(machine.devicesPerNode, 1);
  llvm::DenseMap<int64_t, int64_t> groupsOnNode;
  int64_t worstNodes = 0;
  for (int64_t base = 0; base < numRanks; ++base) {
    if (!isFirst(base) || base + offsets.back() >= numRanks)
      continue;
    llvm::SmallDenseMap<int64_t, int64_t> membersOnNode;
    int64_t max = 0;
    for (int64_t offset : offsets)
      max = std::max(max, ++membersOnNode[(base + offset) / perNode]);
    auto nodes = static_cast<int64_t>(membersOnNode.size());
    if (nodes > worstNodes) {
      worstNodes = nodes;
      placement.ranksPerNode = max;
    }
    for (auto &[node, members] : membersOnNode)
      ++groupsOnNode[node];
  }
  placement.numNodes = std::max<int64_t>(worstNodes, 1);
  for (auto &[node, groups] : groupsOnNode)
    placement.groupsPerNode = std::max(placement.groupsPerNode, groups);
  return placement;
}

GroupPlacement kerf::cost::placeGroup(const Machine &machine,
                                      llvm::ArrayRef<int64_t> meshSizes,
                                      llvm::ArrayRef<unsigned> axes) {
  llvm::SmallVector<int64_t> meshStrides(meshSizes.size(), 1);
  int64_t numRanks = 1;
  for (size_t axis = meshSizes.size(); axis-- > 0;) {
    meshStrides[axis] = numRanks;
    numRanks *= meshSizes[axis];
  }
  llvm::SmallVector<int64_t> strides, sizes;
  for (unsigned axis : axes) {
    strides.push_back(meshStrides[axis]);
    sizes.push_back(meshSizes[axis]);
  }
  return placeStrided(machine, numRanks, strides, sizes);
}

GroupPlacement kerf::cost::placePair(const Machine &machine, int64_t numRanks,
                                     int64_t stride) {
  int64_t perNode = std::max<int64_t>(machine.devicesPerNode, 1);
  GroupPlacement placement;
  placement.size = 2;
  placement.ranksPerNode = 2;
  // At most min(stride, perNode) ranks of a node send out of it at once.
  for (int64_t rank = 0; rank + stride < numRanks; ++rank)
    if (rank / perNode != (rank + stride) / perNode) {
      placement.numNodes = 2;
      placement.ranksPerNode = 1;
    }
  placement.groupsPerNode = std::min(stride, perNode);
  return placement;
}

//===----------------------------------------------------------------------===//
// Links
//===----------------------------------------------------------------------===//

/// How many ranks share the bandwidth of one: all traffic of a CPU machine goes
/// through its memory.
static double memoryShare(const Machine &machine) {
  if (machine.ranksThatSaturateMemory <= 0)
    return 1;
  return std::max(1.0, static_cast<double>(machine.devicesPerNode) /
                           machine.ranksThatSaturateMemory);
}

static double coreShare(const Machine &machine) {
  if (machine.cores <= 0)
    return 1;
  return std::max(1.0, static_cast<double>(machine.devicesPerNode) *
                           static_cast<double>(machine.threadsPerDevice) /
                           static_cast<double>(machine.cores));
}

static double curveSeconds(llvm::ArrayRef<Link::Point> curve, double bytes) {
  if (curve.size() == 1)
    return curve[0].seconds * bytes /
           std::max<double>(1, static_cast<double>(curve[0].bufferBytes));
  // The segment that holds `bytes`; the last one goes on for ever.
  size_t i = 1;
  while (i + 1 < curve.size() &&
         static_cast<double>(curve[i].bufferBytes) < bytes)
    ++i;
  double x0 = static_cast<double>(curve[i - 1].bufferBytes);
  double x1 = static_cast<double>(curve[i].bufferBytes);
  double y0 = curve[i - 1].seconds, y1 = curve[i].seconds;
  if (bytes < x0)
    return y0;
  return y0 + (y1 - y0) * (bytes - x0) / (x1 - x0);
}

/// `busyBytes` sent by the busiest of `groupSize` ranks in `steps` messages.
static double linkSeconds(const Link &link, double busyBytes, double steps,
                          double share) {
  if (busyBytes <= 0)
    return 0;
  if (link.allReduceCurve.empty())
    return steps * link.latencySeconds +
           share * busyBytes / std::max(link.bytesPerSecond, 1e-9);
  auto ranks = static_cast<double>(std::max<int64_t>(link.curveGroupSize, 2));
  double curveSteps = 2 * (ranks - 1);
  double equivalent = busyBytes * ranks / curveSteps;
  double seconds = share * curveSeconds(link.allReduceCurve, equivalent) +
                   (steps - curveSteps) * link.latencySeconds;
  return std::max(seconds, steps * link.latencySeconds);
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

namespace {
/// Seconds of a rank of a group that sends `bytes` in `steps` messages, within
/// its node and between nodes.
struct Levels {
  Levels(const Machine &machine, const GroupPlacement &group)
      : machine(machine),
        localShare(std::max(memoryShare(machine), coreShare(machine))) {
    if (machine.portsPerNode > 0)
      portShare = std::max(1.0, static_cast<double>(group.ranksPerNode) *
                                    static_cast<double>(group.groupsPerNode) /
                                    static_cast<double>(machine.portsPerNode));
  }
  double local(double bytes, double steps) const {
    return linkSeconds(machine.local, bytes, steps, localShare);
  }
  double network(double bytes, double steps) const {
    return linkSeconds(machine.network, bytes, steps, portShare);
  }

  const Machine &machine;
  double localShare, portShare = 1;
};
} // namespace

double kerf::cost::collectiveSeconds(const Machine &machine,
                                     CollectiveKind kind, int64_t bufferBytes,
                                     const GroupPlacement &group) {
  if (group.size <= 1 || bufferBytes <= 0)
    return 0;
  Levels levels(machine, group);
  if (group.numNodes <= 1) {
    Volume volume =
        collectiveVolume(VolumeModel::Ring, kind, bufferBytes, group.size);
    return levels.local(static_cast<double>(volume.bytesPerRank),
                        static_cast<double>(volume.steps));
  }
  auto s = static_cast<double>(bufferBytes);
  auto n = static_cast<double>(group.size);
  auto g = static_cast<double>(group.ranksPerNode);
  auto k = static_cast<double>(group.numNodes);
  auto local = [&](double bytes, double steps) {
    return levels.local(bytes, steps);
  };
  auto network = [&](double bytes, double steps) {
    return levels.network(bytes, steps);
  };
  switch (kind) {
#define KERF_COLLECTIVE_SECONDS(KIND, SECONDS)                                 \
  case CollectiveKind::KIND:                                                   \
    return SECONDS;
#include "kerf/Format/Collectives.def"
  }
  llvm_unreachable("bad CollectiveKind");
}

double kerf::cost::sendSeconds(const Machine &machine, int64_t bytes,
                               const GroupPlacement &pair) {
  if (pair.size <= 1 || bytes <= 0)
    return 0;
  Levels levels(machine, pair);
  auto s = static_cast<double>(bytes);
  return pair.numNodes <= 1 ? levels.local(s, 1) : levels.network(s, 1);
}

int64_t kerf::cost::worthwhileBytes(const Machine &machine, CollectiveKind kind,
                                    const GroupPlacement &group,
                                    double latencyShare) {
  if (group.size <= 1)
    return 0;
  double latency = collectiveSeconds(machine, kind, 1, group);
  int64_t bytes = 1;
  while (bytes < int64_t(1) << 30 &&
         latency >
             latencyShare * collectiveSeconds(machine, kind, bytes, group))
    bytes *= 2;
  return bytes;
}

int64_t kerf::cost::worthPackingBytes(const Machine &machine,
                                      CollectiveKind kind,
                                      const GroupPlacement &group) {
  if (group.size <= 1)
    return 0;
  double latency = collectiveSeconds(machine, kind, 1, group);
  auto copySeconds = [&](int64_t bytes) {
    return computeSeconds(machine, ComputeClass::Elementwise, 0, 2 * bytes) -
           computeSeconds(machine, ComputeClass::Elementwise, 0, 0);
  };
  int64_t bytes = 1;
  while (bytes < int64_t(1) << 30 && copySeconds(2 * bytes) <= latency)
    bytes *= 2;
  return bytes;
}

//===----------------------------------------------------------------------===//
// Compute
//===----------------------------------------------------------------------===//

double kerf::cost::computeSeconds(const Machine &machine, ComputeClass kind,
                                  int64_t flops, int64_t bytesTouched,
                                  ElementKind elements) {
  if (kind == ComputeClass::View)
    return 0;
  const Throughput &rate = machine.throughput[static_cast<unsigned>(kind)];
  double cores = coreShare(machine);
  double arithmetic = 0, memory = 0;
  double flopsPerSecond = rate.flopsPerSecondOf(elements);
  if (flopsPerSecond > 0)
    arithmetic = cores * static_cast<double>(flops) / flopsPerSecond;
  if (rate.bytesPerSecond > 0)
    memory = std::max(cores, memoryShare(machine)) *
             static_cast<double>(bytesTouched) / rate.bytesPerSecond;
  return rate.latencySeconds * cores + std::max(arithmetic, memory);
}
