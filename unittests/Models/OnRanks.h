//===- OnRanks.h - upstream ops, planned and run on ranks -------*- C++ -*-===//
#ifndef KERF_UNITTESTS_MODELS_ONRANKS_H
#define KERF_UNITTESTS_MODELS_ONRANKS_H

#include "RandomProgram.h"

#include "kerf/Interpret/Interpret.h"
#include "kerf/Pipelines/Register.h"

#include "mlir/IR/MLIRContext.h"

namespace kerf::test {

/// A context of one thread with Kerf's dialects and upstream ones.
struct UpstreamContext {
  UpstreamContext()
      : context(registry(), mlir::MLIRContext::Threading::DISABLED) {
    context.loadAllAvailableDialects();
  }
  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry result;
    registerDialects(result);
    registerUpstreamDialects(result);
    return result;
  }
  mlir::MLIRContext context;
};

std::string textOf(mlir::ModuleOp module);

/// Small integers.
std::vector<interpret::Tensor> makeInputs(mlir::func::FuncOp function,
                                          Random &random);

/// Flattens and plans the module: at random, for the least cost, or by random
/// annotations, which kerf-propagate spreads (not over a step of training).
/// None: there is no plan, say because there are more stages than ops.
std::optional<mlir::LogicalResult> planAtRandom(mlir::ModuleOp module,
                                                Random &random, unsigned seed,
                                                bool isTrained = false);

/// The same, and partitions the module. `planned`: the module with its plan.
std::optional<mlir::LogicalResult> planAndPartition(mlir::ModuleOp module,
                                                    Random &random,
                                                    unsigned seed,
                                                    std::string &planned);

/// The same, and runs the function on simulated ranks.
std::optional<mlir::FailureOr<std::vector<interpret::Tensor>>>
planAndRun(mlir::ModuleOp module, llvm::ArrayRef<interpret::Tensor> inputs,
           Random &random, unsigned seed, std::string &planned);

} // namespace kerf::test

#endif // KERF_UNITTESTS_MODELS_ONRANKS_H
