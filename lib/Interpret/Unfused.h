//===- Unfused.h - plain loops in blocks ------------------------*- C++ -*-===//
//
// The interpreter's loops follow the formulas element by element; on a network
// of 10^11 operations they take half an hour. This file computes the same ops,
// one at a time and in doubles, by loops over rows and blocks that fit a cache,
// on several threads: a convolution is a product of its windows' rows. Nothing
// is fused, no library is called, and nothing comes from lib/Lower, so it
// shares no loop, layout or order with the programs that are checked against
// it.
//
// Sums do not depend on the number of threads. UnfusedTest compares every op
// with the interpreter.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_INTERPRET_UNFUSED_H
#define KERF_LIB_INTERPRET_UNFUSED_H

#include "Evaluate.h"

namespace kerf::interpret {

/// Evaluates one op; none: the interpreter's own loops are fast enough.
MaybeTensor evaluateUnfused(mlir::Operation *op, Operands operands,
                            unsigned threads);

/// Products, convolutions and their gradients; none: not one of them.
MaybeTensor evaluateProduct(mlir::Operation *op, Operands operands,
                            unsigned threads);

/// Calls body(begin, end) for parts of [0, count) on threads; less than `grain`
/// stays on this thread.
void parallelFor(int64_t count, int64_t grain, unsigned threads,
                 llvm::function_ref<void(int64_t, int64_t)> body);

} // namespace kerf::interpret

#endif // KERF_LIB_INTERPRET_UNFUSED_H
