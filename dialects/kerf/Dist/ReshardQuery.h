//===- ReshardQuery.h - what a way between layouts depends on ---*- C++ -*-===//
//
// Problem: planning asks for the ways between hundreds of thousands of pairs of
// layouts, for each mesh, number of micro-batches and shape anew, and most of
// its time went into searches that differ in nothing that matters.
//
// Idea: axes are split into atoms: the coarsest digits from which every axis
// reference of both layouts can be composed. A query says of them how large
// they are, not whose they are. Atoms in front of both layouts of a dimension
// stay where they are if they divide it: they are left out, and the dimension
// is that much smaller. A dimension that all atoms together divide is as large
// as they, since whatever is cut is cut evenly, and elements of all ways scale
// alike. Dimensions are in one order. Queries that are then equal have one way,
// which is put in the names of each (NormalForm::describe). Planning a small
// Swin for 16 devices asks 360,000 times; 50,000 of them are different.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_RESHARDQUERY_H
#define KERF_DIST_RESHARDQUERY_H

#include "ReshardState.h"

#include "kerf/Dist/Reshard.h"

#include <string>
#include <vector>

namespace kerf::dist {

struct ReshardQuery {
  llvm::SmallVector<int64_t, 4> shape;
  llvm::SmallVector<int64_t, 8> sizes; ///< of atoms
  uint32_t time = 0;                   ///< atoms of axes in time
  ReshardState from, to;

  /// Equal for equal queries; raw bytes, for hashing.
  std::string key() const;
};

/// An edge of the search.
struct ReshardMove {
  std::optional<CollectiveKind> kind; ///< as in ReshardStep
  AtomList atoms;
  int64_t dim = -1, concatDim = -1;
  int64_t movedPairs = 0; ///< permute: positions that get another block
};

using ReshardPairs = llvm::SmallVector<std::pair<int64_t, int64_t>, 0>;

/// The steps of a query.
struct ReshardWay {
  struct Step {
    ReshardMove move;
    ReshardState state; ///< after it
    ReshardPairs pairs; ///< as in ReshardStep
    int64_t groupSize = 1;
    Wide bufferElements = 0; ///< of the full logical buffer of a group
  };
  std::vector<Step> steps;
};

/// The atoms of both layouts, by axis and place; none, and the axis in
/// `conflict`, where they cut one in ways that have none in common.
std::optional<AxisList> commonAtoms(const Layout &from, const Layout &to,
                                    const Mesh &mesh, unsigned &conflict);

/// A pair of layouts as a query, and back.
class NormalForm {
public:
  /// `shape` and `mesh` must outlive it. `atoms` are those of commonAtoms().
  NormalForm(const Layout &from, const Layout &to,
             llvm::ArrayRef<int64_t> shape, const Mesh &mesh,
             llvm::ArrayRef<AxisRef> atoms);

  ReshardQuery query;
  /// Whether there are as few atoms as a state can hold.
  bool fits() const { return atoms.size() <= 32; }
  /// The way with the names and sizes of this pair.
  Reshard describe(const ReshardWay &way, int64_t elementBytes) const;

private:
  struct Dim {
    unsigned number; ///< in the tensor
    int64_t size;    ///< in the query
    AxisList fixed;  ///< what is left out of both lists
    AtomList from, to;
    int64_t heldBlock = 0, wantedBlock = 0; ///< 0: ceiling size
    bool hasBlocks() const { return heldBlock || wantedBlock; }
  };
  void dropFixed(Dim &dim) const;
  int64_t parts(llvm::ArrayRef<uint8_t> list) const;
  AxisList axesOf(llvm::ArrayRef<uint8_t> list) const;
  Layout layoutOf(const ReshardState &state) const;

  llvm::ArrayRef<int64_t> shape;
  const Mesh &mesh;
  ReductionKind reduction;
  AxisList atoms; ///< of the query
  /// In the order of the query, and those of one element, which it leaves out.
  llvm::SmallVector<Dim, 4> dims, ones;
  Wide scale = 1; ///< elements of this tensor for each of the query
};

} // namespace kerf::dist

#endif // KERF_DIST_RESHARDQUERY_H
