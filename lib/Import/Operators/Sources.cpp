//===- Sources.cpp - constants, ranges, shapes ----------------------------===//
//
// Shapes are static, so everything here is known at import.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "../Importer.h"
#include "BoundedShapes.h"

#include <cmath>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

static LogicalResult constant(Node &node) {
  if (failed(node.arity(0, 0)))
    return failure();
  std::string name =
      node.proto.output_size() ? node.proto.output(0) : std::string();
  if (const onnx::TensorProto *tensor = node.tensor("value")) {
    Value value = node.importer.literal(*tensor, name, node.name);
    if (!value) {
      node.failed = true; // reported by literal
      return failure();
    }
    return node.set(value);
  }
  MLIRContext *context = node.context;
  auto vector = [&](int64_t size, Type element) {
    return RankedTensorType::get({size}, element);
  };
  if (node.hasAttribute("value_int"))
    return node.set(node.constant(
        DenseElementsAttr::get(RankedTensorType::get({}, node.ops.getI64Type()),
                               node.integer("value_int", 0))));
  if (node.hasAttribute("value_float"))
    return node.set(
        node.scalar(node.real("value_float", 0), Float32Type::get(context)));
  if (auto list = node.integerList("value_ints"))
    return node.set(node.integers(*list));
  if (auto list = node.realList("value_floats")) {
    SmallVector<float> values(list->begin(), list->end());
    return node.set(node.constant(DenseElementsAttr::get(
        vector(int64_t(values.size()), Float32Type::get(context)),
        ArrayRef<float>(values))));
  }
  if (node.failed)
    return failure();
  for (const char *other : {"value_string", "value_strings", "sparse_value"})
    if (node.hasAttribute(other))
      return node.unsupported(std::string("attribute \"") + other +
                              "\" of operator Constant");
  return node.error("attribute \"value\" is missing");
}

static LogicalResult constantOfShape(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  std::optional<SmallVector<int64_t>> shape;
  SmallVector<Value> lengths;
  if (!node.elements(node.in(0)))
    shape = largestShape(node, 0, lengths);
  else
    shape = node.constantIntegers(0);
  if (!shape)
    return failure();
  for (int64_t size : *shape)
    if (size < 0)
      return node.error("dimension is " + Twine(size) +
                        ", expected at least 0");
  Type element = Float32Type::get(node.context);
  DenseElementsAttr value;
  if (const onnx::TensorProto *tensor = node.tensor("value")) {
    Value literal = node.importer.literal(*tensor, "", node.name);
    if (!literal) {
      node.failed = true;
      return failure();
    }
    value = node.elements(literal);
    if (!value || value.getNumElements() != 1)
      return node.error("attribute \"value\" must have one element");
    element = elementOf(literal);
  }
  auto bounded = [&](Value result) {
    for (auto [dim, length] : llvm::enumerate(lengths))
      if (result && length)
        node.bounds.set(result, int64_t(dim), length);
    return node.set(result);
  };
  if (!value)
    return bounded(node.splat(*shape, 0, element));
  auto type = RankedTensorType::get(*shape, element);
  if (!tensorBytes(*shape, element))
    return node.error("result is larger than 2^47 bytes");
  Attribute single = *value.getValues<Attribute>().begin();
  return bounded(node.constant(DenseElementsAttr::get(type, single)));
}

static LogicalResult shape(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  int64_t rank = rankOf(node.in(0));
  auto clamp = [&](int64_t at) {
    return std::min(std::max(at < 0 ? at + rank : at, int64_t(0)), rank);
  };
  int64_t start = clamp(node.integer("start", 0));
  int64_t end = clamp(node.integer("end", rank));
  if (node.bounds.has(node.in(0)) && start < end) {
    SmallVector<Value> sizes;
    for (int64_t dim = start; dim < end; ++dim)
      sizes.push_back(node.reshape(node.sizeOf(node.in(0), dim), {1}));
    return node.set(node.concat(sizes, 0));
  }
  return node.set(node.integers(
      shapeOf(node.in(0)).slice(start, std::max(end - start, int64_t(0)))));
}

