//===- Quantization.cpp - integers that stand for floats ------------------===//
//
// Values are computed with as floats: x is (q - zero) scale. Models that carry
// QuantizeLinear and DequantizeLinear so give what an integer implementation
// rounds to; products of integers (MatMulInteger, QLinearConv, ...) are exact,
// in doubles, which hold every sum of products of bytes.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "Casts.h"
#include "Images.h"

#include <cmath>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

/// A scale or zero point so that it broadcasts to `x`: of the whole tensor, one
/// number for each index of `axis`, or one for each block of `block` indices.
/// Null after reporting another shape.
static Value alongside(Node &node, Value parameter, Value x, int64_t axis,
                       int64_t block) {
  if (typeOf(parameter).getNumElements() == 1 && rankOf(parameter) <= 1)
    return node.reshape(parameter, {});
  auto within = node.axisWithin(axis, rankOf(x));
  if (!within)
    return {};
  int64_t size = shapeOf(x)[*within];
  if (block == 0 && rankOf(parameter) == 1 && shapeOf(parameter)[0] == size) {
    Integers shape(rankOf(x), 1);
    shape[*within] = size;
    return node.reshape(parameter, shape);
  }
  Integers blocks(shapeOf(x));
  if (block > 0)
    blocks[*within] = (size + block - 1) / block;
  if (block < 1 || shapeOf(parameter) != ArrayRef<int64_t>(blocks)) {
    (void)node.error("scale and zero point have neither one element, nor one "
                     "for each index of axis or each block of it");
    return {};
  }
  Integers apart(blocks), wide, joined(blocks);
  apart.insert(apart.begin() + *within + 1, 1);
  wide = apart;
  wide[*within + 1] = block;
  joined[*within] *= block;
  Value spread = node.reshape(
      node.broadcast(node.reshape(parameter, apart), wide), joined);
  return joined[*within] == size ? spread
                                 : node.slice(spread, *within, 0, size);
}

/// round(x) + zero within the range of a type of integers, as that.
static Value saturate(Node &node, Value x, Value zero, Type to) {
  if (!x)
    return {};
  auto type = cast<IntegerType>(to);
  unsigned width = type.getWidth();
  double low = type.isUnsigned() ? 0 : -std::ldexp(1, int(width) - 1);
  double high = std::ldexp(1, int(width) - !type.isUnsigned()) - 1;
  Value y = node.make<RoundOp>({x});
  if (zero)
    y = node.add(y, node.cast(zero, elementOf(x)));
  if (!y)
    return {};
  y = node.make<MaxOp>({y, node.scalar(low, elementOf(y))});
  return node.cast(node.make<MinOp>({y, node.scalar(high, elementOf(y))}), to);
}

/// Whether quantized values of this type are known; reports otherwise.
static bool isQuantized(Node &node, Type type) {
  auto integer = dyn_cast_or_null<IntegerType>(type);
  if (integer && integer.getWidth() > 1 && integer.getWidth() <= 16)
    return true;
  if (type && isNarrow(type) && !isa<Float8E8M0FNUType>(type))
    return true;
  (void)node.unsupported(
      "quantized type of operator " + node.proto.op_type(),
      "integers of 2 to 16 bits and floats of 4 and 8 bits are taken");
  return false;
}

/// What x, in steps of a scale, is as a quantized type with this zero point.
static Value quantized(Node &node, Value x, Value zero, Type to,
                       Conversion how = {}) {
  if (isa<IntegerType>(to))
    return saturate(node, x, zero, to);
  // A zero point of floats of 8 bits is 0.
  if (x && zero && isa<Float4E2M1FNType>(to))
    x = node.add(x, node.cast(zero, elementOf(x)));
  return convert(node, x, to, how);
}

static LogicalResult quantizeLinear(Node &node) {
  if (failed(node.arity(2, 3)))
    return failure();
  Value x = node.in(0), scale = node.in(1), zero = node.in(2);
  int64_t axis = node.integer("axis", 1), block = node.integer("block_size", 0);
  Conversion how;
  how.saturates = node.integer("saturate", 1) != 0;
  (void)node.integer("precision", 0);
  Type to = zero ? elementOf(zero)
                 : IntegerType::get(node.context, 8, IntegerType::Unsigned);
  if (int64_t type = node.integer("output_dtype", 0); type != 0 && !zero)
    to = elementType(node.context, type);
  if (!isQuantized(node, to))
    return failure();
  Type wide = elementOf(x).isF64() ? elementOf(x) : node.ops.getF32Type();
  scale = alongside(node, scale, x, axis, block);
  if (zero)
    zero = alongside(node, zero, x, axis, block);
  if (!scale || (node.has(2) && !zero))
    return node.fail();
  Value ratio = node.div(node.cast(x, wide), node.cast(scale, wide));
  return node.set(quantized(node, ratio, zero, to, how));
}

