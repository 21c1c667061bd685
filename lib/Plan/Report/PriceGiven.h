//===- PriceGiven.h - the cost of a given plan ------------------*- C++ -*-===//
//
// A plan that is read back was made for other sizes, for another machine or by
// hand, so the cost in its file means nothing. The plan is looked up among the
// choices that a search on its mesh has, and priced like a plan that was found:
// equal cuts get equal numbers. Nothing is searched, so there is no bound.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_REPORT_PRICEGIVEN_H
#define KERF_LIB_PLAN_REPORT_PRICEGIVEN_H

#include "../Stages/Stages.h"

namespace kerf::plan {

/// Where a plan puts each value, as ids of a table of layouts.
struct GivenLayouts {
  dist::Mesh mesh;
  /// Layout in which a result or an argument is produced, and the one in which
  /// its uses share it.
  llvm::function_ref<dist::Layout(mlir::Value)> made, shared;
  /// Layout in which a pass gathers a value (ZeRO 3).
  llvm::function_ref<dist::Layout(mlir::Value, StepPass)> gathered;
  /// Layout of an operand, also of the terminator.
  llvm::function_ref<dist::Layout(mlir::OpOperand &)> operand;
  /// Place of an op among the chunks of all stages (StagePlan); negative where
  /// the plan has no stages.
  llvm::function_ref<int64_t(mlir::Operation *)> place;
};

/// The plan of `function`, which has no shardings yet, on the machine of the
/// options. Not priced if an op is cut in a way that no search looks at.
PlanResult priceGiven(mlir::func::FuncOp function, const GivenLayouts &given,
                      const PlanOptions &options);

/// Fills in a PlanResult for a cut, searched or given, except for how it was
/// found.
PlanResult describeCut(const Graph &graph, const StagePlan &stages,
                       mlir::func::FuncOp function, const PlanOptions &options);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_REPORT_PRICEGIVEN_H
