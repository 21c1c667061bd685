//===- Volume.cpp - bytes that a collective moves -------------------------===//
//
// One table, two models. Totals first, as exact integers; the busiest rank's
// share follows. Sources: docs/CostModel.md.
//
//===----------------------------------------------------------------------===//
#include "kerf/Cost/Volume.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <cassert>

using namespace kerf::cost;

static constexpr Collective kAllCollectives[] = {
    Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather,
    Collective::AllToAll,  Collective::Broadcast,     Collective::Send,
    Collective::Permute};

llvm::StringRef kerf::cost::toString(Collective kind) {
  switch (kind) {
  case Collective::AllReduce:
    return "all_reduce";
  case Collective::ReduceScatter:
    return "reduce_scatter";
  case Collective::AllGather:
    return "all_gather";
  case Collective::AllToAll:
    return "all_to_all";
  case Collective::Broadcast:
    return "broadcast";
  case Collective::Send:
    return "send";
  case Collective::Permute:
    return "permute";
  }
  llvm_unreachable("bad Collective");
}

std::optional<Collective> kerf::cost::parseCollective(llvm::StringRef name) {
  for (Collective kind : kAllCollectives)
    if (toString(kind) == name)
      return kind;
  return std::nullopt;
}

llvm::StringRef kerf::cost::toString(VolumeModel model) {
  return model == VolumeModel::Ring ? "ring" : "article";
}

std::optional<VolumeModel> kerf::cost::parseVolumeModel(llvm::StringRef name) {
  for (VolumeModel model : {VolumeModel::Ring, VolumeModel::Article})
    if (toString(model) == name)
      return model;
  return std::nullopt;
}

static Int128 totalBytes(VolumeModel model, Collective kind, Int128 s,
                         Int128 n) {
  switch (kind) {
  case Collective::AllReduce:
    return (model == VolumeModel::Ring ? 2 : n) * (n - 1) * s;
  case Collective::ReduceScatter:
  case Collective::AllGather:
  case Collective::Broadcast:
    return (n - 1) * s;
  case Collective::AllToAll:
    return ceilDivide((n - 1) * s, n);
  case Collective::Send:
  case Collective::Permute:
    return s;
  }
  llvm_unreachable("bad Collective");
}

Volume kerf::cost::collectiveVolume(VolumeModel model, Collective kind,
                                    int64_t bufferBytes, int64_t groupSize) {
  assert(bufferBytes >= 0 && groupSize >= 1);
  if (groupSize == 1 || bufferBytes == 0)
    return {};
  bool ring = model == VolumeModel::Ring;
  Int128 s = bufferBytes, n = groupSize;
  Volume volume;
  volume.totalBytes = totalBytes(model, kind, s, n);
  Int128 share = ceilDivide(volume.totalBytes, n);
  int64_t ringSteps = groupSize - 1;
  switch (kind) {
  case Collective::AllReduce:
    ringSteps *= 2;
    break;
  case Collective::Send:
    share = s;
    ringSteps = 1;
    break;
  case Collective::Broadcast:
    share = ring ? s : (n - 1) * s;
    break;
  case Collective::Permute:
    ringSteps = 1;
    break;
  case Collective::ReduceScatter:
  case Collective::AllGather:
  case Collective::AllToAll:
    break;
  }
  volume.bytesPerRank = saturate(share);
  volume.steps = ring ? ringSteps : 1;
  return volume;
}

llvm::StringRef kerf::cost::volumeFormula(VolumeModel model, Collective kind) {
  switch (kind) {
  case Collective::AllReduce:
    return model == VolumeModel::Ring ? "2(N-1)S" : "N(N-1)S";
  case Collective::ReduceScatter:
  case Collective::AllGather:
  case Collective::Broadcast:
    return "(N-1)S";
  case Collective::AllToAll:
    return "(N-1)S/N";
  case Collective::Send:
  case Collective::Permute:
    return "S";
  }
  llvm_unreachable("bad Collective");
}

// Sums of element counts stay exact: each is below 2^63.
static Int128 sum(llvm::ArrayRef<int64_t> elements) {
  Int128 total = 0;
  for (int64_t count : elements)
    total += count;
  return total;
}

Int128 kerf::cost::articleDataParallelBytes(int64_t parameters,
                                            int64_t bytesPerElement,
                                            int64_t numDevices) {
  Int128 n = numDevices;
  return Int128(parameters) * bytesPerElement * n * (n - 1);
}

Int128 kerf::cost::articleVerticalBytes(llvm::ArrayRef<int64_t> outputElements,
                                        int64_t bytesPerElement,
                                        int64_t numDevices) {
  Int128 n = numDevices;
  return sum(outputElements) * bytesPerElement * n * (n - 1);
}

Int128
kerf::cost::articleHorizontalBytes(llvm::ArrayRef<int64_t> handedOnElements,
                                   int64_t bytesPerElement) {
  return sum(handedOnElements) * bytesPerElement;
}

Int128 kerf::cost::ringDataParallelBytes(int64_t parameters,
                                         int64_t bytesPerElement,
                                         int64_t numDevices) {
  return 2 * Int128(numDevices - 1) * parameters * bytesPerElement;
}

Int128 kerf::cost::ringVerticalBytes(llvm::ArrayRef<int64_t> allReduceElements,
                                     int64_t bytesPerElement,
                                     int64_t numDevices) {
  return 2 * Int128(numDevices - 1) * sum(allReduceElements) * bytesPerElement;
}

Int128 kerf::cost::ringHorizontalBytes(llvm::ArrayRef<int64_t> handedOnElements,
                                       int64_t bytesPerElement) {
  return 2 * sum(handedOnElements) * bytesPerElement;
}
