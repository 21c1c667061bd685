//===- Dist.cpp - the dialect ---------------------------------------------===//
#include "kerf/Dist/Dist.h"

#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Interfaces/Placement.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
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
/// dimension 0 is cut by mb and dimension 1 by nothing, `#s_mb_x3` one whose
/// last three are not cut, `#s_x_sum-tp` one of a vector that is a partial sum
/// over tp (docs/Dist.md). A plan is named after its shardings and stage,
/// `#p1_mb_x--tp_x_to_mb_tp`, a step after all that it says,
/// `#backward_weight_3_gradient`.
struct AttributeNames : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attribute, raw_ostream &os) const override {
    if (auto sharding = dyn_cast<ShardingAttr>(attribute))
      name(sharding, os);
    else if (auto plan = dyn_cast<PlanAttr>(attribute))
      name(plan, os);
    else if (auto step = dyn_cast<StepAttr>(attribute))
      name(step, os);
    else if (auto reach = dyn_cast<ReductionReachAttr>(attribute))
      os << stringifyReductionReach(reach.getValue());
    else
      return AliasResult::NoAlias;
    return AliasResult::OverridableAlias;
  }

private:
  static void name(ShardingAttr sharding, raw_ostream &os) {
    std::string rest = name(sharding);
    os << 's' << (rest.empty() ? "" : "_") << rest;
  }

  static void name(StepAttr step, raw_ostream &os) {
    os << stringifyPhase(step.getPhase());
    if (step.getColocation())
      os << '_' << *step.getColocation();
    if (step.getPurpose())
      os << '_' << stringifyPurpose(*step.getPurpose());
    if (step.getLoss())
      os << "_loss";
    if (step.getRecomputed())
      os << "_recomputed";
  }

  static void name(PlanAttr plan, raw_ostream &os) {
    os << 'p';
    if (plan.getStage())
      os << *plan.getStage();
    if (plan.getChunk())
      os << 'c' << plan.getChunk();
    auto names = [&](ArrayRef<ShardingAttr> shardings) {
      StringRef before = "_";
      for (ShardingAttr sharding : shardings) {
        std::string text = name(sharding);
        os << before << (text.empty() ? "s" : text);
        before = "--";
      }
    };
    names(plan.getOperands());
    if (!plan.getResults().empty())
      os << "_to";
    names(plan.getResults());
  }

  /// Empty for a scalar that is no partial sum.
  static std::string name(ShardingAttr sharding) {
    SmallVector<std::string> words;
    ArrayRef<AxesAttr> dims = sharding.getDims();
    for (size_t dim = 0; dim < dims.size(); ++dim) {
      if (!dims[dim].getAxes().empty()) {
        int64_t block = sharding.getBlock(dim);
        words.push_back(name(dims[dim]) +
                        (block ? "-by" + std::to_string(block) : ""));
        continue;
      }
      // Uncut dimensions beside each other are counted.
      size_t first = dim;
      while (dim + 1 < dims.size() && dims[dim + 1].getAxes().empty())
        ++dim;
      words.push_back(dim > first ? "x" + std::to_string(dim + 1 - first)
                                  : "x");
    }
    if (sharding.isPartial())
      words.push_back(
          (stringifyReductionKind(sharding.getReduction()) + "-").str() +
          name(sharding.getPartial()));
    return llvm::join(words, "_");
  }

  static std::string name(AxesAttr axes) {
    return llvm::join(
        llvm::map_range(axes.getAxes(),
                        [](AxisAttr axis) {
                          std::string name = axis.getName().str();
                          if (!axis.isWhole())
                            name += "-" + std::to_string(axis.getPreSize()) +
                                    "-" + std::to_string(axis.getSize());
                          return name;
                        }),
        "-");
  }
};

struct Placement : PlacementInterface {
  using PlacementInterface::PlacementInterface;

  bool isPlanned(Operation *op) const override {
    return !getOperandShardings(op).empty() || !getResultShardings(op).empty();
  }

  RankedTensorType getGlobalType(Operation *op) const override {
    auto global =
        dyn_cast_or_null<TypeAttr>(op->getDiscardableAttr(kGlobalType));
    return global ? cast<RankedTensorType>(global.getValue())
                  : RankedTensorType();
  }

  bool isReductionLocal(Operation *op) const override {
    return bool(op->getDiscardableAttr(kLocalReduction));
  }

  void inheritReach(Operation *from, Operation *to) const override {
    if (Attribute reach = from->getDiscardableAttr(kLocalReduction))
      to->setDiscardableAttr(kLocalReduction, reach);
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

int64_t dist::getNumChunks(Operation *module) {
  auto chunks =
      dyn_cast_or_null<IntegerAttr>(module->getDiscardableAttr(kChunks));
  return chunks ? chunks.getInt() : 1;
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
