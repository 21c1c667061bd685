//===- Volume.cpp - bytes that a collective moves -------------------------===//
//
// Formulas come from Format/Collectives.def; sources: docs/CostModel.md.
//
//===----------------------------------------------------------------------===//
#include "kerf/Cost/Volume.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <cassert>

using namespace kerf;
using namespace kerf::cost;

llvm::StringRef kerf::cost::toString(VolumeModel model) {
  return model == VolumeModel::Ring ? "ring" : "article";
}

std::optional<VolumeModel> kerf::cost::parseVolumeModel(llvm::StringRef name) {
  for (VolumeModel model : {VolumeModel::Ring, VolumeModel::Article})
    if (toString(model) == name)
      return model;
  return std::nullopt;
}

Volume kerf::cost::collectiveVolume(VolumeModel model, CollectiveKind kind,
                                    int64_t bufferBytes, int64_t groupSize) {
  assert(bufferBytes >= 0 && groupSize >= 1);
  if (groupSize == 1 || bufferBytes == 0)
    return {};
  Int128 s = bufferBytes, n = groupSize;
#define KERF_COLLECTIVE_VOLUME(KIND, MODEL, FORMULA, TOTAL, BUSIEST, STEPS)    \
  if (kind == CollectiveKind::KIND && model == VolumeModel::MODEL) {           \
    Int128 total = TOTAL;                                                      \
    [[maybe_unused]] Int128 share = ceilDivide(total, n);                      \
    return {total, saturate(BUSIEST), static_cast<int64_t>(STEPS)};            \
  }
#include "kerf/Format/Collectives.def"
  llvm_unreachable("bad CollectiveKind");
}

llvm::StringRef kerf::cost::volumeFormula(VolumeModel model,
                                          CollectiveKind kind) {
#define KERF_COLLECTIVE_VOLUME(KIND, MODEL, FORMULA, TOTAL, BUSIEST, STEPS)    \
  if (kind == CollectiveKind::KIND && model == VolumeModel::MODEL)             \
    return FORMULA;
#include "kerf/Format/Collectives.def"
  llvm_unreachable("bad CollectiveKind");
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
