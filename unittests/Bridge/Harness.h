//===- Harness.h - annotated programs on simulated ranks --------*- C++ -*-===//
//
// What a program computes is said by an evaluator of loops, which sees no
// annotation. What ranks compute is what a partitioner made of it.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_BRIDGE_HARNESS_H
#define KERF_UNITTESTS_BRIDGE_HARNESS_H

#include "kerf/Interpret/Interpret.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>
#include <string>

namespace kerf::test {

/// A context of one thread with Kerf's dialects, upstream ones and upstream's
/// own sharding models.
struct BridgeContext {
  BridgeContext();
  mlir::MLIRContext context;
};

std::string textOf(mlir::ModuleOp module);

/// The public function of a module.
mlir::func::FuncOp entryOf(mlir::ModuleOp module);

/// Small integers, the same for each call.
std::vector<interpret::Tensor> inputsFor(mlir::func::FuncOp function);

/// What one device computes, without what dist or shard say.
std::vector<interpret::Tensor> runWhole(mlir::ModuleOp module);

/// Runs passes of these names on the module; false: one failed. Diagnostics are
/// appended to `messages`.
bool runPasses(mlir::ModuleOp module, llvm::StringRef pipeline,
               std::string &messages);

/// Gives a function on local types the program around it (docs/Partition.md):
/// `annotated` is the function on global types, with dist.sharding on arguments
/// and results. False: the types are not those of the parts.
bool frame(mlir::ModuleOp module, mlir::func::FuncOp annotated);

/// What the ranks of a partitioned program compute; none: ranks that hold the
/// same part differ, or it cannot be run.
std::optional<std::vector<interpret::Tensor>> runRanks(mlir::ModuleOp module,
                                                       std::string &messages);

/// Whether two lists of outputs are equal up to rounding.
bool isSame(llvm::ArrayRef<interpret::Tensor> a,
            llvm::ArrayRef<interpret::Tensor> b);

} // namespace kerf::test

#endif // KERF_UNITTESTS_BRIDGE_HARNESS_H
