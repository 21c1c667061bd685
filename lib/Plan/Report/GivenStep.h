//===- GivenStep.h - the step that a given plan is of -----------*- C++ -*-===//
#ifndef KERF_LIB_PLAN_REPORT_GIVENSTEP_H
#define KERF_LIB_PLAN_REPORT_GIVENSTEP_H

#include "kerf/Plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"

namespace kerf::plan {

/// Makes of a function the one whose values a plan lists: blocks that the plan
/// computes again, and what its kind of ZeRO moves to the prologue. Returns the
/// kind; fails with a message, before anything is changed, where the plan is
/// none of such a function.
mlir::FailureOr<Zero> makeStepOf(const llvm::json::Value &plan,
                                 mlir::func::FuncOp function,
                                 std::string &message);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_REPORT_GIVENSTEP_H
