//===- Passes.h - passes of the autodiff phase ------------------*- C++ -*-===//
#ifndef KERF_AUTODIFF_PASSES_H
#define KERF_AUTODIFF_PASSES_H

#include "kerf/Autodiff/Autodiff.h"
#include "kerf/Autodiff/Precision.h"
#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace kerf::autodiff {

/// The result of a run of the pass, besides what it writes into the module.
struct AutodiffRun {
  std::optional<AutodiffResult> result; ///< none: the pass has failed
  AutodiffFailure failure;
};

/// The pass for these options, all of which it prints.
std::unique_ptr<mlir::Pass> createAutodiffPass(const AutodiffOptions &options,
                                               AutodiffRun &run);

#define GEN_PASS_DECL
#include "kerf/Autodiff/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Autodiff/Passes.h.inc"

} // namespace kerf::autodiff

#endif // KERF_AUTODIFF_PASSES_H
