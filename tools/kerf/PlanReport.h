//===- PlanReport.h - plan.json for people ----------------------*- C++ -*-===//
#ifndef KERF_TOOLS_PLANREPORT_H
#define KERF_TOOLS_PLANREPORT_H

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace kerf::tool {

/// Mesh, stages, how values are cut and why, collectives, memory, the three
/// pure cuts, the runners-up. `verbose`: every value.
void printPlan(llvm::raw_ostream &out, const llvm::json::Object &plan,
               bool verbose);

} // namespace kerf::tool

#endif // KERF_TOOLS_PLANREPORT_H
