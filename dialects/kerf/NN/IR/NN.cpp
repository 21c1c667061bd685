//===- NN.cpp - dialect, verifiers, folders -------------------------------===//
//
// Checks that type inference (InferTypes.cpp) does not make: of ops whose
// result type is given instead of inferred.
//
//===----------------------------------------------------------------------===//
#include "kerf/NN/NN.h"

#include "Assembly.h"
#include "PatternUtils.h"

#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Interfaces/KnownAttributes.h"
#include "kerf/Interfaces/Placement.h"
#include "kerf/Interfaces/TransferCast.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

#include "kerf/NN/NNDialect.cpp.inc"
#include "kerf/NN/NNEnums.cpp.inc"
#include "kerf/NN/NNInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "kerf/NN/NNOps.cpp.inc"

void NNDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "kerf/NN/NNOps.cpp.inc"
      >();
}

LogicalResult NNDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  return checkKnown(op, attribute, placeOf(op), {});
}
LogicalResult NNDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                  unsigned,
                                                  NamedAttribute attribute) {
  return checkKnown(op, attribute, OnArgument, {});
}
LogicalResult NNDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                     unsigned,
                                                     NamedAttribute attribute) {
  return checkKnown(op, attribute, OnResult, {});
}

int64_t nn::sizeInBytes(RankedTensorType type) {
  return type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
}

std::optional<double> nn::splatNumber(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant || !constant.getElements().isSplat() || !holdsFloats(value))
    return std::nullopt;
  return constant.getElements().getSplatValue<APFloat>().convertToDouble();
}

LibraryWork nn::indexedLibraryWork(Type type) {
  Type element = getElementTypeOrSelf(type);
  bool taken = element.isF32() || element.isF64() ||
               element.isSignlessInteger(32) || element.isSignlessInteger(64);
  return taken ? LibraryWork::Call : LibraryWork::None;
}

LibraryWork nn::windowLibraryWork(LibraryWork work, RankedTensorType type) {
  return type.getRank() <= 5 ? work : LibraryWork::None;
}

bool nn::isSumOfProducts(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return op->hasTrait<SumOfProducts>() && holdsFloats(op->getResult(0)) &&
         (!reduce || reduce.getKind() == ReduceKind::Sum);
}

bool nn::dividesIntegers(Operation *op) {
  return op->hasTrait<Division>() && !holdsFloats(op->getResult(0));
}

SmallVector<int64_t> nn::dimsFrom(Value value, int64_t dim) {
  return llvm::to_vector(llvm::seq<int64_t>(
      dim, cast<RankedTensorType>(value.getType()).getRank()));
}

LogicalResult WeightOp::verify() {
  auto stored = dyn_cast<RankedTensorType>(getStored());
  if (!stored || !stored.hasStaticShape())
    return emitOpError("stored type must be a static tensor, got ")
           << getStored();
  // weight C1
  if (getLength() != static_cast<uint64_t>(sizeInBytes(stored)))
    return emitOpError("length is ")
           << getLength() << " bytes, expected " << sizeInBytes(stored)
           << " for " << stored;
  // weight C2
  RankedTensorType type = getResult().getType();
  SmallVector<int64_t> starts(stored.getRank(), 0);
  if (getStarts())
    starts.assign(getStarts()->begin(), getStarts()->end());
  // Partition gives the op its local type and records the global one.
  RankedTensorType view = type;
  if (const PlacementInterface *placement = getPlacement(*this))
    if (RankedTensorType global = placement->getGlobalType(*this))
      view = global;
  if (view.getElementType() != stored.getElementType() ||
      view.getRank() != stored.getRank() ||
      static_cast<int64_t>(starts.size()) != stored.getRank())
    return emitOpError("view ") << view << " does not fit stored " << stored;
  for (int64_t dim = 0; dim < view.getRank(); ++dim)
    if (starts[dim] < 0 ||
        starts[dim] + view.getDimSize(dim) > stored.getDimSize(dim))
      return emitOpError("view of dimension ")
             << dim << " is [" << starts[dim] << ", "
             << starts[dim] + view.getDimSize(dim) << "), outside size "
             << stored.getDimSize(dim);
  if (!getStarts() && view.getShape() != stored.getShape())
    return emitOpError("view ") << view << " does not fit stored " << stored;
  return success();
}

