//===- Dist.cpp - the dialect ---------------------------------------------===//
#include "kerf/Dist/Dist.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

#include "kerf/Dist/DistDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "kerf/Dist/DistTypes.cpp.inc"

void DistDialect::initialize() {
  registerAttributes();
  addTypes<
#define GET_TYPEDEF_LIST
#include "kerf/Dist/DistTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "kerf/Dist/DistOps.cpp.inc"
      >();
}

MeshAttr dist::getMesh(Operation *op) {
  for (; op; op = op->getParentOp())
    if (op->getNumRegions() == 1 && op->hasTrait<OpTrait::SymbolTable>())
      for (Operation &inner : op->getRegion(0).getOps())
        if (auto mesh = dyn_cast<MeshOp>(inner))
          return mesh.getMesh();
  return {};
}

ReductionReach dist::getReductionReach(Operation *op) {
  auto reach = op->getAttrOfType<StringAttr>(kLocalReduction);
  return !reach                         ? ReductionReach::Batch
         : reach.getValue() == "device" ? ReductionReach::Device
                                        : ReductionReach::MicroBatch;
}

Phase dist::getPhase(Operation *op) {
  auto attribute = op->getAttrOfType<PhaseAttr>(kPhase);
  return attribute ? attribute.getValue() : Phase::Forward;
}

bool dist::runsOncePerStep(Phase phase) {
  return phase == Phase::Prologue || phase == Phase::Update;
}

RankedTensorType dist::localType(RankedTensorType type, const Layout &layout) {
  return RankedTensorType::get(layout.localShape(type.getShape()),
                               type.getElementType());
}

int64_t dist::elementBytes(Type elementType) {
  return (elementType.getIntOrFloatBitWidth() + 7) / 8;
}

int64_t dist::sizeBytes(RankedTensorType type) {
  return type.getNumElements() * elementBytes(type.getElementType());
}

RankedTensorType dist::tensorOf(Type type) {
  if (auto pending = dyn_cast<PendingType>(type))
    return pending.getTensor();
  return cast<RankedTensorType>(type);
}
