//===- PriceGiven.h - what a plan that was given costs ----------*- C++ -*-===//
//
// A plan that is taken back was made for other sizes, another machine or by
// hand, so what its file says of its cost means nothing. It is looked up among
// the choices that a search for its mesh would have, and then priced as what a
// search finds is: the same numbers for the same cut. Nothing is searched, so
// there is no bound.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_REPORT_PRICEGIVEN_H
#define KERF_LIB_PLAN_REPORT_PRICEGIVEN_H

#include "../Stages/Stages.h"

namespace kerf::plan {

/// Where a plan puts each value, as ids of a table of layouts.
struct GivenLayouts {
  dist::Mesh mesh;
  /// Of a result or an argument as it is made, and as its uses share it.
  llvm::function_ref<dist::Layout(mlir::Value)> made, shared;
  /// Of an operand, those of the terminator included.
  llvm::function_ref<dist::Layout(mlir::OpOperand &)> operand;
  /// Of an op; negative where the plan has no stages.
  llvm::function_ref<int64_t(mlir::Operation *)> stage;
};

/// The plan of `function`, which has no shardings yet, on the machine of the
/// options. Not priced if an op is cut in a way that no search looks at.
PlanResult priceGiven(mlir::func::FuncOp function, const GivenLayouts &given,
                      const PlanOptions &options);

/// What is known of a cut, searched or given: all of a PlanResult but what says
/// how it was found.
PlanResult describeCut(const Graph &graph, const StagePlan &stages,
                       mlir::func::FuncOp function, const PlanOptions &options);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_REPORT_PRICEGIVEN_H
