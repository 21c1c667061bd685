//===- Register.h - all of Kerf's dialects and passes -----------*- C++ -*-===//
#ifndef KERF_PIPELINES_REGISTER_H
#define KERF_PIPELINES_REGISTER_H

#include "mlir/IR/DialectRegistry.h"

namespace kerf {

/// Kerf's dialects and those of MLIR that its passes use.
void registerDialects(mlir::DialectRegistry &registry);

/// Every pass of every phase, for kerf-opt and plugins. Process-wide, as MLIR's
/// pass registry is; call it once.
void registerPasses();

} // namespace kerf

#endif // KERF_PIPELINES_REGISTER_H
