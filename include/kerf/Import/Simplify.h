//===- Simplify.h - rewrites behind the importer ----------------*- C++ -*-===//
//
// Exporters write one computation in many ways. These rewrites bring a function
// of nn ops to the form that planning and code generation expect: whole
// normalizations and activations, transposes cancelled around convolutions,
// fused projections taken apart, no repeated or unused ops.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_IMPORT_SIMPLIFY_H
#define KERF_IMPORT_SIMPLIFY_H

#include "kerf/NN/Transforms/Simplify.h"

#include "mlir/IR/BuiltinOps.h"

namespace kerf {

/// Simplifies every function of the module, in place; the result computes the
/// same values up to rounding. Fails only if the rewrites do not converge.
mlir::LogicalResult simplifyModule(mlir::ModuleOp module);

/// Forms nn.attention in every function, for targets that have it as one call
/// (nn::recogniseAttention), and merges ops that become equal. Returns how
/// many.
int64_t fuseAttention(mlir::ModuleOp module, const nn::AttentionForms &forms);

} // namespace kerf

#endif // KERF_IMPORT_SIMPLIFY_H
