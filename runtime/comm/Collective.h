//===- Collective.h - collectives of any back end ---------------*- C++ -*-===//
//
// A descriptor of the manifest, its validity and the bytes that it must send,
// independent of threads, MPI and NCCL. Byte counts are group totals of one
// execution, computed from the shapes of the call alone (docs/Package.md has
// the table); planner and runtime compute them independently and must agree.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_COLLECTIVE_H
#define KERF_RT_COMM_COLLECTIVE_H

#include "../base/Mesh.h"

#include "kerf/Format/Collectives.h"

#include <string>
#include <utility>
#include <vector>

namespace kerf::rt {

using kerf::CollectiveKind;
enum class Reduction { Sum, Max, Min, Prod };

const char *reductionName(Reduction reduction);
bool parseReduction(std::string_view name, Reduction &reduction);

struct CollectiveDesc {
  CollectiveKind kind = CollectiveKind::AllReduce;
  Reduction reduction = Reduction::Sum;
  kerf_dtype_t dtype = KERF_F32;
  AxisList axes;
  Shape srcShape, dstShape;
  int64_t dim = 0;       ///< `split_dim` where there are two
  int64_t concatDim = 0; ///< of two
  /// Sizes of the parts along dim and concatDim; 0: ceil(whole / N).
  int64_t part = 0, concatPart = 0;
  int64_t root = 0;                               ///< broadcast
  std::vector<std::pair<int64_t, int64_t>> pairs; ///< permute: from, to
  int64_t plannedGroupBytes = -1;                 ///< -1: not planned
  std::string tensor, node, purpose, phase;

  /// The dimension of which dst is a part, and that of which src is; -1: none.
  int64_t cutDim() const { return cuts(kind) ? dim : -1; }
  int64_t joinedDim() const {
    return hasTwoDims(kind) ? concatDim : joins(kind) ? dim : -1;
  }
  bool reduces() const { return kerf::reduces(kind); }
};

/// Throws KERF_BAD_PACKAGE if shapes, dims and positions do not fit a group of
/// `groupSize`.
void checkCollective(const CollectiveDesc &desc, int64_t groupSize);
/// Bytes that all ranks of a group send in one execution. Padding included.
int64_t groupBytes(const CollectiveDesc &desc, int64_t groupSize);
/// S of the cost model: the full logical buffer (all_gather: N times src).
int64_t bufferBytes(const CollectiveDesc &desc, int64_t groupSize);
/// The busiest rank's share.
int64_t bytesPerRank(const CollectiveDesc &desc, int64_t groupSize);
/// "all_reduce<sum> f32 2x3 at /h.0/Add (#4)", for errors.
std::string describe(const CollectiveDesc &desc, int64_t index);

} // namespace kerf::rt

#endif // KERF_RT_COMM_COLLECTIVE_H