/// q - zero in this type; a zero point of floats is 0.
static Value centred(Node &node, Value q, Value zero, Type type) {
  if (!q || !zero || isa<FloatType>(elementOf(q)))
    return q ? node.cast(q, type) : Value();
  Type i32 = node.ops.getI32Type();
  return node.cast(node.sub(node.cast(q, i32), node.cast(zero, i32)), type);
}

static LogicalResult dequantizeLinear(Node &node) {
  if (failed(node.arity(2, 3)))
    return failure();
  Value q = node.in(0), scale = node.in(1), zero = node.in(2);
  int64_t axis = node.integer("axis", 1), block = node.integer("block_size", 0);
  Type to = elementOf(scale);
  if (int64_t type = node.integer("output_dtype", 0))
    to = elementType(node.context, type);
  Type from = elementOf(q);
  if (!to || !isComputedFloat(to) || isComputedFloat(from) ||
      from.isInteger(1) || from.isInteger(64))
    return node.unsupported("types of operator DequantizeLinear",
                            "integers of 2 to 32 bits and floats of 4 and 8 "
                            "bits, to wider floats, are taken");
  scale = alongside(node, scale, q, axis, block);
  if (zero)
    zero = alongside(node, zero, q, axis, block);
  if (!scale || (node.has(2) && !zero))
    return node.fail();
  Type wide = to.isF64() ? to : node.ops.getF32Type();
  Value y = node.mul(centred(node, q, zero, wide), node.cast(scale, wide));
  return node.set(node.cast(y, to));
}

/// The scale and zero point that spread the values, and 0, over bytes.
static LogicalResult dynamicQuantizeLinear(Node &node) {
  if (failed(node.arity(1, 1, 3)))
    return failure();
  Value x = node.in(0);
  Type f32 = node.ops.getF32Type();
  if (elementOf(x) != f32)
    return node.error("input must be floats of 32 bits");
  Integers all;
  for (int64_t dim = 0; dim < rankOf(x); ++dim)
    all.push_back(dim);
  Value zero = node.scalar(0, f32);
  Value high =
      node.make<MaxOp>({node.reduce(x, ReduceKind::Max, all, false), zero});
  Value low =
      node.make<MinOp>({node.reduce(x, ReduceKind::Min, all, false), zero});
  Value scale = node.div(node.sub(high, low), node.scalar(255, f32));
  Type u8 = IntegerType::get(node.context, 8, IntegerType::Unsigned);
  Value point =
      saturate(node, node.make<NegOp>({node.div(low, scale)}), Value(), u8);
  if (!scale || !point)
    return node.fail();
  if (failed(node.set(1, scale)) || failed(node.set(2, point)))
    return failure();
  return node.set(saturate(node, node.div(x, scale), point, u8));
}

/// Reports an input that is no tensor of integers of 8 bits.
static LogicalResult requireBytes(Node &node, ArrayRef<size_t> inputs) {
  for (size_t index : inputs) {
    auto integer = dyn_cast<IntegerType>(elementOf(node.in(index)));
    if (!integer || integer.getWidth() != 8)
      return node.error("input " + Twine(index) +
                        " is not of integers of 8 bits");
  }
  return success();
}

/// A scale or zero point of a matrix, so that it broadcasts to `shape`: of all,
/// of each row (`ofRows`) or of each column. Null after reporting another one;
/// an input that is not given stays null.
static Value ofMatrix(Node &node, size_t index, ArrayRef<int64_t> shape,
                      bool ofRows) {
  Value point = node.in(index);
  if (!point || typeOf(point).getNumElements() == 1)
    return point ? node.reshape(point, {}) : point;
  Integers wanted(shape);
  wanted[wanted.size() - (ofRows ? 1 : 2)] = 1;
  int64_t count = shape[shape.size() - (ofRows ? 2 : 1)];
  if (shapeOf(point) == ArrayRef<int64_t>(wanted))
    return point;
  if (shapeOf(point) == ArrayRef<int64_t>(count))
    return ofRows ? node.reshape(point, {count, 1}) : point;
  (void)node.error("input " + Twine(index) +
                   " is neither one number nor one "
                   "for each of " +
                   Twine(count) + (ofRows ? " rows" : " columns"));
  return {};
}

/// The operands of a product, whose zero points are these inputs; null after
/// reporting what is wrong.
static Value productOf(Node &node, size_t a, size_t aZero, size_t b,
                       size_t bZero) {
  Type f64 = node.ops.getF64Type();
  Value left = node.in(a), right = node.in(b);
  if (rankOf(left) < 2 || rankOf(right) < 2)
    return (void)node.unsupported("vectors of operator " +
                                  node.proto.op_type()),
           Value();
  Value rows = ofMatrix(node, aZero, shapeOf(left), true);
  Value columns = ofMatrix(node, bZero, shapeOf(right), false);
  if (node.failed)
    return {};
  return node.matmul(centred(node, left, rows, f64),
                     centred(node, right, columns, f64));
}

