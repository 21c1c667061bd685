//===- ReshardSearch.h - shortest paths between layouts ---------*- C++ -*-===//
//
// Axes are split into atoms: the coarsest digits from which every axis
// reference of both layouts can be composed. A state lists the atoms of each
// dimension and the partial ones; the steps of Reshard.h are the edges, their
// bytes the lengths. A* with the bound of ReshardBound.h; among ways of equal
// bounds those that sent least so far go first. Atoms in a common prefix of a
// dimension never move (if it divides the dimension), nor do atoms that neither
// layout names: with k moving atoms and r dimensions there are at most
// (r+1)^k k! states: thousands for five, of which some ten are looked at.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_RESHARDSEARCH_H
#define KERF_DIST_RESHARDSEARCH_H

#include "ReshardBound.h"
#include "ReshardState.h"

#include "kerf/Dist/Reshard.h"

#include "llvm/ADT/StringMap.h"

#include <deque>
#include <limits>
#include <queue>

namespace kerf::dist {

struct ReshardCost {
  Wide bytes = 0;
  int collectives = 0, steps = 0;
  static ReshardCost infinite() {
    return {std::numeric_limits<Wide>::max(), 0, 0};
  }
  bool operator<(const ReshardCost &other) const {
    return std::tie(bytes, collectives, steps) <
           std::tie(other.bytes, other.collectives, other.steps);
  }
};

/// An edge of the search.
struct ReshardMove {
  std::optional<CollectiveKind> kind; ///< as in ReshardStep
  AtomList atoms;
  int64_t dim = -1, concatDim = -1;
  int64_t movedPairs = 0; ///< permute: positions that get another block
};

class ReshardSearch {
public:
  ReshardSearch(llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                const Mesh &mesh, ReductionKind reduction)
      : shape(shape), elementBytes(elementBytes), mesh(mesh),
        reduction(reduction) {}

  /// Atoms of both layouts; false if an axis has no common ones (it is put in
  /// `conflict`) or there are more than 32.
  bool makeAtoms(const Layout &from, const Layout &to, unsigned &conflict);
  /// Appends the steps and bytes to `result`; false if there is no way.
  bool run(const Layout &from, const Layout &to, Reshard &result);

private:
  struct Node {
    ReshardState state;
    ReshardCost cost;
    int parent = -1;
    ReshardMove move;
    Wide leastBytes = -1; ///< that a way on to the target takes; -1: unknown
    bool done = false;
  };

  AtomList toAtoms(llvm::ArrayRef<AxisRef> axes) const;
  AxisList toAxes(llvm::ArrayRef<uint8_t> list) const;
  ReshardState toState(const Layout &layout) const;
  Layout toLayout(const ReshardState &state) const;
  bool fixPrefixes(const ReshardState &start);

  int64_t parts(llvm::ArrayRef<uint8_t> list) const {
    int64_t result = 1;
    for (uint8_t atom : list)
      result *= atoms[atom].size;
    return result;
  }
  int64_t local(const ReshardState &state, size_t dim) const {
    int64_t block = state.block(dim);
    return block ? block : localSize(shape[dim], parts(state.dim(dim)));
  }
  /// Sets and normalizes the blocks of a dimension whose atoms are set.
  void setBlock(ReshardState &state, size_t dim, int64_t block) const;
  Wide localBytes(const ReshardState &state) const {
    Wide bytes = elementBytes;
    for (size_t dim = 0; dim < shape.size(); ++dim)
      bytes *= local(state, dim);
    return bytes;
  }
  bool isTime(uint8_t atom) const { return mesh.axes[atoms[atom].axis].isTime; }
  /// The block size of `dim` (0: ceiling size) when `inner` more parts cut it,
  /// or when its last `inner` of `outer` times `inner` parts are gathered: the
  /// larger blocks consist of the smaller ones.
  using Blocks = llvm::SmallVector<int64_t, 2>;
  Blocks blocksWhenCut(const ReshardState &state, size_t dim,
                       int64_t inner) const;
  Blocks blocksWhenGathered(const ReshardState &state, size_t dim,
                            int64_t outer, int64_t inner) const;
  /// The block that each position of the group of a permute has, and the one
  /// that it needs.
  struct PermutedBlocks {
    llvm::SmallVector<int64_t, 64> held, wanted;
  };
  std::optional<PermutedBlocks> matchBlocks(const ReshardState &from,
                                            const ReshardState &to,
                                            ReshardMove &move) const;
  Wide moveBytes(const ReshardMove &move, const ReshardState &from,
                 const ReshardState &to, ReshardStep *step) const;

  void relax(int index, ReshardMove move, ReshardState next);
  void relaxPermute(int index, ReshardState next);
  void expand(int index);
  void expandGathers(int index, size_t dim);
  void expandCuts(int index, size_t dim);
  void expandReductions(int index);
  void expandPermutes(int index);

  llvm::ArrayRef<int64_t> shape;
  int64_t elementBytes;
  const Mesh &mesh;
  ReductionKind reduction;
  llvm::SmallVector<AxisRef, 8> atoms;
  llvm::SmallVector<size_t, 4> fixed; // per dimension: atoms that never move
  ReshardState target;
  std::optional<ReshardBound> bound;
  enum { kStart, kGoal }; ///< numbers of nodes
  std::deque<Node> nodes; ///< states are referred to while nodes are added
  /// Nodes by the key of their state.
  llvm::StringMap<int, llvm::BumpPtrAllocator> index;
  /// Bytes of a way that may go on from here; bytes, collectives and steps so
  /// far; the node.
  using Entry = std::tuple<Wide, Wide, int, int, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
};

} // namespace kerf::dist

#endif // KERF_DIST_RESHARDSEARCH_H
