//===- AnyOp.h - ops and values of any dialect ------------------*- C++ -*-===//
//
// Plans are made of functions that others wrote: ops without a sharding rule,
// operands that are no tensors, regions that use values from outside. All
// phases ask here what such an op or value is taken for, so that they agree:
//
// * an op without a rule is computed whole by every device;
// * a value that is no tensor of static shape (a scalar, an index, a shape, a
//   tensor of dynamic shape) is taken for one number that all devices hold;
// * a region uses nothing from outside but through operands (kerf-flatten sees
//   to it), so that what an op uses are its operands.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERFACES_ANYOP_H
#define KERF_INTERFACES_ANYOP_H

#include "kerf/Interfaces/ShardingRule.h"

namespace kerf {

/// Whether values of this type can be cut: tensors of static shape whose
/// elements are integers or floats.
bool canBeCut(mlir::Type type);

/// The type as which a value is planned: its own if it can be cut, else that of
/// one number.
mlir::RankedTensorType plannedType(mlir::Type type);
inline mlir::RankedTensorType plannedType(mlir::Value value) {
  return plannedType(value.getType());
}

/// The rule of an op; of one that has none, that nothing may be cut.
ShardingRule shardingRuleOf(mlir::Operation *op);
bool isSameRule(const ShardingRule &a, const ShardingRule &b);

/// Whether two ops compute the same of operands of the same types: their names,
/// types, attributes but for those of Kerf's own dialects, and regions are
/// equal. What regions use from outside does not matter.
bool isSameComputation(mlir::Operation *a, mlir::Operation *b);
/// Equal for ops that isSameComputation() says are the same.
llvm::hash_code hashComputation(mlir::Operation *op);

/// The values from outside of an op that its regions use, in order.
llvm::SmallVector<mlir::Value> capturedValues(mlir::Operation *op);

/// Builds an op on local shapes by its interface; one without a rule is cloned.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
buildLocalOp(mlir::Operation *op, mlir::OpBuilder &builder,
             mlir::ValueRange operands, mlir::TypeRange resultTypes,
             LocalContext &context);

} // namespace kerf

#endif // KERF_INTERFACES_ANYOP_H
