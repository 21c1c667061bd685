//===- Reductions.h - long sums that become two -----------------*- C++ -*-===//
//
// Problem: a long reduction over leading dimensions to few elements (the
// statistics of BatchNorm, gradients of a bias) has no work for many threads.
//
// Idea: lowering makes it two, one over parts and one over their results
// (kerf-split-reductions). The second cannot be in a kernel with the first, so
// planning must know where there are two.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FUSION_REDUCTIONS_H
#define KERF_FUSION_REDUCTIONS_H

#include "mlir/IR/Operation.h"

namespace kerf {

/// Whether the op folds leading dimensions of floats into the others.
bool foldsLeadingDims(mlir::Operation *op);

/// Into how many parts a sum of `count` elements for each of `columns` results
/// is cut where threads share the work or, `byBlock`, blocks of a GPU do; 1:
/// none. Depends on the sizes alone, so that results do not depend on the
/// number of threads.
int64_t numPartsOfSum(int64_t count, int64_t columns, bool byBlock);

} // namespace kerf

#endif // KERF_FUSION_REDUCTIONS_H
