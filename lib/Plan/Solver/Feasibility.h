//===- Feasibility.h - is there any legal solution --------------*- C++ -*-===//
//
// Used when the search with costs found no legal solution: finds one, or proves
// that there is none and how much of each resource is needed.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_SOLVER_FEASIBILITY_H
#define KERF_LIB_PLAN_SOLVER_FEASIBILITY_H

#include "Search.h"

namespace kerf::plan {

/// The problem with all allowed costs zero.
Problem withoutCosts(const Problem &problem);

/// Feasible with a solution (whose cost in the result is that of the problem
/// without costs), Infeasible, or Unknown; fills in minNeeded and minFound.
SolveResult findLegal(const Problem &problem, const SolveOptions &options,
                      const Clock &clock);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_FEASIBILITY_H
