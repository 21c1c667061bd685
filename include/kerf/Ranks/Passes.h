//===- Passes.h - from local functions to calls of the runtime --*- C++ -*-===//
//
// For compilers that lower functions of stages by themselves: what is left of
// dist becomes calls of the runtime's C ABI (docs/Embedding.md, Run on ranks).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RANKS_PASSES_H
#define KERF_RANKS_PASSES_H

#include "mlir/Pass/Pass.h"

#include <memory>

namespace kerf::ranks {

#define GEN_PASS_DECL
#include "kerf/Ranks/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Ranks/Passes.h.inc"

/// Behind the name of a program's function, that of the text which
/// kerf_ranks_create takes.
inline constexpr llvm::StringLiteral kDescriptionSuffix = "_ranks";

} // namespace kerf::ranks

#endif // KERF_RANKS_PASSES_H
