//===- Recompute.h - values that are cheaper to compute twice ---*- C++ -*-===//
#ifndef KERF_LIB_LOWER_RECOMPUTE_H
#define KERF_LIB_LOWER_RECOMPUTE_H

#include "Units.h"

namespace kerf {

/// What units and ops know of each other while units are formed.
struct UnitMap {
  std::vector<Unit> &units;
  llvm::DenseMap<mlir::Operation *, int64_t> &unitOf;
  /// Of ops in the block; copies have the number of what they copy.
  llvm::DenseMap<mlir::Operation *, int64_t> &position;
};

/// Lets kernels compute anew what they would read from a kernel before them,
/// where that moves less memory; see Recompute.cpp.
void recomputeValues(UnitMap map);

} // namespace kerf

#endif // KERF_LIB_LOWER_RECOMPUTE_H