static LogicalResult size(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  if (node.bounds.has(x)) {
    Value count;
    int64_t rest = 1;
    for (int64_t dim = 0; dim < rankOf(x); ++dim)
      if (Value length = node.bounds.lengthOf(x, dim))
        count = count ? node.mul(count, length) : length;
      else
        rest *= shapeOf(x)[dim];
    return node.set(node.times(count, rest));
  }
  return node.set(node.constant(
      DenseElementsAttr::get(RankedTensorType::get({}, node.ops.getI64Type()),
                             typeOf(x).getNumElements())));
}

/// How many numbers there are from `start` up to, or down to, `limit`.
static double stepsBetween(double start, double limit, double delta) {
  return std::ceil((limit - start) / delta);
}
static double stepsBetween(int64_t start, int64_t limit, int64_t delta) {
  // Doubles do not hold all integers.
  __int128 way = __int128(limit) - start, steps = way / delta;
  return double(steps + (steps * delta != way && (way < 0) == (delta < 0)));
}

static LogicalResult range(Node &node) {
  if (failed(node.arity(3, 3)))
    return failure();
  if (!node.elements(node.in(1)) && elementOf(node.in(1)).isSignlessInteger(64))
    return rangeBounded(node);
  auto start = node.constantReal(0), limit = node.constantReal(1),
       delta = node.constantReal(2);
  (void)node.integer("stash_type", 1);
  if (!start || !limit || !delta)
    return failure();
  if (*delta == 0)
    return node.error("delta is 0");
  Type element = elementOf(node.in(0));
  double steps = 0;
  if (isa<FloatType>(element)) {
    steps = stepsBetween(*start, *limit, *delta);
  } else {
    SmallVector<int64_t> numbers;
    for (size_t index = 0; index < 3; ++index) {
      auto number = node.constantIntegers(index);
      if (!number)
        return failure();
      numbers.push_back((*number)[0]);
    }
    steps = stepsBetween(numbers[0], numbers[1], numbers[2]);
  }
  constexpr double kMax = 1 << 30;
  if (!(steps <= kMax))
    return node.error("range has more than 2^30 elements");
  int64_t count = std::max<int64_t>(0, int64_t(steps));
  Value index = node.iota(count, element);
  if (*start == 0 && *delta == 1)
    return node.set(index);
  Value first = node.reshape(node.asConstant(node.in(0)), {});
  Value step = node.reshape(node.asConstant(node.in(2)), {});
  return node.set(node.add(node.mul(index, step), first));
}

static LogicalResult identity(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  return node.set(node.in(0));
}

/// Only for a constant condition; the other branch is not imported.
static LogicalResult eyeLike(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  if (rankOf(x) != 2)
    return node.error("input has rank " + Twine(rankOf(x)) + ", expected 2");
  int64_t k = node.integer("k", 0);
  Type element = elementOf(x);
  if (node.hasAttribute("dtype"))
    element = elementType(node.context, node.integer("dtype", 1));
  if (!element)
    return node.unsupported("type of attribute dtype of operator EyeLike");
  if (std::abs(k) > (int64_t(1) << 40))
    return node.error("k is " + Twine(k) + ", out of range");
  Type i64 = node.ops.getI64Type();
  Value row = node.reshape(node.iota(shapeOf(x)[0], i64), {shapeOf(x)[0], 1});
  Value column = node.iota(shapeOf(x)[1], i64);
  Value diagonal = node.make<EqualOp>({node.add(row, double(k)), column});
  return node.set(node.cast(diagonal, element));
}

void kerf::onnx_import::addSources(HandlerTable &table) {
  table.add("Constant", 1, constant);
  table.add("ConstantOfShape", 9, constantOfShape);
  table.add("Shape", 1, shape);
  table.add("Size", 1, size);
  table.add("Range", 11, range);
  table.add("Identity", 1, identity, /*takesSequences=*/true);
  table.add("EyeLike", 9, eyeLike);
}
