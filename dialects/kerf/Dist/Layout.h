//===- Layout.h - meshes and shardings as plain data ------------*- C++ -*-===//
//
// The placement of a tensor, without IR: a planner evaluates millions of them.
// A mesh is a list of named axes; ranks are its points in row-major order. A
// layout lists for each dimension of a tensor the axes that cut it, major to
// minor, and the axes over which it is an unreduced partial result.
//
// An axis may be cut into sub-axes: with size n, "x":(p)s is the digit of the
// coordinate c that has p values before it: (c / (n / (p s))) mod s. The whole
// axis is (1)n.
//
// A dimension of size D cut n ways lies in contiguous blocks of ceil(D / n):
// part i starts at i ceil(D / n), and what lies past D is padding. A layout may
// name larger blocks for a dimension: 768 = 12 heads of 64 columns on 8 ranks
// in blocks of 128 are two heads on each of six ranks. These blocks are
// contiguous as well, so all padding is at the end. Blocks of ceil(D / n) are
// stored as 0, so that equal placements compare equal.
//
// Time axes (micro-batches) cut in time, not over devices: they occur in
// layouts and local shapes, but no collective runs over them.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_LAYOUT_H
#define KERF_DIST_LAYOUT_H

#include "kerf/Interfaces/ShardingRule.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace kerf::dist {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool isTime = false;
};

struct Mesh {
  /// Axes in space, outermost first, then axes in time.
  llvm::SmallVector<MeshAxis, 4> axes;

  /// Product of the axes in space.
  int64_t numRanks() const;
  /// Product of the axes in time.
  int64_t numMicroBatches() const;
  std::optional<unsigned> find(llvm::StringRef name) const;
  /// One coordinate per axis. `rank` is row-major over the axes in space,
  /// `microBatch` over those in time.
  llvm::SmallVector<int64_t, 4> coordinates(int64_t rank,
                                            int64_t microBatch = 0) const;
};

/// Why a mesh is invalid: an axis without a name, two of one name, a size below
/// 1, more ranks or micro-batches than int64 counts. Empty if it is valid.
std::string checkMesh(const Mesh &mesh);

/// (preSize)size of axis number `axis`; the whole axis is (1)size-of-axis.
struct AxisRef {
  unsigned axis = 0;
  int64_t preSize = 1;
  int64_t size = 1;

  bool operator==(const AxisRef &other) const {
    return axis == other.axis && preSize == other.preSize && size == other.size;
  }
  bool operator!=(const AxisRef &other) const { return !(*this == other); }
  bool operator<(const AxisRef &other) const {
    return std::tie(axis, preSize, size) <
           std::tie(other.axis, other.preSize, other.size);
  }
};
inline llvm::hash_code hash_value(const AxisRef &ref) {
  return llvm::hash_combine(ref.axis, ref.preSize, ref.size);
}

using AxisList = llvm::SmallVector<AxisRef, 2>;

/// The whole of axis number `axis`.
AxisRef wholeAxis(const Mesh &mesh, unsigned axis);
/// Product of the sizes: how many parts the axes make.
int64_t numShards(llvm::ArrayRef<AxisRef> axes);
/// Mixed-radix index over `axes` (first most significant) at `coordinates`.
int64_t linearIndex(const Mesh &mesh, llvm::ArrayRef<AxisRef> axes,
                    llvm::ArrayRef<int64_t> coordinates);
/// Whether the two use a common digit of an axis.
bool overlap(const AxisRef &a, const AxisRef &b);
/// Joins neighbours that are consecutive digits of one axis:
/// "x":(1)2, "x":(2)2 is "x":(1)4.
void mergeAdjacent(AxisList &axes);

/// ceil(size / shards).
inline int64_t localSize(int64_t size, int64_t shards) {
  return size / shards + (size % shards != 0);
}

struct Layout {
  llvm::SmallVector<AxisList, 4> dims;
  AxisList partial;
  /// Meaningful only with partial axes.
  ReductionKind reduction = ReductionKind::Sum;
  /// Per dimension the size of its blocks, 0 for ceil(D / n); empty if all are.
  llvm::SmallVector<int64_t, 4> blocks;

  Layout() = default;
  /// A layout that cuts nothing.
  explicit Layout(size_t rank) : dims(rank) {}

  bool isPartial() const { return !partial.empty(); }
  bool isReplicated() const;
  int64_t block(size_t dim) const { return blocks.empty() ? 0 : blocks[dim]; }
  /// Lets `dim`, of `size` elements, lie in blocks of `block`.
  void setBlock(size_t dim, int64_t size, int64_t block);
  /// Size of one device's part of `dim`, padding included.
  int64_t localSize(size_t dim, int64_t size) const {
    int64_t given = block(dim);
    return given ? given : dist::localSize(size, numShards(dims[dim]));
  }
  /// Whether there is padding in `dim`.
  bool isUneven(size_t dim, int64_t size) const {
    return localSize(dim, size) * numShards(dims[dim]) != size;
  }
  /// Shape of one device's part, padding included.
  llvm::SmallVector<int64_t>
  localShape(llvm::ArrayRef<int64_t> globalShape) const;
  /// Merges neighbouring sub-axes and sorts the partial axes. Equal layouts
  /// then compare ==, provided that setBlock() set the blocks.
  void canonicalize();

  bool operator==(const Layout &other) const;
  bool operator!=(const Layout &other) const { return !(*this == other); }
};
llvm::hash_code hash_value(const Layout &layout);

/// Why `layout` is invalid for tensors of `rank` dimensions on `mesh`: an
/// unknown axis, a sub-axis that does not divide, an axis used twice, blocks of
/// a dimension that is not cut. Empty if it is valid.
std::string checkLayout(const Layout &layout, const Mesh &mesh, size_t rank);
/// Why the blocks are invalid for a tensor of `shape`: too small to hold the
/// dimension, of ceiling size (which is never named), or so large that one
/// holds all of it. Empty if they are valid.
std::string checkBlocks(const Layout &layout, llvm::ArrayRef<int64_t> shape);
/// The same as checkLayout() for a list of axes.
std::string checkAxes(llvm::ArrayRef<AxisRef> axes, const Mesh &mesh);

/// <{dp}, {tp, x:(1)2}:128, partial sum {y}>, for people.
std::string toString(const AxisRef &ref, const Mesh &mesh);
std::string toString(llvm::ArrayRef<AxisRef> axes, const Mesh &mesh);
std::string toString(const Layout &layout, const Mesh &mesh);

} // namespace kerf::dist

#endif // KERF_DIST_LAYOUT_H
