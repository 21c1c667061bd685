//===- Discardable.cpp - dist.* on other dialects' ops --------------------===//
//
// Between planning and lowering, decisions are discardable attributes. One
// table lists them, where each may be and its kind; any other attribute with
// the prefix `dist.` is an error, so that a misspelled one is not taken for a
// missing decision. Shardings are checked against the mesh and the types, so
// that later passes can rely on them.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Annotations.h"
#include "kerf/Dist/Dist.h"

#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Interfaces/KnownAttributes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

/// Shardings are checked against types and mesh, see checkSharding.
bool isAny(Attribute) { return true; }
bool isTensorType(Attribute attribute) {
  auto type = dyn_cast<TypeAttr>(attribute);
  return type && isa<RankedTensorType>(type.getValue());
}
bool isPriority(Attribute attribute) {
  if (auto each = dyn_cast<DenseI64ArrayAttr>(attribute))
    return llvm::all_of(each.asArrayRef(), [](int64_t n) { return n >= 0; });
  auto number = dyn_cast<IntegerAttr>(attribute);
  return number && number.getType().isSignlessInteger(64) &&
         number.getInt() >= 0;
}
bool isChunks(Attribute attribute) {
  auto number = dyn_cast<IntegerAttr>(attribute);
  return number && number.getType().isSignlessInteger(64) &&
         number.getInt() >= 2;
}
bool isNames(Attribute attribute) {
  auto names = dyn_cast<ArrayAttr>(attribute);
  return names && llvm::all_of(names, llvm::IsaPred<StringAttr>);
}
template <typename Attr> bool is(Attribute attribute) {
  return isa<Attr>(attribute);
}

// As the dialect's description has them.
constexpr KnownAttribute kKnown[] = {
    {kPlan, OnOp, is<PlanAttr>, "a #dist.plan"},
    {kStep, OnOp, is<StepAttr>, "a #dist.step"},
    {kLocalReduction, OnOp, is<ReductionReachAttr>, "a #dist<reach ...>"},
    {kSharding, OnOp | OnArgument | OnResult, isAny, "a #dist.sharding"},
    {kGlobalType, OnOp | OnArgument | OnResult, isTensorType, "a tensor type"},
    {kPart, OnFunction, is<PartAttr>, "a #dist.part"},
    {kFrom, OnArgument, is<FromAttr>, "a #dist.from"},
    {kTo, OnResult, is<ToAttr>, "a #dist.to"},
    {kScheduleKind, OnModule, is<ScheduleKindAttr>,
     "a #dist<schedule_kind ...>"},
    {kChunks, OnModule, isChunks, "a number of 64 bits, at least 2"},
    {kPriority, OnOp | OnArgument | OnResult, isPriority,
     "a number of 64 bits, at least 0, or an array<i64: ...> of such"},
    {kAxes, OnOp, isNames, "an array of names"},
};

} // namespace

/// `global`: the type of the whole tensor if `type` is a part of it; null if it
/// is unknown.
static LogicalResult checkSharding(Operation *op, Attribute attribute,
                                   Type type, Type global, const Twine &what) {
  auto sharding = dyn_cast<ShardingAttr>(attribute);
  if (!sharding)
    return op->emitError() << what << " has " << attribute
                           << ", expected a #dist.sharding";
  MeshAttr mesh = getMesh(op);
  if (!mesh)
    return op->emitError() << what
                           << " has a sharding but the module has no dist.mesh";
  auto layout = sharding.toLayout(mesh.toMesh());
  if (!layout)
    return op->emitError() << what << ": " << toString(layout.takeError());
  RankedTensorType planned = plannedType(type);
  if (static_cast<int64_t>(layout->dims.size()) != planned.getRank())
    return op->emitError() << what << ": sharding has " << layout->dims.size()
                           << " dimensions, expected " << planned.getRank()
                           << " for " << type
                           << (canBeCut(type) ? "" : ", which is never cut");
  if (layout->isPartial() && !canBeCut(type))
    return op->emitError() << what << " is a part of a sum but is " << type
                           << ", expected a tensor";
  auto whole = dyn_cast_or_null<RankedTensorType>(global);
  if (whole && canBeCut(whole) && whole.getRank() == planned.getRank())
    if (std::string text = checkBlocks(*layout, whole.getShape());
        !text.empty())
      return op->emitError() << what << ": " << text;
  return success();
}

