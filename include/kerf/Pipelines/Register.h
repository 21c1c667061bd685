//===- Register.h - all of Kerf's dialects and passes -----------*- C++ -*-===//
#ifndef KERF_PIPELINES_REGISTER_H
#define KERF_PIPELINES_REGISTER_H

#include "mlir/IR/DialectRegistry.h"

namespace kerf {

/// Kerf's dialects and those of MLIR that its passes use.
void registerDialects(mlir::DialectRegistry &registry);

/// Dialects of MLIR whose ops stand in functions that are planned and
/// partitioned, with the models of those that have some (kerf/Models/Models.h).
void registerUpstreamDialects(mlir::DialectRegistry &registry);

/// Every pass of every phase, for kerf-opt and plugins. Process-wide, as MLIR's
/// pass registry is; call it once.
void registerPasses();

} // namespace kerf

#endif // KERF_PIPELINES_REGISTER_H
