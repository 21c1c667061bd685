//===- Arena.h - offsets for buffers with known lives -----------*- C++ -*-===//
//
// Problem: intervals in time with sizes; give each an offset so that intervals
// that meet in time do not overlap in space, using little space. (Dynamic
// storage allocation; NP-hard.)
//
// Solvers: first fit: each buffer in turn takes the lowest gap that is free
// over its whole life; the largest first. Where that needs more than the bound,
// what ended at the top is placed first in the next round. Then best fit
// (Sekiyama et al., Profile-guided memory optimization for deep neural
// networks, 2018): the lowest place is filled first, with what lives longest of
// all that fits there, or by other orders (size times life, time, size), which
// also first fit tries: whichever needs least. Bound: the largest sum of sizes
// that are live at one time; nearly all functions of networks reach it. O(n^2)
// at worst for each of a few dozen rounds. planArena never exceeds the sum of
// all sizes.
//
// Everything is rounded up to multiples of the alignment.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FUSION_ARENA_H
#define KERF_FUSION_ARENA_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <string>

namespace kerf {

/// Live in steps [begin, end], both included.
struct ArenaBuffer {
  int64_t begin = 0, end = 0;
  int64_t sizeBytes = 0;
};

struct ArenaPlan {
  llvm::SmallVector<int64_t> offsets; ///< one per buffer, in bytes
  int64_t totalBytes = 0;
  int64_t lowerBoundBytes = 0;
};

/// Offsets that are multiples of `alignment` (a power of two). Buffers of equal
/// size are placed in the order given. None if the sizes overflow 63 bits.
std::optional<ArenaPlan> planArena(llvm::ArrayRef<ArenaBuffer> buffers,
                                   int64_t alignment);

/// Empty if the plan is correct, else the first error in it.
std::string checkArena(llvm::ArrayRef<ArenaBuffer> buffers,
                       const ArenaPlan &plan, int64_t alignment);

} // namespace kerf

#endif // KERF_FUSION_ARENA_H
