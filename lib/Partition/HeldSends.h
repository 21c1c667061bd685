//===- HeldSends.h - how long what is sent must stay ------------*- C++ -*-===//
#ifndef KERF_LIB_PARTITION_HELDSENDS_H
#define KERF_LIB_PARTITION_HELDSENDS_H

#include "mlir/IR/BuiltinOps.h"

namespace kerf {

/// On a send: the number of the last instruction of its schedule until which
/// the slot must stay as it is.
inline constexpr llvm::StringLiteral kHeldUntil = "dist.held_until";

/// Sets dist.held_until on all sends of the module's schedules.
void markHeldSends(mlir::ModuleOp module);

} // namespace kerf

#endif // KERF_LIB_PARTITION_HELDSENDS_H
