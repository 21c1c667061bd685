//===- CollectiveBytes.h - bytes of collectives from shapes -----*- C++ -*-===//
//
// The formulas of Format/Collectives.def, for callers that know local shapes.
// They count S, the bytes of the full logical buffer, which follows from the
// properties of a collective and a part: the operand, or of a collective that
// cuts, its part in the result.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_SUPPORT_COLLECTIVEBYTES_H
#define KERF_SUPPORT_COLLECTIVEBYTES_H

#include "kerf/Format/Collectives.h"

namespace kerf {

/// S: a part for each member that a dimension is cut for and for each whose
/// parts are joined; of a permute, for each of `movedPairs` that are not (i,
/// i).
inline __int128 fullBufferBytes(CollectiveKind kind, __int128 groupSize,
                                __int128 partBytes, __int128 movedPairs) {
  return partBytes * (cuts(kind) ? groupSize : 1) *
         (joins(kind) ? groupSize : 1) * (hasPairs(kind) ? movedPairs : 1);
}

/// Bytes that all members of a group send together in one execution, under the
/// model Ring. Below 2^127 for any int64 part and up to 2^20 members.
inline __int128 ringGroupBytes(CollectiveKind kind, __int128 n, __int128 s) {
  [[maybe_unused]] auto ceilDivide = [](__int128 a, __int128 b) {
    return (a + b - 1) / b;
  };
  enum { Ring, Article };
  if (n == 1)
    return 0;
#define KERF_COLLECTIVE_VOLUME(KIND, MODEL, FORMULA, TOTAL, BUSIEST, STEPS)    \
  if (MODEL == Ring && kind == CollectiveKind::KIND)                           \
    return TOTAL;
#include "kerf/Format/Collectives.def"
  return 0;
}

} // namespace kerf

#endif // KERF_SUPPORT_COLLECTIVEBYTES_H
