//===- ReshardSearch.h - shortest paths between layouts ---------*- C++ -*-===//
//
// A state lists the atoms (ReshardQuery.h) of each dimension and the partial
// ones; the steps of Reshard.h are the edges, the elements that they send the
// lengths. A* with the bound of ReshardBound.h; among ways of equal bounds
// those that sent least so far go first. Atoms in a common prefix of a
// dimension never move (if it divides the dimension): with k moving atoms and r
// dimensions there are at most (r+1)^k k! states: thousands for five, of which
// some ten are looked at.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_RESHARDSEARCH_H
#define KERF_DIST_RESHARDSEARCH_H

#include "ReshardBound.h"
#include "ReshardQuery.h"

#include "llvm/ADT/StringMap.h"

#include <deque>
#include <limits>
#include <queue>

namespace kerf::dist {

struct ReshardCost {
  Wide elements = 0; ///< that all ranks send together
  int collectives = 0, steps = 0;
  static ReshardCost infinite() {
    return {std::numeric_limits<Wide>::max(), 0, 0};
  }
  bool operator<(const ReshardCost &other) const {
    return std::tie(elements, collectives, steps) <
           std::tie(other.elements, other.collectives, other.steps);
  }
};

class ReshardSearch {
public:
  /// `query` must outlive it.
  explicit ReshardSearch(const ReshardQuery &query)
      : shape(query.shape), sizes(query.sizes), time(query.time),
        target(query.to), bound(shape, sizes, time, target) {
    for (size_t atom = 0; atom < sizes.size(); ++atom)
      numRanks *= isTime(atom) ? 1 : sizes[atom];
  }
  /// None if there is no way.
  std::optional<ReshardWay> run(const ReshardState &start);

private:
  struct Node {
    ReshardState state;
    ReshardCost cost;
    int parent = -1;
    ReshardMove move;
    Wide least = -1; ///< elements of a way on to the target; -1: unknown
    bool done = false;
  };

  bool fixPrefixes(const ReshardState &start);

  int64_t parts(llvm::ArrayRef<uint8_t> list) const {
    int64_t result = 1;
    for (uint8_t atom : list)
      result *= sizes[atom];
    return result;
  }
  int64_t local(const ReshardState &state, size_t dim) const {
    int64_t block = state.block(dim);
    return block ? block : localSize(shape[dim], parts(state.dim(dim)));
  }
  /// Sets and normalizes the blocks of a dimension whose atoms are set.
  void setBlock(ReshardState &state, size_t dim, int64_t block) const;
  Wide localElements(const ReshardState &state) const {
    Wide elements = 1;
    for (size_t dim = 0; dim < shape.size(); ++dim)
      elements *= local(state, dim);
    return elements;
  }
  bool isTime(uint8_t atom) const { return time >> atom & 1; }
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
  /// Of a collective: elements of the full logical buffer of a group.
  Wide bufferElements(const ReshardMove &move, const ReshardState &from,
                      const ReshardState &to) const;
  /// By all ranks together.
  Wide elementsSent(const ReshardMove &move, const ReshardState &from,
                    const ReshardState &to) const;

  void relax(int index, ReshardMove move, ReshardState next);
  void relaxPermute(int index, ReshardState next);
  void expand(int index);
  void expandGathers(int index, size_t dim);
  void expandCuts(int index, size_t dim);
  void expandReductions(int index);
  void expandPermutes(int index);

  llvm::ArrayRef<int64_t> shape, sizes;
  uint32_t time;
  Wide numRanks = 1;
  llvm::SmallVector<size_t, 4> fixed; // per dimension: atoms that never move
  const ReshardState &target;
  ReshardBound bound;
  enum { kStart, kGoal }; ///< numbers of nodes
  std::deque<Node> nodes; ///< states are referred to while nodes are added
  /// Nodes by the key of their state.
  llvm::StringMap<int, llvm::BumpPtrAllocator> index;
  /// Elements of a way that may go on from here; elements, collectives and
  /// steps so far; the node.
  using Entry = std::tuple<Wide, Wide, int, int, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
};

} // namespace kerf::dist

#endif // KERF_DIST_RESHARDSEARCH_H
