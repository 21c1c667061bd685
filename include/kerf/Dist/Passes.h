//===- Passes.h - passes over what several phases hold ----------*- C++ -*-===//
#ifndef KERF_DIST_PASSES_H
#define KERF_DIST_PASSES_H

#include "mlir/Pass/Pass.h"

#include <memory>

namespace kerf::dist {

#define GEN_PASS_DECL
#include "kerf/Dist/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Dist/Passes.h.inc"

} // namespace kerf::dist

#endif // KERF_DIST_PASSES_H
