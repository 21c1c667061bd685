//===- Bridge.h - what both directions of the bridge know -------*- C++ -*-===//
//
// A grid of `shard` is a mesh of `dist` in space whose axes have numbers. A
// list of axes is major to minor in both dialects, ranks are row-major.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_BRIDGE_BRIDGE_H
#define KERF_BRIDGE_BRIDGE_H

#include "kerf/Dist/Dist.h"

#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace kerf::bridge {

/// The name in `dist` of a grid's axis that has none.
inline std::string defaultAxisName(size_t axis) {
  return "axis" + std::to_string(axis);
}

/// The numbers of axes; an error at `op` if one is a part of an axis.
mlir::FailureOr<llvm::SmallVector<mlir::shard::GridAxis>>
toGridAxes(mlir::Operation *op, llvm::ArrayRef<dist::AxisRef> axes,
           const dist::Mesh &mesh, const llvm::Twine &what);

/// The kind of reduction on the other side; none: it has none such.
mlir::shard::ReductionKind toShard(ReductionKind kind);
std::optional<ReductionKind> toDist(mlir::shard::ReductionKind kind);

/// A partitioned program of one stage becomes the function that each rank runs,
/// under the name of the function that was planned; its schedule is erased.
/// Nothing happens to a module without schedules. An error at what has no place
/// in one function: further stages, micro-batches, several runs.
mlir::LogicalResult joinProgram(mlir::ModuleOp module);

/// Replaces the collectives of a module by those of the other dialect. `grid`:
/// the name of grid and mesh. An error at the first op that has no counterpart.
mlir::LogicalResult collectivesToShard(mlir::ModuleOp module,
                                       const dist::Mesh &mesh,
                                       llvm::StringRef grid);
mlir::LogicalResult collectivesToDist(mlir::ModuleOp module,
                                      const dist::Mesh &mesh);

} // namespace kerf::bridge

#endif // KERF_BRIDGE_BRIDGE_H
