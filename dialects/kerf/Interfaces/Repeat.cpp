//===- Repeat.cpp - constants made where they are used --------------------===//
#include "kerf/Interfaces/Repeat.h"

#include "kerf/Interfaces/AnyOp.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace kerf;

bool kerf::canRepeat(Value value) {
  Operation *def = value.getDefiningOp();
  if (!def || !isPure(def) || def->getNumRegions() != 0)
    return false;
  if (def->getNumOperands() == 0)
    return true;
  return llvm::none_of(def->getResultTypes(), canBeCut) &&
         llvm::all_of(def->getOperands(), canRepeat);
}

static Value repeat(Value value, OpBuilder &builder, IRMapping &mapping) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  for (Value operand : value.getDefiningOp()->getOperands())
    repeat(operand, builder, mapping);
  Operation *copy = builder.clone(*value.getDefiningOp(), mapping);
  // What was planned was planned of the one outside.
  for (NamedAttribute attribute : llvm::to_vector(copy->getDiscardableAttrs()))
    if (attribute.getName().strref().starts_with("dist."))
      copy->removeDiscardableAttr(attribute.getName());
  return mapping.lookup(value);
}

void kerf::repeatInRegions(Operation *op) {
  for (Region &region : op->getRegions()) {
    if (region.empty())
      continue;
    llvm::SetVector<Value> captured;
    getUsedValuesDefinedAbove(region, captured);
    OpBuilder builder = OpBuilder::atBlockBegin(&region.front());
    IRMapping mapping;
    for (Value value : captured)
      if (canRepeat(value))
        replaceAllUsesInRegionWith(value, repeat(value, builder, mapping),
                                   region);
  }
}