bool WeightOp::isParameter() { return true; }
bool WeightOp::isUniform() { return false; }
StringRef WeightOp::getSourceName() { return getName(); }

bool WeightOp::isMutable() { return getVariable(); }

LogicalResult StateOp::verify() {
  // state C1
  Type element = getResult().getType().getElementType();
  if (getInit().getType() != element)
    return emitOpError("init is ")
           << getInit().getType() << ", expected " << element;
  return success();
}

bool StateOp::isParameter() { return true; }
bool StateOp::isMutable() { return true; }
bool StateOp::isUniform() { return false; }
StringRef StateOp::getSourceName() { return getName(); }

LogicalResult ConstantOp::verify() {
  // constant C1
  if (!isa<DenseElementsAttr>(getValue()))
    return emitOpError("value must be a dense elements attribute");
  return success();
}

bool ConstantOp::isParameter() { return getName().has_value(); }
bool ConstantOp::isUniform() { return getElements().isSplat(); }
bool ConstantOp::isStoredInParts() { return false; }
StringRef ConstantOp::getSourceName() {
  return getName() ? *getName() : StringRef();
}

LogicalResult IotaOp::verify() {
  if (static_cast<int64_t>(getDim()) >= getResult().getType().getRank())
    return emitOpError("dim is ") << getDim() << ", expected less than rank "
                                  << getResult().getType().getRank();
  return success();
}

/// C1 of casts.
static LogicalResult verifySameShape(Operation *op, StringRef verb) {
  auto from = cast<RankedTensorType>(op->getOperand(0).getType());
  auto to = cast<RankedTensorType>(op->getResult(0).getType());
  if (from.getShape() != to.getShape())
    return op->emitOpError(verb)
           << " " << from << " to " << to << ", expected equal shapes";
  return success();
}

LogicalResult CastOp::verify() {
  Type from = getX().getType().getElementType();
  Type to = getResult().getType().getElementType();
  if (from != to && isa<Float8E8M0FNUType>(to))
    return emitOpError("casts ")
           << from << " to " << to << ", which nn.bitcast makes of an exponent";
  return verifySameShape(getOperation(), "casts");
}

LogicalResult BitcastOp::verify() {
  Type from = getX().getType().getElementType();
  Type to = getResult().getType().getElementType();
  unsigned width = from.getIntOrFloatBitWidth();
  if (width == 1 || width != to.getIntOrFloatBitWidth())
    return emitOpError("takes ")
           << from << " as " << to << ", expected types of one width above 1";
  return verifySameShape(getOperation(), "takes");
}

LogicalResult ReshapeOp::verify() {
  auto from = cast<RankedTensorType>(getX().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  if (from.getElementType() != to.getElementType() ||
      from.getNumElements() != to.getNumElements())
    return emitOpError("reshapes ")
           << from << " to " << to
           << ", expected the same element type and number of elements";
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getX().getType() == getResult().getType())
    return getX();
  if (auto inner = getX().getDefiningOp<ReshapeOp>();
      inner && !isPlanned(*this)) {
    setOperand(inner.getX());
    return getResult();
  }
  return {};
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  for (auto [dim, from] : llvm::enumerate(getPerm()))
    if (static_cast<int64_t>(dim) != from)
      return {};
  return getX();
}

LogicalResult BroadcastOp::verify() {
  ArrayRef<int64_t> to = cast<RankedTensorType>(getType()).getShape();
  auto joint =
      broadcastShapes(cast<RankedTensorType>(getX().getType()).getShape(), to);
  if (!joint || ArrayRef<int64_t>(*joint) != to)
    return emitOpError("operand ")
           << getX().getType() << " does not broadcast to " << getType();
  return success();
}
