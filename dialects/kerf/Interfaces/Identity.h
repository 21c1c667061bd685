//===- Identity.h - neutral elements of reductions --------------*- C++ -*-===//
#ifndef KERF_INTERFACES_IDENTITY_H
#define KERF_INTERFACES_IDENTITY_H

#include "kerf/Interfaces/ShardingRule.h"

#include "mlir/IR/BuiltinAttributes.h"

namespace kerf {

/// The neutral element of a reduction of floats or integers of this type.
/// Signless integers are signed but i1, a truth value.
mlir::TypedAttr identityOf(ReductionKind kind, mlir::Type type);

} // namespace kerf

#endif // KERF_INTERFACES_IDENTITY_H