/// A number, or one for each dimension of what has the one sharding; null:
/// there is none, or there are several.
static LogicalResult checkPriority(Operation *op, Attribute attribute,
                                   Type type, const Twine &what) {
  auto each = dyn_cast<DenseI64ArrayAttr>(attribute);
  if (!each)
    return success();
  if (!type)
    return op->emitError() << kPriority << " has a number for each dimension, "
                           << "expected one number for the shardings of a plan";
  int64_t rank = plannedType(type).getRank();
  if (each.size() != rank)
    return op->emitError() << what << ": " << kPriority << " has "
                           << each.size() << " numbers, expected " << rank
                           << " for " << type;
  return success();
}

/// The type of the whole tensor of which an argument, result or source is a
/// part after partitioning; before, `type`.
static Type globalOf(Attribute attribute, Type type) {
  auto global = dyn_cast_or_null<TypeAttr>(attribute);
  return global ? global.getValue() : type;
}

/// plan C3, for the operands or the results; none of them may be decided.
static LogicalResult checkShardings(Operation *op,
                                    ArrayRef<ShardingAttr> shardings,
                                    TypeRange types, StringRef what) {
  if (shardings.empty())
    return success();
  if (shardings.size() != types.size())
    return op->emitError() << kPlan << " has " << shardings.size()
                           << " shardings of " << what << "s, expected "
                           << types.size();
  for (auto [index, entry] : llvm::enumerate(shardings))
    if (failed(checkSharding(op, entry, types[index], types[index],
                             Twine(what) + " " + Twine(index))))
      return failure();
  return success();
}

LogicalResult DistDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  if (failed(checkKnown(op, attribute, placeOf(op), kKnown)))
    return failure();
  StringRef name = attribute.getName();
  if (name == kPlan) {
    auto plan = cast<PlanAttr>(attribute.getValue());
    if (failed(checkShardings(op, plan.getOperands(), op->getOperandTypes(),
                              "operand")))
      return failure();
    return checkShardings(op, plan.getResults(), op->getResultTypes(),
                          "result");
  }
  if (name == kPriority) {
    auto reshard = dyn_cast<ReshardOp>(op);
    if (!op->hasAttr(kPlan) && !reshard)
      return op->emitError() << kPriority << " without a sharding";
    return checkPriority(op, attribute.getValue(),
                         reshard ? reshard.getType() : Type(), "result 0");
  }
  if (name != kSharding)
    return success();
  // For a source, after partitioning, next to the global type.
  if (op->getNumResults() != 1)
    return op->emitError("dist.sharding needs an op with one result");
  return checkSharding(op, attribute.getValue(), op->getResult(0).getType(),
                       globalOf(op->getAttr(kGlobalType), {}), "result 0");
}

/// An attribute of an argument or a result of a function; `global` is its
/// `dist.global_type`, if it has one.
static LogicalResult checkBoundary(Operation *op, NamedAttribute attribute,
                                   AttributePlace place, unsigned index,
                                   Type type, Attribute global,
                                   bool hasSharding) {
  if (failed(checkKnown(op, attribute, place, kKnown)))
    return failure();
  std::string what =
      ((place == OnArgument ? "argument " : "result ") + Twine(index)).str();
  if (attribute.getName() == kPriority) {
    if (!hasSharding)
      return op->emitError()
             << what << " has a " << kPriority << " without a sharding";
    return checkPriority(op, attribute.getValue(), type, what);
  }
  if (attribute.getName() != kSharding)
    return success();
  return checkSharding(op, attribute.getValue(), type, globalOf(global, type),
                       what);
}

LogicalResult DistDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned index,
                                                    NamedAttribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return success();
  return checkBoundary(op, attribute, OnArgument, index,
                       function.getArgumentTypes()[index],
                       function.getArgAttr(index, kGlobalType),
                       !!function.getArgAttr(index, kSharding));
}

LogicalResult DistDialect::verifyRegionResultAttribute(
    Operation *op, unsigned, unsigned index, NamedAttribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return success();
  return checkBoundary(op, attribute, OnResult, index,
                       function.getResultTypes()[index],
                       function.getResultAttr(index, kGlobalType),
                       !!function.getResultAttr(index, kSharding));
}
