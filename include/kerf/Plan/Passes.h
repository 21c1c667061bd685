//===- Passes.h - passes of the plan phase ----------------------*- C++ -*-===//
#ifndef KERF_PLAN_PASSES_H
#define KERF_PLAN_PASSES_H

#include "kerf/Plan/Plan.h"

#include "mlir/Pass/Pass.h"

namespace kerf::plan {

/// What a run of the pass finds beside what it leaves in the module.
struct PlanRun {
  std::optional<PlanResult> result; ///< none: the pass has failed
  PlanError error = PlanError::None;
  std::string message; ///< why there is none, and notes, a line each
  /// Whether the search may have to go on, which it then can.
  bool mayGoOn = false;
  std::unique_ptr<Planning> planning;
};

/// The pass for these options, all of which it prints but for the limits of a
/// search that starts again. `machine` is what names options.machine, or the
/// file that it was read from.
std::unique_ptr<mlir::Pass> createPlanPass(const PlanOptions &options,
                                           llvm::StringRef machine,
                                           PlanRun &run);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kerf/Plan/Passes.h.inc"

} // namespace kerf::plan

#endif // KERF_PLAN_PASSES_H
