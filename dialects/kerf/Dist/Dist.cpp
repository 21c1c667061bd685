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
/// Lines of a planned module have many shardings, so these are printed by names
/// that describe them: `#s_mb_x` cuts dimension 0 by mb and dimension 1 not at
/// all, `#s_x_sum-tp` is a vector that is a partial sum over tp (docs/Dist.md).
/// A plan is named after its shardings and stage, `#p1_mb_x_and_tp_x_to_mb_tp`;
/// a step only if it consists of a phase, `#update`, since steps have many
/// numbers.
struct AttributeNames : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attribute, raw_ostream &os) const override {
    if (auto sharding = dyn_cast<ShardingAttr>(attribute))
      os << 's', name(sharding, os);
    else if (auto plan = dyn_cast<PlanAttr>(attribute))
      name(plan, os);
    else if (auto step = dyn_cast<StepAttr>(attribute);
             step && step == phaseOnly(step))
      os << stringifyPhase(step.getPhase());
    else if (auto reach = dyn_cast<ReductionReachAttr>(attribute))
      os << stringifyReductionReach(reach.getValue());
    else
      return AliasResult::NoAlias;
    return AliasResult::OverridableAlias;
  }

private:
  static void name(PlanAttr plan, raw_ostream &os) {
    os << 'p';
    if (plan.getStage())
      os << *plan.getStage();
    auto names = [&](ArrayRef<ShardingAttr> shardings) {
      llvm::interleave(
          shardings, os,
          [&](ShardingAttr sharding) {
            if (sharding.getDims().empty() && !sharding.isPartial())
              os << "_s";
            name(sharding, os);
          },
          "_and");
    };
    names(plan.getOperands());
    if (!plan.getResults().empty())
      os << "_to";
    names(plan.getResults());
  }

  /// Begins with `_`, except for a scalar.
  static void name(ShardingAttr sharding, raw_ostream &os) {
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
  }
};

struct Placement : PlacementInterface {
  using PlacementInterface::PlacementInterface;

  bool isPlanned(Operation *op) const override {
    return !getOperandShardings(op).empty() || !getResultShardings(op).empty();
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
  addInterfaces<AttributeNames, Placement>();
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
