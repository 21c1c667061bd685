//===- KerfDialect.cpp - what phases tell each other ----------------------===//
#include "kerf/Interfaces/KerfDialect.h"

#include "kerf/Interfaces/Bounded.h"
#include "kerf/Interfaces/KnownAttributes.h"
#include "kerf/Interfaces/TransferCast.h"
#include "kerf/Support/Preconditions.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace kerf;

#include "kerf/Interfaces/KerfDialect.cpp.inc"

void KerfDialect::initialize() {}

static bool isText(Attribute attribute) {
  auto text = dyn_cast<StringAttr>(attribute);
  return text && !text.empty();
}

static bool isInteger(Attribute attribute) {
  auto number = dyn_cast<IntegerAttr>(attribute);
  return number && number.getType().isSignlessInteger(64);
}

static bool isDimension(Attribute attribute) {
  return isInteger(attribute) && cast<IntegerAttr>(attribute).getInt() >= 0;
}

static bool isRange(Attribute attribute) {
  auto ends = dyn_cast<ArrayAttr>(attribute);
  return ends && ends.size() == 2 && llvm::all_of(ends, isInteger);
}

static bool arePairs(Attribute attribute) {
  auto numbers = dyn_cast<ArrayAttr>(attribute);
  return numbers && !numbers.empty() && numbers.size() % 2 == 0 &&
         llvm::all_of(numbers, isDimension);
}

static bool areTexts(Attribute attribute) {
  auto texts = dyn_cast<ArrayAttr>(attribute);
  return texts && llvm::all_of(texts, llvm::IsaPred<StringAttr>);
}

static bool areTextPairs(Attribute attribute) {
  return areTexts(attribute) && cast<ArrayAttr>(attribute).size() % 2 == 0;
}

static bool isUnit(Attribute attribute) { return isa<UnitAttr>(attribute); }

static bool isPrecondition(Attribute attribute) {
  auto name = dyn_cast<StringAttr>(attribute);
  return name && llvm::is_contained(kPreconditionNames, name.getValue());
}

// As the dialect's description has them.
static constexpr KnownAttribute kKnown[] = {
    {kNameAttr, OnArgument | OnResult, isText, "a string"},
    {kBatchDimAttr, OnArgument, isDimension, "an i64 that is not negative"},
    {kRangeAttr, OnArgument, isRange, "two i64 in a list"},
    {kSampleRangeAttr, OnArgument, isRange, "two i64 in a list"},
    {kIgnoreIndexAttr, OnArgument, isInteger, "an i64"},
    {kParameterAttr, OnArgument, isUnit, "a unit"},
    {kBoundedAttr, OnResult | OnOp, arePairs,
     "pairs of i64 that are not negative"},
    {kLengthAttr, OnResult | OnOp, isUnit, "a unit"},
    {kFilesAttr, OnModule, areTexts, "a list of strings"},
    {kBuffersAttr, OnModule, areTexts, "a list of strings"},
    {kParametersAttr, OnModule, areTexts, "a list of strings"},
    {kSharedAttr, OnModule, areTexts, "a list of strings"},
    {kOtherNamesAttr, OnModule, areTextPairs, "a list of pairs of strings"},
    {kCopyOfAttr, OnOp, isText, "a string"},
    {kNoGradientAttr, OnOp, isUnit, "a unit"},
    {kTransferCast, OnOp, isUnit, "a unit"},
    {kWithoutAttr, OnModule, isPrecondition, "the name of a precondition"},
};

LogicalResult KerfDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  return checkKnown(op, attribute, placeOf(op), kKnown);
}

LogicalResult KerfDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned index,
                                                    NamedAttribute attribute) {
  if (failed(checkKnown(op, attribute, OnArgument, kKnown)))
    return failure();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || attribute.getName() != kBatchDimAttr)
    return success();
  auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[index]);
  int64_t dim = cast<IntegerAttr>(attribute.getValue()).getInt();
  if (type && dim >= type.getRank())
    return op->emitError() << kBatchDimAttr << " of argument " << index
                           << " is " << dim << ", but the argument is " << type;
  return success();
}

LogicalResult KerfDialect::verifyRegionResultAttribute(
    Operation *op, unsigned, unsigned index, NamedAttribute attribute) {
  if (failed(checkKnown(op, attribute, OnResult, kKnown)))
    return failure();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || attribute.getName() != kBoundedAttr)
    return success();
  ArrayRef<Type> types = function.getResultTypes();
  auto type = dyn_cast<RankedTensorType>(types[index]);
  auto numbers = llvm::map_to_vector(
      cast<ArrayAttr>(attribute.getValue()).getAsRange<IntegerAttr>(),
      [](IntegerAttr number) { return number.getInt(); });
  for (size_t i = 0; i < numbers.size(); i += 2) {
    int64_t dim = numbers[i], length = numbers[i + 1];
    if (type && dim >= type.getRank())
      return op->emitError()
             << kBoundedAttr << " of result " << index << " names dimension "
             << dim << ", but the result is " << type;
    auto known = length < static_cast<int64_t>(types.size())
                     ? dyn_cast<RankedTensorType>(types[length])
                     : RankedTensorType();
    if (!known || known.getRank() != 0 ||
        !known.getElementType().isSignlessInteger(64) ||
        !function.getResultAttr(length, kLengthAttr))
      return op->emitError()
             << kBoundedAttr << " of result " << index << " names result "
             << length << ", expected a tensor<i64> with " << kLengthAttr;
  }
  return success();
}
