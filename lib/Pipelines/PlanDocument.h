//===- PlanDocument.h - plan.json -------------------------------*- C++ -*-===//
#ifndef KERF_LIB_PIPELINES_PLANDOCUMENT_H
#define KERF_LIB_PIPELINES_PLANDOCUMENT_H

#include "kerf/Pipelines/Compilation.h"

namespace kerf {

/// All members of plan.json that are known when planning is done.
llvm::json::Object planDocument(const CompilationOptions &options,
                                const plan::PlanResult &plan,
                                mlir::ModuleOp module);

/// The same for a given plan: its present cost, if it could be priced, and
/// where it came from; costs in its file are ignored.
llvm::json::Object givenDocument(const CompilationOptions &options,
                                 const plan::PlanResult &plan,
                                 mlir::ModuleOp module);

/// Behind "communication": the candidate that was laid out, the first, sends as
/// much. What planning counts for it may be more, where partition finds a
/// cheaper way.
void noteSent(llvm::json::Object &plan);

/// The text of plan.json.
std::string planText(const llvm::json::Object &plan);

} // namespace kerf

#endif // KERF_LIB_PIPELINES_PLANDOCUMENT_H
