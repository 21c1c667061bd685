//===- Time.h - seconds from bytes and operations ---------------*- C++ -*-===//
//
// Communication: steps * latency + bytes / bandwidth on the links that a group
// of ranks spans, in one or two levels. Compute: a roofline per class of op,
//     seconds = latency + max(flops / F, bytes / B),
// with F that of the type of its elements, and F and B divided among ranks that
// share cores.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_COST_TIME_H
#define KERF_COST_TIME_H

#include "kerf/Cost/Machine.h"

namespace kerf::cost {

/// How the ranks of a communication group are placed on the machine.
struct GroupPlacement {
  int64_t size = 1;         ///< N
  int64_t ranksPerNode = 1; ///< g: the most members on one node
  int64_t numNodes = 1;     ///< k
  /// Equal groups that are active at the same time on one node: they share its
  /// ports (and, on a CPU, its memory).
  int64_t groupsPerNode = 1;
};

/// The groups that run over the given axes of a mesh (row-major, first axis
/// outermost). `axes` are indices into `meshSizes`, any order. All groups of
/// one kind run at once; the worst placed one is returned. An axis list whose
/// sizes multiply to 1 gives size 1.
GroupPlacement placeGroup(const Machine &machine,
                          llvm::ArrayRef<int64_t> meshSizes,
                          llvm::ArrayRef<unsigned> axes);

/// The same for sub-axes: `strides` and `sizes` say which ranks belong
/// together: {base + sum_i c_i * stride_i : 0 <= c_i < size_i}.
GroupPlacement placeStrided(const Machine &machine, int64_t numRanks,
                            llvm::ArrayRef<int64_t> strides,
                            llvm::ArrayRef<int64_t> sizes);

/// Two neighbours along an axis of the given stride (stage to stage).
GroupPlacement placePair(const Machine &machine, int64_t numRanks,
                         int64_t stride);

/// Seconds of one collective on a buffer of `bufferBytes` (S of Volume.h); 0
/// for a group of one. Models the algorithms that the runtime uses (ring and
/// direct), whatever the volume model of the objective.
double collectiveSeconds(const Machine &machine, CollectiveKind kind,
                         int64_t bufferBytes, const GroupPlacement &group);

/// Seconds of a send of `bytes` to a neighbour (placePair).
double sendSeconds(const Machine &machine, int64_t bytes,
                   const GroupPlacement &pair);

/// The size from which latency takes at most `latencyShare` of a collective's
/// time: the smallest such power of two of bytes, at most 1 GiB. Smaller ones
/// are better sent together. 0 for a group of one.
int64_t worthwhileBytes(const Machine &machine, CollectiveKind kind,
                        const GroupPlacement &group, double latencyShare = 0.1);

/// The size up to which a tensor is better copied into a common buffer than
/// sent by itself: copying takes no longer than the latency saved. The largest
/// such power of two of bytes, at most 1 GiB; 0 for a group of one.
int64_t worthPackingBytes(const Machine &machine, CollectiveKind kind,
                          const GroupPlacement &group);

/// Seconds of one op on one rank while all ranks of the machine work. Grows
/// with flops and bytes, and an Nth of both takes at least an Nth of the time:
/// bounds that divide work among devices rely on it.
double computeSeconds(const Machine &machine, ComputeClass kind, int64_t flops,
                      int64_t bytesTouched,
                      ElementKind elements = ElementKind::Other);

} // namespace kerf::cost

#endif // KERF_COST_TIME_H
