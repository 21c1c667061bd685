//===- ClassLosses.cpp - losses over classes that may be cut --------------===//
//
// See ClassLosses.h. A negative label is replaced by one past the end of the
// table, since nn.gather would count it from the back.
//
//===----------------------------------------------------------------------===//
#include "kerf/NN/Gradients/ClassLosses.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Support/TensorTypes.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

ClassLosses::ClassLosses(OpBuilder &builder, Location loc, Value scores,
                         Value labels, int64_t dim,
                         std::optional<int64_t> ignoreIndex, Reduce reduce)
    : builder(builder), b(builder, loc), reduce(std::move(reduce)),
      labels(labels), dim(dim), classes(typeOf(scores).getDimSize(dim)),
      columnShape(typeOf(scores).getShape()), ignoreIndex(ignoreIndex) {
  if (!this->reduce)
    this->reduce = [this](Value x, ReduceKind kind, ArrayRef<int64_t> dims) {
      return b.reduce(x, kind, dims);
    };
  columnShape[dim] = 1;
  Value index =
      b.make<IotaOp>(RankedTensorType::get({classes}, builder.getI64Type()),
                     builder.getI64IntegerAttr(0));
  hit = b.equal(column(labels), alongClasses(index));
}

Value ClassLosses::constant(ArrayRef<int64_t> shape, Attribute element) {
  auto type = RankedTensorType::get(shape, cast<TypedAttr>(element).getType());
  return b.make<ConstantOp>(
      cast<ElementsAttr>(DenseElementsAttr::get(type, element)));
}

Value ClassLosses::integer(int64_t value) {
  return constant({}, builder.getI64IntegerAttr(value));
}

Value ClassLosses::column(Value perLabel) {
  return b.reshape(perLabel, columnShape);
}

Value ClassLosses::alongClasses(Value perClass) {
  SmallVector<int64_t> along(columnShape.size(), 1);
  along[dim] = classes;
  return b.reshape(perClass, along);
}

Value ClassLosses::shifted(Value x) {
  Value largest = reduce(x, ReduceKind::Max, {dim});
  largest.getDefiningOp()->setAttr(kNoGradientAttr, builder.getUnitAttr());
  return b.sub(x, column(largest));
}

Value ClassLosses::logSum(Value shifted) {
  return b.make<LogOp>(sumOverClasses(b.exp(shifted)));
}

Value ClassLosses::sumOverClasses(Value x) {
  return reduce(x, ReduceKind::Sum, {dim});
}

Value ClassLosses::picked(Value x) {
  return sumOverClasses(b.keepWhere(hit, x));
}

Value ClassLosses::zeroIgnored(Value perLabel) {
  return ignoreIndex
             ? b.zeroWhere(b.equal(labels, integer(*ignoreIndex)), perLabel)
             : perLabel;
}

Value ClassLosses::weights(Value table) {
  if (!table)
    table = constant({classes}, builder.getF32FloatAttr(1));
  Value index = b.select(b.less(labels, integer(0)), integer(classes), labels);
  if (ignoreIndex)
    index = b.select(b.equal(labels, integer(*ignoreIndex)), integer(0), index);
  Value read =
      b.make<GatherOp>(typeOf(labels).clone(typeOf(table).getElementType()),
                       table, index, builder.getI64IntegerAttr(0), UnitAttr());
  read.getDefiningOp()->setAttr(kNoGradientAttr, builder.getUnitAttr());
  return zeroIgnored(read);
}

Value ClassLosses::mean(Value sum, Value count) {
  Value nothing = b.equal(count, b.number(0, count));
  Value nan = b.number(std::numeric_limits<double>::quiet_NaN(), count);
  return b.div(sum, b.select(nothing, nan, count));
}

Value ClassLosses::sumAll(Value x) {
  SmallVector<int64_t> dims;
  for (int64_t d = 0; d < typeOf(x).getRank(); ++d)
    dims.push_back(d);
  return dims.empty() ? x : reduce(x, ReduceKind::Sum, dims);
}
