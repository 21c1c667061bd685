//===- PlanDocument.h - plan.json -------------------------------*- C++ -*-===//
#ifndef KERF_LIB_PIPELINES_PLANDOCUMENT_H
#define KERF_LIB_PIPELINES_PLANDOCUMENT_H

#include "kerf/Pipelines/Compilation.h"

namespace kerf {

/// Everything of plan.json that is known when planning is done.
llvm::json::Object planDocument(const CompilationOptions &options,
                                const plan::PlanResult &plan,
                                mlir::ModuleOp module);

/// The same of a plan that was given: what it costs now, if it could be priced,
/// where it came from, and nothing that its file says of costs.
llvm::json::Object givenDocument(const CompilationOptions &options,
                                 const plan::PlanResult &plan,
                                 mlir::ModuleOp module);

/// plan.json as it is written.
std::string planText(const llvm::json::Object &plan);

} // namespace kerf

#endif // KERF_LIB_PIPELINES_PLANDOCUMENT_H
