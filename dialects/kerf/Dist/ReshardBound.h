//===- ReshardBound.h - bytes that no way to a layout avoids ----*- C++ -*-===//
//
// For ReshardSearch: a lower bound on the elements that all ranks receive on
// any way from a state to the target.
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
  /// `sizes` of the atoms; those in `time` are of axes in time. `shape` and
  /// `sizes` must outlive it.
  ReshardBound(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> sizes,
               uint32_t time, const ReshardState &target);

  /// Elements, summed over the ranks that the atoms tell apart; 0 where these
  /// are more than 4096.
  Wide minElements(const ReshardState &state) const;

private:
  /// A dimension in parts: the atoms whose digits number them, and the elements
  /// of a part but for the last ones, which may have less.
  struct Cut {
    llvm::ArrayRef<uint8_t> list;
    int64_t size, block;
  };
  /// What a state has of a dimension and what the target has of it.
  struct Pair {
    Cut held, needed;
  };
  /// Dimensions that share no atom with others.
  struct Group {
    uint32_t mask; ///< the atoms of its cuts
    llvm::SmallVector<Pair, 2> pairs;
  };
  Cut cut(const ReshardState &state, size_t dim) const;
  bool isEven(const Cut &cut) const;
  /// Takes the atoms off both that are in front of both, if both are even: what
  /// is left is the same in each of the parts that they make.
  void dropCommon(Pair &pair) const;
  /// Elements that a rank holds and needs, summed over ranks. Of one rank they
  /// are a product over dimensions; so the sum is a product over groups of
  /// them, in the time of the ranks that the largest group tells apart.
  Wide numCommon(const ReshardState &state) const;
  int64_t numCommon(const Group &group) const;
  /// Ranks that these atoms tell apart; those in time tell none.
  int64_t numRanksOf(uint32_t mask) const;

  llvm::ArrayRef<int64_t> shape;
  llvm::ArrayRef<int64_t> sizes; ///< of atoms
  ReshardState target;
  uint32_t all = 0, time; ///< atoms, and those in time
  int64_t numRanks = 1;
  /// Elements, summed over the ranks that need them; and each counted once (per
  /// part of what stays partial).
  Wide numNeeded = 0, numElements = 0;
};

} // namespace kerf::dist

#endif // KERF_DIST_RESHARDBOUND_H
