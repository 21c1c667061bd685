//===- Passes.h - passes of the plan phase ----------------------*- C++ -*-===//
#ifndef KERF_PLAN_PASSES_H
#define KERF_PLAN_PASSES_H

#include "kerf/Plan/Plan.h"

#include "mlir/Pass/Pass.h"

namespace kerf::plan {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kerf/Plan/Passes.h.inc"

} // namespace kerf::plan

#endif // KERF_PLAN_PASSES_H
