//===- Models.h - sharding rules and costs of upstream ops ------*- C++ -*-===//
//
// Planning and partitioning see ops through interfaces. These are the
// interfaces of dialects that know nothing of Kerf: linalg, tensor, arith and
// math on tensors, TOSA. An op that has none of them (or whose rule allows
// nothing) is computed whole by every device.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_MODELS_MODELS_H
#define KERF_MODELS_MODELS_H

#include "mlir/IR/DialectRegistry.h"

namespace kerf {

/// Attaches ShardingRuleInterface, OpCostInterface and, to constants,
/// SourceOpInterface and IntervalInterface to the ops of these dialects, where
/// they are loaded. Thread-safe, as all of DialectRegistry's extensions; for
/// any number of contexts.
void registerUpstreamModels(mlir::DialectRegistry &registry);

} // namespace kerf

#endif // KERF_MODELS_MODELS_H
