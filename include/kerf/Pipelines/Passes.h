//===- Passes.h - from a lowered module to a package ------------*- C++ -*-===//
//
// The package phase: docs/Package.md states what it writes.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PIPELINES_PASSES_H
#define KERF_PIPELINES_PASSES_H

#include "kerf/Autodiff/Precision.h"
#include "kerf/Lower/ObjectCache.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include "llvm/Support/JSON.h"

#include <memory>
#include <string>
#include <vector>

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Pipelines/Passes.h.inc"

/// What kerf-write-package is given and gives besides its options, which alone
/// decide the bytes of a package of one program.
struct PackageRun {
  /// plan.json, instead of reading it from the option; null: it is read.
  const llvm::json::Object *plan = nullptr;
  /// Where compiled kernels are kept for compilations to come.
  ObjectCacheOptions cache;
  /// Another program of the package, of the same model for other sizes.
  struct Further {
    std::string name;
    mlir::ModuleOp module; ///< lowered
    const llvm::json::Object *plan;
  };
  std::vector<Further> further;
  std::string sizes; ///< sizes.json as text; empty: none is written
  /// Given back: what the assembler says of kernels, one line each.
  std::vector<std::string> notes;
};

/// The pass with what text cannot say. `run` must outlive it.
std::unique_ptr<mlir::Pass>
createWritePackage(const WritePackageOptions &options, PackageRun &run);

#define GEN_PASS_REGISTRATION
#include "kerf/Pipelines/Passes.h.inc"

} // namespace kerf

#endif // KERF_PIPELINES_PASSES_H
