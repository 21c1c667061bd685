//===- Mesh.h - ranks, coordinates, groups and parts ------------*- C++ -*-===//
//
// A mesh is a row-major grid of ranks with named axes, the first outermost, and
// optionally one axis in time whose coordinate is the micro-batch. Lists of
// axes and sub-axes say how a dimension is cut and who forms a group; both read
// a rank's coordinates as digits of one mixed-radix number, first digit most
// significant. docs/Package.md has the definitions.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_BASE_MESH_H
#define KERF_RUNTIME_BASE_MESH_H

#include "Types.h"

#include <string>
#include <vector>

namespace kerf::rt {

/// `size` values of an axis: the digit (c / weight) % size of its coordinate c.
struct AxisRef {
  int axis = 0; ///< index into Mesh::axes, or Mesh::timeAxisIndex
  int64_t size = 1;
  int64_t weight = 1;
};
using AxisList = std::vector<AxisRef>;
/// How a dimension of size D is cut n ways: into blocks of `block`, 0 for
/// ceil(D / n).
struct Cut {
  AxisList axes;
  int64_t block = 0;
};
using Sharding = std::vector<Cut>; ///< one per dimension

struct Mesh {
  struct Axis {
    std::string name;
    int64_t size = 1;
  };
  static constexpr int timeAxisIndex = -1;

  std::vector<Axis> axes;
  int stageAxis = -1; ///< index into axes, or -1
  bool hasTimeAxis = false;
  Axis timeAxis;

  int64_t numRanks() const;
  int64_t numStages() const { return stageAxis < 0 ? 1 : axes[stageAxis].size; }
  int64_t numMicroBatches() const { return hasTimeAxis ? timeAxis.size : 1; }

  int64_t coordinate(int64_t rank, int axis) const;
  int64_t stageOf(int64_t rank) const {
    return stageAxis < 0 ? 0 : coordinate(rank, stageAxis);
  }
  /// The rank with the stage coordinate replaced.
  int64_t withStage(int64_t rank, int64_t stage) const;

  /// Product of the sizes of a list.
  static int64_t sizeOf(const AxisList &list);
  /// The rank's index over the list.
  int64_t position(int64_t rank, const AxisList &list,
                   int64_t microBatch = 0) const;
  /// Ranks that differ from `rank` in the digits of the list only, ordered by
  /// position. Throws KERF_BAD_PACKAGE when digits overlap.
  std::vector<int64_t> group(int64_t rank, const AxisList &list) const;
};

/// A box of a global tensor: the part that a rank holds. `sizes` are clipped to
/// the tensor: they are smaller than the local shape where it is padded.
struct Part {
  Shape starts, sizes;
};
Part partOf(const Mesh &mesh, const Sharding &sharding, const Shape &global,
            int64_t rank, int64_t microBatch);
Shape localShape(const Sharding &sharding, const Shape &global);

} // namespace kerf::rt

#endif // KERF_RUNTIME_BASE_MESH_H
