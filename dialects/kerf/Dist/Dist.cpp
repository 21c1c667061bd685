//===- Dist.cpp - the dialect and its discardable attributes --------------===//
//
// Shardings on ops, arguments and results are checked against the mesh and the
// types here, so that later passes can take them as they are.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Dist.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
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

//===----------------------------------------------------------------------===//
// Discardable attributes
//===----------------------------------------------------------------------===//

/// `global`: the type of the whole tensor where `type` is a part of it; null
/// where it is not known.
static LogicalResult checkSharding(Operation *op, Attribute attribute,
                                   Type type, Type global, const Twine &what) {
  auto sharding = dyn_cast<ShardingAttr>(attribute);
  if (!sharding)
    return op->emitError() << what << " has " << attribute
                           << ", expected a #dist.sharding";
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return op->emitError() << what << " has a sharding but is " << type
                           << ", expected a tensor";
  MeshAttr mesh = getMesh(op);
  if (!mesh)
    return op->emitError() << what << " has a sharding but the module has no "
                           << "dist.mesh";
  auto layout = sharding.toLayout(mesh.toMesh());
  if (!layout)
    return op->emitError() << what << ": " << toString(layout.takeError());
  if (static_cast<int64_t>(layout->dims.size()) != tensor.getRank())
    return op->emitError() << what << ": sharding has " << layout->dims.size()
                           << " dimensions, expected " << tensor.getRank()
                           << " for " << tensor;
  if (auto whole = dyn_cast_or_null<RankedTensorType>(global))
    if (std::string text = checkBlocks(*layout, whole.getShape());
        whole.getRank() == tensor.getRank() && !text.empty())
      return op->emitError() << what << ": " << text;
  return success();
}

/// The type of the whole tensor of which an argument, result or source is a
/// part after partitioning; before, `type`.
static Type globalOf(Attribute attribute, Type type) {
  auto global = dyn_cast_or_null<TypeAttr>(attribute);
  return global ? global.getValue() : type;
}

static LogicalResult checkShardings(Operation *op, Attribute attribute,
                                    TypeRange types, StringRef what) {
  auto array = dyn_cast<ArrayAttr>(attribute);
  if (!array || array.size() != types.size())
    return op->emitError() << "dist." << what << "s needs an array of "
                           << types.size() << " shardings";
  for (auto [index, entry] : llvm::enumerate(array))
    if (failed(checkSharding(op, entry, types[index], types[index],
                             Twine(what) + " " + Twine(index))))
      return failure();
  return success();
}

LogicalResult DistDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == kOperands)
    return checkShardings(op, attribute.getValue(), op->getOperandTypes(),
                          "operand");
  if (name == kResults)
    return checkShardings(op, attribute.getValue(), op->getResultTypes(),
                          "result");
  if (name == kSharding) {
    // On a source, after partitioning, beside the global type.
    if (op->getNumResults() != 1)
      return op->emitError("dist.sharding needs an op with one result");
    return checkSharding(op, attribute.getValue(), op->getResult(0).getType(),
                         globalOf(op->getAttr(kGlobalType), {}), "result 0");
  }
  for (StringRef number : {StringRef(kStage), StringRef(kColocation)})
    if (name == number && !isa<IntegerAttr>(attribute.getValue()))
      return op->emitError() << number << " must be an integer";
  if (name == kLocalReduction) {
    auto reach = dyn_cast<StringAttr>(attribute.getValue());
    if (!reach ||
        (reach.getValue() != "micro_batch" && reach.getValue() != "device"))
      return op->emitError("dist.local_reduction must be \"micro_batch\" or "
                           "\"device\"");
  }
  if (name == kPhase && !isa<PhaseAttr>(attribute.getValue()))
    return op->emitError("dist.phase must be a #dist<phase ...>");
  if (name == kPurpose && !isa<PurposeAttr>(attribute.getValue()))
    return op->emitError("dist.purpose must be a #dist<purpose ...>");
  return success();
}

LogicalResult DistDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned index,
                                                    NamedAttribute attribute) {
  if (attribute.getName() != kSharding)
    return success();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return success();
  Type type = function.getArgumentTypes()[index];
  return checkSharding(op, attribute.getValue(), type,
                       globalOf(function.getArgAttr(index, kGlobalType), type),
                       "argument " + Twine(index));
}

LogicalResult DistDialect::verifyRegionResultAttribute(
    Operation *op, unsigned, unsigned index, NamedAttribute attribute) {
  if (attribute.getName() != kSharding)
    return success();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return success();
  Type type = function.getResultTypes()[index];
  return checkSharding(
      op, attribute.getValue(), type,
      globalOf(function.getResultAttr(index, kGlobalType), type),
      "result " + Twine(index));
}