static LogicalResult matMulInteger(Node &node) {
  if (failed(node.arity(2, 4)) || failed(requireBytes(node, {0, 1})))
    return failure();
  Value y = productOf(node, 0, 2, 1, 3);
  return y ? node.set(node.cast(y, node.ops.getI32Type())) : node.fail();
}

static LogicalResult qLinearMatMul(Node &node) {
  if (failed(node.arity(8, 8)))
    return failure();
  Type f64 = node.ops.getF64Type();
  Type to = elementOf(node.in(7));
  for (size_t index : {0, 3, 7})
    if (!isQuantized(node, elementOf(node.in(index))))
      return failure();
  Value y = productOf(node, 0, 2, 3, 5);
  if (!y)
    return node.fail();
  Value a = ofMatrix(node, 1, shapeOf(node.in(0)), true);
  Value b = ofMatrix(node, 4, shapeOf(node.in(3)), false);
  Value own = ofMatrix(node, 6, shapeOf(y), true);
  Value zero = ofMatrix(node, 7, shapeOf(y), true);
  if (node.failed)
    return failure();
  Value factor = node.div(node.mul(node.cast(a, f64), node.cast(b, f64)),
                          node.cast(own, f64));
  return node.set(quantized(node, node.mul(y, factor), zero, to));
}

/// A scale or zero point that is one number, or, with `channels`, a vector of
/// as many. Null after reporting another one; an input that is not given stays
/// null.
static Value ofChannels(Node &node, size_t index, int64_t channels = 1) {
  Value point = node.in(index);
  if (!point)
    return point;
  int64_t count = typeOf(point).getNumElements();
  if (count == 1)
    return node.reshape(point, {});
  if (rankOf(point) == 1 && count == channels)
    return point;
  (void)node.error(
      "input " + Twine(index) + " is not one number" +
      (channels > 1 ? " nor one for each of " + Twine(channels) + " channels"
                    : Twine("")));
  return {};
}

/// The convolution of two inputs less their zero points, channels last; null
/// after reporting what is wrong.
static Value convolutionOf(Node &node, size_t image, size_t imageZero,
                           size_t weights, size_t weightsZero) {
  Type f64 = node.ops.getF64Type();
  Value w = node.in(weights);
  if (rankOf(w) < 1)
    return (void)node.error("weights have no dimensions"), Value();
  Value zero = ofChannels(node, imageZero);
  Value perChannel = ofChannels(node, weightsZero, shapeOf(w)[0]);
  if (node.failed)
    return {};
  if (perChannel && rankOf(perChannel) == 1) {
    Integers shape(rankOf(w), 1);
    shape[0] = shapeOf(w)[0];
    perChannel = node.reshape(perChannel, shape);
  }
  return convolution(node, centred(node, node.in(image), zero, f64),
                     centred(node, w, perChannel, f64));
}

static LogicalResult convInteger(Node &node) {
  if (failed(node.arity(2, 4)) || failed(requireBytes(node, {0, 1})))
    return failure();
  Value y = toChannelsFirst(node, convolutionOf(node, 0, 2, 1, 3));
  return node.set(node.cast(y, node.ops.getI32Type()));
}

static LogicalResult qLinearConv(Node &node) {
  if (failed(node.arity(8, 9)) || failed(requireBytes(node, {0, 3, 7})))
    return failure();
  Type f64 = node.ops.getF64Type();
  Value y = convolutionOf(node, 0, 2, 3, 5);
  if (!y)
    return node.fail();
  // Channels are the last dimension.
  int64_t channels = shapeOf(y).back();
  Value x = ofChannels(node, 1), w = ofChannels(node, 4, channels);
  Value own = ofChannels(node, 6), zero = ofChannels(node, 7);
  Value bias = ofChannels(node, 8, channels);
  if (node.failed)
    return failure();
  if (bias)
    y = node.add(y, node.cast(bias, f64));
  Value factor = node.div(node.mul(node.cast(x, f64), node.cast(w, f64)),
                          node.cast(own, f64));
  y = toChannelsFirst(node, node.mul(y, factor));
  return node.set(saturate(node, y, zero, elementOf(node.in(7))));
}

void kerf::onnx_import::addQuantization(HandlerTable &table) {
  table.add("QuantizeLinear", 10, quantizeLinear);
  table.add("DequantizeLinear", 10, dequantizeLinear);
  table.add("DynamicQuantizeLinear", 11, dynamicQuantizeLinear);
  table.add("MatMulInteger", 10, matMulInteger);
  table.add("QLinearMatMul", 10, qLinearMatMul);
  table.add("ConvInteger", 10, convInteger);
  table.add("QLinearConv", 10, qLinearConv);
}
