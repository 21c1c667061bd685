//===- Reshard.h - from one layout to another in few bytes ------*- C++ -*-===//
//
// decomposeReshard() gives the collectives that bring a tensor from one layout
// to another on the same mesh. Planner and partitioner call the same function,
// so the bytes that are planned are the bytes that are executed.
//
// The steps, on a tensor whose dimension d is cut by the axes X then R
// (major to minor), with c = the digits that they stand for:
//
//   all_gather      d: X R -> X                    copies what others hold
//   all_slice       d: X   -> X R                  local: keeps a part
//   all_to_all      d: X R -> X,  e: Y -> Y R      moves axes between dims
//   reduce_scatter  R partial,  d: X -> X R        adds and keeps a part
//   all_reduce      R partial -> replicated        adds
//   permute         equal local shapes             hands whole blocks on
//
// Blocks have ceiling size, so cutting a block again need not give the blocks
// of the finer cut: with D = 5, 2 x 2 ways give [0,2) [2,4) [4,5) [5,5), but 2
// ways [0,3) [3,5). A step on R inside X is therefore legal only where |R|
// ceil(D/|XR|) = ceil(D/|X|), or X is empty: then the padding is at the end,
// where the collectives remove it. Blocks with a size of their own (Layout.h)
// count with that size: the larger ones must consist of the smaller ones, and
// only those of `from` or `to` occur on the way.
//
// Found by a shortest-path search over the layouts that these steps reach, by
// fewest bytes, then fewest collectives, then fewest steps. Axes that stay in
// place are left out, so the usual search has a handful of states.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_RESHARD_H
#define KERF_DIST_RESHARD_H

#include "kerf/Dist/Layout.h"
#include "kerf/Format/Collectives.h"

#include <limits>
#include <memory>

namespace kerf::dist {

/// Saturated: bytes of several ranks can pass 64 bits.
inline int64_t saturate(__int128 value) {
  constexpr int64_t max = std::numeric_limits<int64_t>::max();
  return value > max ? max : static_cast<int64_t>(value);
}

struct ReshardStep {
  /// None: all_slice, which is local.
  std::optional<CollectiveKind> kind;
  /// The group, major to minor: a rank's position is linearIndex() over them.
  AxisList axes;
  /// The dimension that is scattered, gathered, sliced, or (all_to_all) split.
  int64_t dim = -1;
  /// all_to_all: the dimension that is joined.
  int64_t concatDim = -1;
  ReductionKind reduction = ReductionKind::Sum;
  /// permute: (from, to) positions in the group, each once on either side.
  llvm::SmallVector<std::pair<int64_t, int64_t>, 0> pairs;
  /// Layout and local shape after the step.
  Layout layout;
  llvm::SmallVector<int64_t> localShape;

  int64_t groupSize = 1;
  /// Bytes that the ranks of one group send together (padding included).
  int64_t groupBytes = 0;
  /// S of the cost model: bytes of the full logical buffer of one group.
  int64_t bufferBytes = 0;

  bool isLocal() const { return !kind; }
  /// "all_reduce", ...
  std::string_view name() const {
    return kind ? collectiveName(*kind) : "all_slice";
  }
};

struct Reshard {
  llvm::SmallVector<ReshardStep, 0> steps;
  /// Bytes that all ranks of the mesh send together.
  int64_t totalBytes = 0;
};

/// The cheapest steps from `from` to `to` for a tensor of `shape` (global) with
/// `elementBytes` per element. Both layouts must pass checkLayout(). Partial
/// axes of `to` must be partial in `from` with the same reduction. None if `to`
/// is partial over other axes than `from`, or if an axis in time would have to
/// be gathered, moved or reduced. Deterministic. Pure; safe from any thread.
std::optional<Reshard> decomposeReshard(const Layout &from, const Layout &to,
                                        llvm::ArrayRef<int64_t> shape,
                                        int64_t elementBytes, const Mesh &mesh);

/// Ways that are known, for every mesh: two pairs of layouts that differ in the
/// names of their axes, in the order of dimensions and in sizes that are cut
/// evenly alike have one (ReshardQuery.h). Not thread-safe.
class ReshardWays {
public:
  ReshardWays();
  ~ReshardWays();
  /// The result of decomposeReshard().
  std::optional<Reshard> find(const Layout &from, const Layout &to,
                              llvm::ArrayRef<int64_t> shape,
                              int64_t elementBytes, const Mesh &mesh);

private:
  struct Table;
  std::unique_ptr<Table> table;
};

} // namespace kerf::dist

#endif // KERF_DIST_RESHARD_H
