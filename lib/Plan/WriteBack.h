//===- WriteBack.h - a solution as attributes -------------------*- C++ -*-===//
#ifndef KERF_LIB_PLAN_WRITEBACK_H
#define KERF_LIB_PLAN_WRITEBACK_H

#include "Stages.h"

namespace kerf::plan {

/// Puts mesh, shardings, shared reshards and stages onto the module
/// (docs/Partition.md has the contract).
void writeBack(mlir::ModuleOp module, mlir::func::FuncOp function,
               const Graph &graph, const Solution &solution,
               const StagePlan &stages);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_WRITEBACK_H
