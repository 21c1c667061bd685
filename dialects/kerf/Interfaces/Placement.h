//===- Placement.h - decisions about ops of other dialects ------*- C++ -*-===//
//
// Decisions about an op (shardings, parts of a step) are discardable attributes
// of another dialect than the op's. What the op's own dialect has to know of
// them it asks that dialect through this interface, so that no dialect reads
// another's attributes by name.
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

  /// Whether it is decided how operands and results of `op` lie: a rewrite
  /// would have to decide it again.
  virtual bool isPlanned(mlir::Operation *op) const = 0;

  /// The type of the whole tensor of which the source `op` gives one rank's
  /// part; null where it gives all.
  virtual mlir::RankedTensorType getGlobalType(mlir::Operation *op) const = 0;

  /// Whether what `op` reduces over the batch stays within a micro-batch or
  /// what one device has of it.
  virtual bool isReductionLocal(mlir::Operation *op) const = 0;

  /// Lets the reductions of `to` reach as far as those of `from`.
  virtual void inheritReach(mlir::Operation *from,
                            mlir::Operation *to) const = 0;
};

/// The interface of the dialect whose attributes `op` carries; null where it
/// has none.
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
