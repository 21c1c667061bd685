//===- TouchedRanges.h - the bytes that a library call touches --*- C++ -*-===//
#ifndef KERF_RUNTIME_DEVICE_TOUCHEDRANGES_H
#define KERF_RUNTIME_DEVICE_TOUCHEDRANGES_H

#include "../package/Manifest.h"

#include <vector>

namespace kerf::rt {

/// A range of one of a call's buffers: one operand.
struct TouchedRange {
  int64_t buffer, begin, bytes;
  bool reads, writes;
  kerf_dtype_t dtype;
};

/// What a call touches of its buffers; follows from its descriptor: an operand
/// extends from its offset to its last element. What a kernel may do instead of
/// the call (BiasGradient, ReluGradient) is not in it.
std::vector<TouchedRange> touchedRanges(const LibraryDesc &desc);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_TOUCHEDRANGES_H
