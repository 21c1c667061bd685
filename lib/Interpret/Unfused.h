//===- Unfused.h - plain loops in blocks ------------------------*- C++ -*-===//
//
// The interpreter's loops follow the formulas element by element; on a network
// of 10^11 operations they take half an hour. Here the same ops, one at a time
// and in doubles, are loops over rows and blocks that fit a cache, on threads:
// a convolution is a product of its windows' rows. Nothing is fused, no library
// is called, and nothing comes from lib/Lower: what is judged by this shares no
// loop, layout or order with it.
//
// Sums do not depend on the number of threads. UnfusedTest holds every op
// against the interpreter.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_INTERPRET_UNFUSED_H
#define KERF_LIB_INTERPRET_UNFUSED_H

#include "Evaluate.h"

namespace kerf::interpret {

/// One op; none: the interpreter's own loops are good enough.
MaybeTensor evaluateUnfused(mlir::Operation *op, Operands operands,
                            unsigned threads);

/// Products, convolutions and their gradients; none: not one of them.
MaybeTensor evaluateProduct(mlir::Operation *op, Operands operands,
                            unsigned threads);

/// Calls body(begin, end) for parts of [0, count) on threads; small counts,
/// which `grain` does not divide, stay on this one.
void parallelFor(int64_t count, int64_t grain, unsigned threads,
                 llvm::function_ref<void(int64_t, int64_t)> body);

} // namespace kerf::interpret

#endif // KERF_LIB_INTERPRET_UNFUSED_H
