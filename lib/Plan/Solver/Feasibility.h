//===- Feasibility.h - is there any legal solution --------------*- C++ -*-===//
//
// Asked when costs got in the way of finding one: proves that there is none and
// says what it would need, or finds one.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_SOLVER_FEASIBILITY_H
#define KERF_LIB_PLAN_SOLVER_FEASIBILITY_H

#include "Search.h"

namespace kerf::plan {

/// The problem with all allowed costs zero.
Problem withoutCosts(const Problem &problem);

/// Feasible with a solution (its cost in the result is of the problem without
/// costs), Infeasible, or Unknown; leastNeeded and leastFound are filled in.
SolveResult findLegal(const Problem &problem, const SolveOptions &options,
                      const Clock &clock);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_FEASIBILITY_H
