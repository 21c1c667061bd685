//===- GivenPlan.h - --plan -------------------------------------*- C++ -*-===//
//
// A plan.json that is given decides what other flags would: those must agree
// with it.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_GIVENPLAN_H
#define KERF_TOOLS_GIVENPLAN_H

#include "../Options.h"

#include "kerf/Pipelines/Compilation.h"

namespace kerf::tool {

/// A plan of this version, before any of its members is asked for. Throws.
llvm::json::Value readPlan(const Options &options);

/// The plan that belongs to the IR from which the compilation continues.
/// Throws.
llvm::json::Value readPlanOfIR(const Options &options);

/// Statistics of BatchNorm are taken per micro-batch and data-parallel rank, so
/// a given plan says how the step is made, too.
void takeFromPlan(const llvm::json::Value &plan,
                  autodiff::AutodiffOptions &training);

/// A plan that is given has its schedule; a wish for another would do nothing,
/// and throws.
void requireSchedule(const llvm::json::Value &plan, const Options &options);

/// Throws where `flag` wishes something else than what the plan, by its member
/// `key`, was made for. A plan of a step that trains is none of inference,
/// whatever else it is: reading it says so.
void requireSame(const Options &options, const CompilationOptions &compile,
                 const char *flag, const char *key, llvm::StringRef wish);

} // namespace kerf::tool

#endif // KERF_TOOLS_GIVENPLAN_H
