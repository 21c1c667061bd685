//===- Passes.h - passes of the plan phase ----------------------*- C++ -*-===//
#ifndef KERF_PLAN_PASSES_H
#define KERF_PLAN_PASSES_H

#include "kerf/Plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf::plan {

/// The result of a run of the pass, besides what it writes into the module.
struct PlanRun {
  std::optional<PlanResult> result; ///< none: the pass has failed
  PlanError error = PlanError::None;
  std::string message; ///< why there is none, and notes, a line each
  /// Whether the search may have to go on, which it then can.
  bool mayGoOn = false;
  std::unique_ptr<Planning> planning;
};

/// The pass for these options, all of which it prints. `machine`: the name of
/// options.machine, or the file that it was read from.
std::unique_ptr<mlir::Pass> createPlanPass(const PlanOptions &options,
                                           llvm::StringRef machine,
                                           PlanRun &run);

/// The pass for a plan that was read from `path`. What is wrong with it is in
/// `run.message`; `run.error` stays None.
std::unique_ptr<mlir::Pass> createApplyPlanPass(llvm::json::Value plan,
                                                llvm::StringRef path,
                                                const PlanOptions &options,
                                                llvm::StringRef machine,
                                                PlanRun &run);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kerf/Plan/Passes.h.inc"

} // namespace kerf::plan

#endif // KERF_PLAN_PASSES_H
