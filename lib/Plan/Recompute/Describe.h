//===- Describe.h - what computing blocks again costs -----------*- C++ -*-===//
#ifndef KERF_LIB_PLAN_RECOMPUTE_DESCRIBE_H
#define KERF_LIB_PLAN_RECOMPUTE_DESCRIBE_H

#include "kerf/Plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf::plan {

class Graph;

/// The blocks of a planned function that are computed again, in its order.
/// Without a solution their seconds and bytes are 0.
std::vector<RecomputedBlock> describeRecomputed(mlir::func::FuncOp function);
std::vector<RecomputedBlock> describeRecomputed(mlir::func::FuncOp function,
                                                Graph *graph,
                                                const Solution &solution);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_RECOMPUTE_DESCRIBE_H
