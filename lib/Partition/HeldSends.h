//===- HeldSends.h - until when sent slots are held -------------*- C++ -*-===//
#ifndef KERF_LIB_PARTITION_HELDSENDS_H
#define KERF_LIB_PARTITION_HELDSENDS_H

#include "mlir/IR/BuiltinOps.h"

namespace kerf {

/// Sets held_until on all sends of the module's schedules.
void markHeldSends(mlir::ModuleOp module);

} // namespace kerf

#endif // KERF_LIB_PARTITION_HELDSENDS_H
