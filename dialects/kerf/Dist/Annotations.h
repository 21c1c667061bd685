//===- Annotations.h - what is said about annotations -----------*- C++ -*-===//
//
// Attributes beside shardings that users and other compilers write.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_ANNOTATIONS_H
#define KERF_DIST_ANNOTATIONS_H

#include "mlir/IR/BuiltinAttributes.h"

namespace kerf::dist {

/// Of an argument, a result or an op with a sharding: which annotations spread
/// first (kerf-propagate). A number, or one for each dimension of the sharding.
inline constexpr llvm::StringLiteral kPriority = "dist.priority";
/// Of a `shard.grid`: the names that its axes have in `dist` (lib/Bridge).
inline constexpr llvm::StringLiteral kAxes = "dist.axes";

/// The number that a `dist.priority` says of a dimension; without one 0, which
/// comes first.
inline int64_t priorityOf(mlir::Attribute priority, size_t dim) {
  if (auto each = llvm::dyn_cast_or_null<mlir::DenseI64ArrayAttr>(priority))
    return each[dim];
  return priority ? llvm::cast<mlir::IntegerAttr>(priority).getInt() : 0;
}

} // namespace kerf::dist

#endif // KERF_DIST_ANNOTATIONS_H
