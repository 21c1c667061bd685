//===- Dist.cpp - the dialect ---------------------------------------------===//
#include "kerf/Dist/Dist.h"

#include "kerf/Interfaces/Placement.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

#include "kerf/Dist/DistDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "kerf/Dist/DistTypes.cpp.inc"

namespace {
/// Shardings stand many times on most lines of a planned module, so they are
/// printed by names that say what they are: `#s_mb_x` is the sharding whose
/// dimension 0 is cut by mb and dimension 1 by nothing, `#s_x_sum-tp` one of a
/// vector that is a partial sum over tp (docs/Dist.md).
struct ShardingNames : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attribute, raw_ostream &os) const override {
    auto sharding = dyn_cast<ShardingAttr>(attribute);
    if (!sharding)
      return AliasResult::NoAlias;
    auto axes = [&](AxesAttr list) {
      llvm::interleave(
          list.getAxes(), os,
          [&](AxisAttr axis) {
            os << axis.getName();
            if (!axis.isWhole())
              os << '-' << axis.getPreSize() << '-' << axis.getSize();
          },
          "-");
    };
    os << 's';
    for (auto [dim, list] : llvm::enumerate(sharding.getDims())) {
      os << '_';
      if (list.getAxes().empty())
        os << 'x';
      axes(list);
      if (int64_t block = sharding.getBlock(dim))
        os << "-by" << block;
    }
    if (sharding.isPartial()) {
      os << '_' << stringifyReductionKind(sharding.getReduction()) << '-';
      axes(sharding.getPartial());
    }
    return AliasResult::OverridableAlias;
  }
};

struct Placement : PlacementInterface {
  using PlacementInterface::PlacementInterface;

  bool isPlanned(Operation *op) const override {
    return op->hasAttr(kOperands);
  }

  RankedTensorType getGlobalType(Operation *op) const override {
    auto global = op->getAttrOfType<TypeAttr>(kGlobalType);
    return global ? cast<RankedTensorType>(global.getValue())
                  : RankedTensorType();
  }

  bool isReductionLocal(Operation *op) const override {
    return op->hasAttr(kLocalReduction);
  }

  void inheritReach(Operation *from, Operation *to) const override {
    if (Attribute reach = from->getAttr(kLocalReduction))
      to->setAttr(kLocalReduction, reach);
  }
};
} // namespace

void DistDialect::initialize() {
  registerAttributes();
  addInterfaces<ShardingNames, Placement>();
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
