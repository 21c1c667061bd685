//===- Random.cpp - random numbers ----------------------------------------===//
//
// Functions of the element's index in the whole tensor, a seed and the node
// (nn.philox), so they are the same on every mesh, and from run to run: a model
// that is to see others takes them as an input. Without the attribute `seed` it
// is 0; each node has numbers of its own.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "../Importer.h"

#include <cstring>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

/// The bits of the seed, a float, as an integer: 0 of 0.
static int64_t seedOf(Node &node) {
  auto seed = static_cast<float>(node.real("seed", 0));
  uint32_t bits = 0;
  std::memcpy(&bits, &seed, sizeof bits);
  return bits;
}

/// f32 numbers, evenly spread over [0, 1).
static Value uniform(Node &node, ArrayRef<int64_t> shape, int64_t seed) {
  Type i64 = node.ops.getI64Type();
  Value index = node.scalar(0, i64);
  int64_t stride = 1;
  for (int64_t dim = shape.size(); dim-- > 0;) {
    Integers along(shape.size(), 1);
    along[dim] = shape[dim];
    Value row = node.reshape(node.iota(shape[dim], i64), along);
    Value scale = node.constant(
        DenseElementsAttr::get(RankedTensorType::get({}, i64), stride));
    index = node.add(index, node.mul(row, scale));
    stride *= shape[dim];
  }
  index = node.broadcast(index, shape);
  Value key = node.constant(
      DenseElementsAttr::get(RankedTensorType::get({}, i64), seed));
  return node.make<PhiloxOp>(
      {index, key, node.scalar(0, i64)},
      {node.i64("stream", node.importer.nextRandomStream())});
}

/// Normally distributed numbers (Box and Muller, 1958): sqrt(-2 log u) cos(2 pi
/// v), with u in (0, 1].
static Value normal(Node &node, ArrayRef<int64_t> shape, int64_t seed) {
  constexpr double kTwoPi = 6.283185307179586;
  Value u = node.add(node.make<NegOp>({uniform(node, shape, seed)}), 1.0);
  Value v = node.mul(uniform(node, shape, seed), kTwoPi);
  if (!u || !v)
    return {};
  Value radius = node.make<SqrtOp>({node.mul(node.make<LogOp>({u}), -2.0)});
  return node.mul(radius, node.make<CosOp>({v}));
}

/// The type that attribute `dtype` names, or `otherwise`.
static Type typeOfResult(Node &node, Type otherwise) {
  int64_t number = node.integer("dtype", 0);
  Type type = number ? elementType(node.context, number) : otherwise;
  if (!type)
    (void)node.unsupported("type of attribute dtype of operator " +
                           node.proto.op_type());
  return type;
}

/// The shape of the result: that of the input, or the attribute's.
static std::optional<Integers> shapeOfResult(Node &node, bool isLike) {
  if (failed(node.arity(isLike, isLike)))
    return std::nullopt;
  if (isLike)
    return Integers(shapeOf(node.in(0)));
  node.requireAttribute("shape");
  auto shape = node.integerList("shape");
  if (!shape || node.failed)
    return std::nullopt;
  if (llvm::any_of(*shape, [](int64_t size) { return size < 0; }) ||
      !tensorBytes(*shape, node.ops.getI64Type())) {
    (void)node.error("shape is no shape");
    return std::nullopt;
  }
  return shape;
}

/// offset + scale times numbers of a distribution.
static LogicalResult
setDrawn(Node &node, bool isLike, double offset, double scale,
         Value (*draw)(Node &, ArrayRef<int64_t>, int64_t)) {
  auto shape = shapeOfResult(node, isLike);
  if (!shape)
    return failure();
  bool asInput = isLike && isa<FloatType>(elementOf(node.in(0)));
  Type type = typeOfResult(node, asInput ? elementOf(node.in(0))
                                         : node.ops.getF32Type());
  if (!type)
    return failure();
  Value drawn = draw(node, *shape, seedOf(node));
  if (node.importer.isTrained())
    node.importer.note(
        node.name + ": " + node.proto.op_type() +
        " draws the same numbers in every step and in evaluation; a model that "
        "is to see others takes them as an input");
  return node.set(node.cast(node.add(node.mul(drawn, scale), offset), type));
}

template <bool isLike> static LogicalResult randomUniform(Node &node) {
  double low = node.real("low", 0), high = node.real("high", 1);
  return setDrawn(node, isLike, low, high - low, uniform);
}

template <bool isLike> static LogicalResult randomNormal(Node &node) {
  double mean = node.real("mean", 0), scale = node.real("scale", 1);
  return setDrawn(node, isLike, mean, scale, normal);
}

/// True with the probability that the input says.
static LogicalResult bernoulli(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  if (!isa<FloatType>(elementOf(x)))
    return node.error("probabilities must be floats");
  Type type = typeOfResult(node, elementOf(x));
  Value u = uniform(node, shapeOf(x), seedOf(node));
  Value drawn = node.make<LessOp>({u, node.cast(x, node.ops.getF32Type())});
  return type ? node.set(node.cast(drawn, type)) : failure();
}

/// Classes of which the input has the logarithms of the probabilities: the
/// largest of them plus Gumbel noise, -log(-log u).
static LogicalResult multinomial(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  int64_t count = node.integer("sample_size", 1);
  Type type = typeOfResult(node, node.ops.getI32Type());
  if (!type || rankOf(x) != 2 || count < 1 || !isa<FloatType>(elementOf(x)))
    return node.error("expected floats [batch, classes] and a positive "
                      "sample_size");
  int64_t batch = shapeOf(x)[0], classes = shapeOf(x)[1];
  if (classes < 1)
    return node.error("there are no classes");
  Value u = uniform(node, {batch, count, classes}, seedOf(node));
  // Away from 0, where the logarithm has no value.
  u = node.make<MaxOp>({u, node.scalar(1e-9, node.ops.getF32Type())});
  Value noise = node.make<NegOp>(
      {node.make<LogOp>({node.make<NegOp>({node.make<LogOp>({u})})})});
  Value scores = node.add(
      node.reshape(node.cast(x, node.ops.getF32Type()), {batch, 1, classes}),
      noise);
  Value drawn = node.make<ArgReduceOp>({scores}, {node.i64("dim", 2)});
  return node.set(node.cast(drawn, type));
}

void kerf::onnx_import::addRandom(HandlerTable &table) {
  table.add("RandomUniform", 1, randomUniform<false>);
  table.add("RandomUniformLike", 1, randomUniform<true>);
  table.add("RandomNormal", 1, randomNormal<false>);
  table.add("RandomNormalLike", 1, randomNormal<true>);
  table.add("Bernoulli", 15, bernoulli);
  table.add("Multinomial", 7, multinomial);
}
