//===- Passes.h - passes behind the importer --------------------*- C++ -*-===//
#ifndef KERF_IMPORT_PASSES_H
#define KERF_IMPORT_PASSES_H

#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Import/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kerf/Import/Passes.h.inc"

} // namespace kerf

#endif // KERF_IMPORT_PASSES_H
