//===- IOPDDL.h - the contest's JSON form of a Problem ----------*- C++ -*-===//
//
// The ASPLOS 2025 / EuroSys 2025 contest on Intra-Operator Parallelism for
// Distributed Deep Learning published instances of exactly our problem (one
// cost level, one resource, one usage per node). Reading and writing them lets
// outside instances judge our solvers, and outside solvers our instances.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PLAN_IOPDDL_H
#define KERF_PLAN_IOPDDL_H

#include "kerf/Plan/Problem.h"

namespace kerf::plan {

/// Parses {"problem": {"name", "nodes": {"intervals", "costs", "usages"},
/// "edges": {"nodes", "costs"}, "usage_limit"}}. Entries >= kForbidden are
/// forbidden. An error says the byte offset and what was expected; the result
/// has passed check(). Linear in the text; unknown members are skipped.
llvm::Expected<Problem> parseIOPDDL(llvm::StringRef json);

/// The reverse. An error for what the format cannot say: more than one
/// resource, more than one usage of a node, or several cost levels.
llvm::Expected<std::string> writeIOPDDL(const Problem &problem);

/// The contest's solution line: "[0, 2, 1]".
std::string writeSolution(const Solution &solution);
llvm::Expected<Solution> parseSolution(llvm::StringRef text);

} // namespace kerf::plan

#endif // KERF_PLAN_IOPDDL_H
