//===- Volume.h - bytes that a collective moves -----------------*- C++ -*-===//
//
// Two models of one interface. `ring` counts what good algorithms (and our
// runtime) send; `article` counts as the source article does: every device
// sends its contribution to every other one. Both count the *group total*, an
// exact integer for any group size.
//
//   S = bytes of the full logical buffer (padding included), N = group size
//
// The formulas of collectives stand in Format/Collectives.def; a send of S
// bytes costs S in both models.
//
// A group of one moves nothing. `communication` in plan.json is always `ring`;
// the model in use changes only the objective.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_COST_VOLUME_H
#define KERF_COST_VOLUME_H

#include "kerf/Cost/Integers.h"
#include "kerf/Format/Collectives.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace kerf::cost {

enum class VolumeModel { Ring, Article };
llvm::StringRef toString(VolumeModel model);
std::optional<VolumeModel> parseVolumeModel(llvm::StringRef name);

struct Volume {
  /// Sum over the ranks of the group of the bytes that they send.
  Int128 totalBytes = 0;
  /// The share of the busiest rank.
  int64_t bytesPerRank = 0;
  /// Messages that follow each other; each pays the latency.
  int64_t steps = 0;
};

/// `bufferBytes` is S above, >= 0; `groupSize` >= 1. Saturates bytesPerRank;
/// totalBytes is exact for any int64 S and N up to 2^31.
Volume collectiveVolume(VolumeModel model, CollectiveKind kind,
                        int64_t bufferBytes, int64_t groupSize);

/// A formula of the collective's total for people: "2(N-1)S".
llvm::StringRef volumeFormula(VolumeModel model, CollectiveKind kind);

/// The article's three pure cuts, in bytes over all devices
/// (docs/CostModel.md): Par * Byte * N * (N-1).
Int128 articleDataParallelBytes(int64_t parameters, int64_t bytesPerElement,
                                int64_t numDevices);
/// sum_i out_i * Byte * N * (N-1); out_i = output elements on each device of
/// the layers that need to communicate.
Int128 articleVerticalBytes(llvm::ArrayRef<int64_t> outputElements,
                            int64_t bytesPerElement, int64_t numDevices);
/// sum_i out_i * Byte; out_i = elements that stage i hands to the next one for
/// the whole batch (0 for the last).
Int128 articleHorizontalBytes(llvm::ArrayRef<int64_t> handedOnElements,
                              int64_t bytesPerElement);

/// The same three under `ring`, as totals over all devices of a training step:
/// gradients all-reduced once; activations all-reduced (`allReduces` lists the
/// elements of each); activations forward and their gradients back.
Int128 ringDataParallelBytes(int64_t parameters, int64_t bytesPerElement,
                             int64_t numDevices);
Int128 ringVerticalBytes(llvm::ArrayRef<int64_t> allReduceElements,
                         int64_t bytesPerElement, int64_t numDevices);
Int128 ringHorizontalBytes(llvm::ArrayRef<int64_t> handedOnElements,
                           int64_t bytesPerElement);

} // namespace kerf::cost

#endif // KERF_COST_VOLUME_H
