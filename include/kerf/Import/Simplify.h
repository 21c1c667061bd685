//===- Simplify.h - what follows the importer -------------------*- C++ -*-===//
//
// Exporters spell one computation in many ways. These rewrites bring a function
// of nn ops to the form that planning and code generation expect: whole
// normalizations and activations, transposes cancelled around convolutions,
// fused projections taken apart, no repeated or unused ops.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_IMPORT_SIMPLIFY_H
#define KERF_IMPORT_SIMPLIFY_H

#include "mlir/IR/BuiltinOps.h"

namespace kerf {

/// Simplifies every function of the module, in place; the result computes the
/// same values up to rounding. Fails only if the rewrites do not converge.
mlir::LogicalResult simplifyModule(mlir::ModuleOp module);

} // namespace kerf

#endif // KERF_IMPORT_SIMPLIFY_H
