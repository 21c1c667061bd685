//===- KnownValues.cpp - evaluates copies of ops; see KnownValues.h -------===//
#include "KnownValues.h"

#include "kerf/NN/IR/Evaluate.h"
#include "kerf/NN/NN.h"

#include "mlir/IR/IRMapping.h"

using namespace kerf;
using namespace kerf::nn;
using namespace mlir;

KnownValues::KnownValues(Value of, int64_t number) : builder(of.getContext()) {
  builder.setInsertionPointToEnd(&scratch);
  auto type = cast<RankedTensorType>(of.getType());
  Type element = type.getElementType();
  Attribute attr =
      isa<FloatType>(element)
          ? Attribute(builder.getFloatAttr(element, double(number)))
          : builder.getIntegerAttr(element, number);
  known[of] = constant(DenseElementsAttr::get(type, attr));
}

DenseElementsAttr KnownValues::get(Value value) {
  Value found = compute(value);
  return found ? wholeElements(found) : DenseElementsAttr();
}

Value KnownValues::constant(DenseElementsAttr elements) {
  return ConstantOp::create(builder, builder.getUnknownLoc(),
                            cast<ElementsAttr>(elements));
}

Value KnownValues::compute(Value value) {
  auto [entry, isNew] = known.try_emplace(value, Value());
  if (!isNew)
    return entry->second;
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumResults() != 1 || op->getNumRegions() != 0)
    return {};
  Value result;
  if (auto literal = dyn_cast<ConstantOp>(op)) {
    result = constant(literal.getElements());
  } else {
    IRMapping mapping;
    for (Value operand : op->getOperands()) {
      Value given = compute(operand);
      if (!given)
        return {};
      mapping.map(operand, given);
    }
    Operation *copy = builder.clone(*op, mapping);
    if (DenseElementsAttr elements = evaluate(copy))
      result = makeConstant(
          builder, builder.getUnknownLoc(),
          cast<RankedTensorType>(copy->getResult(0).getType()), elements);
    else if (isa<BroadcastOp>(copy))
      result = copy->getResult(0);
  }
  return known[value] = result;
}
