//===- Placement.h - decisions about ops of other dialects ------*- C++ -*-===//
//
// Decisions about an op (shardings, parts of a step) are discardable attributes
// of another dialect. The op's own dialect reads and copies them through this
// interface, so that no dialect uses another's attributes by name.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERFACES_PLACEMENT_H
#define KERF_INTERFACES_PLACEMENT_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectInterface.h"
#include "mlir/IR/Operation.h"

namespace kerf {

class PlacementInterface
    : public mlir::DialectInterface::Base<PlacementInterface> {
public:
  PlacementInterface(mlir::Dialect *dialect) : Base(dialect) {}

  /// Whether the layouts of operands and results of `op` are decided: a rewrite
  /// would have to decide them again.
  virtual bool isPlanned(mlir::Operation *op) const = 0;

  /// The type of the whole tensor if the source `op` gives one rank's part of
  /// it; else null.
  virtual mlir::RankedTensorType getGlobalType(mlir::Operation *op) const = 0;

  /// Whether the op's reductions over the batch stay within a micro-batch or a
  /// device's part of it.
  virtual bool isReductionLocal(mlir::Operation *op) const = 0;

  /// Gives the reductions of `to` the reach of those of `from`.
  virtual void inheritReach(mlir::Operation *from,
                            mlir::Operation *to) const = 0;
};

/// The interface of the dialect whose attributes `op` carries; null if it has
/// no such attributes.
inline const PlacementInterface *getPlacement(mlir::Operation *op) {
  for (mlir::NamedAttribute attribute : op->getDiscardableAttrs())
    if (mlir::Dialect *dialect = attribute.getNameDialect())
      if (const auto *placement =
              dialect->getRegisteredInterface<PlacementInterface>())
        return placement;
  return nullptr;
}

} // namespace kerf

#endif // KERF_INTERFACES_PLACEMENT_H
