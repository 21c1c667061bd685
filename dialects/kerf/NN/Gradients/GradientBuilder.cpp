//===- GradientBuilder.cpp ------------------------------------------------===//
#include "GradientBuilder.h"

#include "../IR/PatternUtils.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

bool kerf::nn::isDifferentiable(Value value) {
  RankedTensorType type = typeOf(value);
  if (!isComputedFloat(type.getElementType()) || type.getNumElements() == 0)
    return false;
  auto source = value.getDefiningOp<SourceOpInterface>();
  return !source || source.isParameter();
}

Value GradientBuilder::number(double value, Value like) {
  auto element = cast<FloatType>(typeOf(like).getElementType());
  auto type = RankedTensorType::get({}, element);
  return ConstantOp::create(
      builder, loc,
      cast<ElementsAttr>(DenseElementsAttr::get(
          type, Attribute(builder.getFloatAttr(element, value)))));
}

Value GradientBuilder::reshape(Value x, Dims shape) {
  if (shapeOf(x) == shape)
    return x;
  return makeReshape(builder, loc, x, shape);
}

Value GradientBuilder::transpose(Value x, Dims perm) {
  return make<TransposeOp>(x, perm);
}

Value GradientBuilder::broadcast(Value x, Dims shape) {
  if (shapeOf(x) == shape)
    return x;
  return make<BroadcastOp>(typeOf(x).clone(shape), x);
}

Value GradientBuilder::slice(Value x, Dims starts, Dims sizes, Dims strides) {
  bool whole = shapeOf(x) == sizes;
  for (int64_t stride : strides)
    whole &= stride == 1;
  return whole ? x : make<SliceOp>(x, starts, sizes, strides);
}

Value GradientBuilder::pad(Value x, Dims low, Dims high) {
  auto isZero = [](int64_t size) { return size == 0; };
  if (llvm::all_of(low, isZero) && llvm::all_of(high, isZero))
    return x;
  return make<PadOp>(
      x, low, high,
      cast<TypedAttr>(builder.getZeroAttr(typeOf(x).getElementType())));
}

Value GradientBuilder::reduce(Value x, ReduceKind kind, Dims dims) {
  return dims.empty() ? x : make<ReduceOp>(x, kind, dims);
}

Value GradientBuilder::restore(Value y, Value x, Dims dims) {
  SmallVector<int64_t> shape(shapeOf(x));
  for (int64_t dim : dims)
    shape[dim] = 1;
  return reshape(y, shape);
}

Value GradientBuilder::sumKeep(Value x, Dims dims) {
  return restore(reduce(x, ReduceKind::Sum, dims), x, dims);
}

Value GradientBuilder::unbroadcast(Value gradient, Value like) {
  ArrayRef<int64_t> from = shapeOf(gradient), to = shapeOf(like);
  SmallVector<int64_t> dims;
  size_t skip = from.size() - to.size();
  for (size_t dim = 0; dim < from.size(); ++dim)
    if (dim < skip || (to[dim - skip] == 1 && from[dim] != 1))
      dims.push_back(static_cast<int64_t>(dim));
  return reshape(reduce(gradient, ReduceKind::Sum, dims), to);
}

Value GradientBuilder::widen(Value x) {
  RankedTensorType type = typeOf(x);
  if (type.getElementTypeBitWidth() >= 32)
    return x;
  return make<CastOp>(type.clone(Type(builder.getF32Type())), x);
}

Value GradientBuilder::castLike(Value x, Value like) {
  Type element = typeOf(like).getElementType();
  if (typeOf(x).getElementType() == element)
    return x;
  return make<CastOp>(typeOf(x).clone(element), x);
}
