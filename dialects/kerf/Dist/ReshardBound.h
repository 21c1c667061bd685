//===- ReshardBound.h - bytes that no way to a layout avoids ----*- C++ -*-===//
//
// For ReshardSearch: a lower bound on the bytes that all ranks receive on any
// way from a state to the target.
//
// Without open reductions: each rank must receive what it needs and does not
// hold. With n shares of each element that must be reduced and R ranks that
// need the element: somebody is the first to have the sum, and n - 1 messages
// went before; each of the other R - 1 ranks gets it, or completes its own, by
// a message that comes later. So n - 1 + R - 1 messages per element.
//
// No step sends fewer bytes than the bound falls by (which A* needs). Padding
// is not counted, though collectives send it, and of axes in time the first
// part stands for all. Example: 8 elements cut by x = 2 that both ranks need:
// each lacks 4, and all_gather sends just these 8.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_RESHARDBOUND_H
#define KERF_DIST_RESHARDBOUND_H

#include "ReshardState.h"

#include "kerf/Dist/Layout.h"

namespace kerf::dist {

class ReshardBound {
public:
  /// `shape` and `atoms` must outlive it.
  ReshardBound(llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
               const Mesh &mesh, llvm::ArrayRef<AxisRef> atoms,
               const ReshardState &target);

  /// Bytes, summed over the mesh. O(ranks x atoms); 0 where the atoms tell more
  /// than 4096 ranks apart.
  Wide leastBytes(const ReshardState &state) const;

private:
  struct Interval {
    int64_t begin, end;
  };
  using Intervals = llvm::SmallVector<Interval, 64>;
  /// What each rank, counted over the atoms in space, has of `dim`.
  Intervals held(const ReshardState &state, size_t dim) const;

  llvm::ArrayRef<int64_t> shape;
  llvm::ArrayRef<AxisRef> atoms;
  uint32_t kept; ///< atoms that are partial in the target
  int64_t numRanks = 1;
  /// By atom: the digit of each rank; all 0 of an atom in time.
  llvm::SmallVector<llvm::SmallVector<int64_t, 64>, 8> digits;
  Wide scale; ///< bytes of an element, times the ranks that one stands for
  llvm::SmallVector<Intervals, 4> needed; ///< by dimension
  /// Elements, summed over the ranks that need them; and each counted once (per
  /// part of what stays partial).
  Wide numNeeded = 0, numElements = 0;
};

} // namespace kerf::dist

#endif // KERF_DIST_RESHARDBOUND_H
