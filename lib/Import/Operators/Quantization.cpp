//===- Quantization.cpp - integers that stand for floats ------------------===//
//
// Values are computed with as floats: x is (q - zero) scale. Models that carry
// QuantizeLinear and DequantizeLinear so give what an integer implementation
// rounds to; products of integers (MatMulInteger, QLinearConv, ...) are exact,
// in doubles, which hold every sum of products of bytes.
//
//===----------------------------------------------------------------------===//
#include "../Handlers.h"
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

/// round(x) + zero within the range of the type, as that.
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
    to = elementType(node.context, int32_t(type));
  if (!isQuantized(node, to))
    return failure();
  Type wide = elementOf(x).isF64() ? elementOf(x) : node.ops.getF32Type();
  scale = alongside(node, scale, x, axis, block);
  if (zero)
    zero = alongside(node, zero, x, axis, block);
  if (!scale || (node.has(2) && !zero))
    return node.fail();
  Value ratio = node.div(node.cast(x, wide), node.cast(scale, wide));
  if (!isa<FloatType>(to))
    return node.set(saturate(node, ratio, zero, to));
  // A zero point of floats of 8 bits is 0.
  if (zero && isa<Float4E2M1FNType>(to))
    ratio = node.add(ratio, node.cast(zero, wide));
  return node.set(convert(node, ratio, to, how));
}

/// q - zero in this type.
static Value centred(Node &node, Value q, Value zero, Type type) {
  if (!q || !zero)
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
    to = elementType(node.context, int32_t(type));
  if (!to || !isComputedFloat(to) || isComputedFloat(elementOf(q)))
    return node.unsupported("types of operator DequantizeLinear",
                            "integers of 2 to 32 bits and floats of 4 and 8 "
                            "bits, to wider floats, are taken");
  scale = alongside(node, scale, q, axis, block);
  if (zero)
    zero = alongside(node, zero, q, axis, block);
  if (!scale || (node.has(2) && !zero))
    return node.fail();
  Type wide = to.isF64() ? to : node.ops.getF32Type();
  if (isa<FloatType>(elementOf(q)))
    zero = {}; // is 0
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

/// The zero point of a matrix: of all, of each row (`ofRows`) or each column.
static Value pointOf(Node &node, Value point, bool ofRows) {
  if (!point || typeOf(point).getNumElements() == 1)
    return point ? node.reshape(point, {}) : point;
  if (ofRows && rankOf(point) == 1)
    return node.reshape(point, {shapeOf(point)[0], 1});
  return point;
}

static LogicalResult matMulInteger(Node &node) {
  if (failed(node.arity(2, 4)))
    return failure();
  Type f64 = node.ops.getF64Type();
  if (rankOf(node.in(0)) < 2 || rankOf(node.in(1)) < 2)
    return node.unsupported("vectors of operator MatMulInteger");
  Value a = centred(node, node.in(0), pointOf(node, node.in(2), true), f64);
  Value b = centred(node, node.in(1), pointOf(node, node.in(3), false), f64);
  return node.set(node.cast(node.matmul(a, b), node.ops.getI32Type()));
}

static LogicalResult qLinearMatMul(Node &node) {
  if (failed(node.arity(8, 8)))
    return failure();
  Type f64 = node.ops.getF64Type();
  Type to = elementOf(node.in(7));
  if (!isQuantized(node, to))
    return failure();
  if (rankOf(node.in(0)) < 2 || rankOf(node.in(3)) < 2)
    return node.unsupported("vectors of operator QLinearMatMul");
  Value a = centred(node, node.in(0), pointOf(node, node.in(2), true), f64);
  Value b = centred(node, node.in(3), pointOf(node, node.in(5), false), f64);
  auto scale = [&](size_t index, bool ofRows) {
    return node.cast(pointOf(node, node.in(index), ofRows), f64);
  };
  Value factor =
      node.div(node.mul(scale(1, true), scale(4, false)), scale(6, true));
  Value y = node.mul(node.matmul(a, b), factor);
  return node.set(saturate(node, y, pointOf(node, node.in(7), true), to));
}

/// The zero point or scale of weights: of all, or of each output channel.
static Value ofChannels(Node &node, Value point, Value weights) {
  if (!point || typeOf(point).getNumElements() == 1)
    return point ? node.reshape(point, {}) : point;
  Integers shape(rankOf(weights), 1);
  shape[0] = typeOf(point).getNumElements();
  return node.reshape(point, shape);
}

static LogicalResult convInteger(Node &node) {
  if (failed(node.arity(2, 4)))
    return failure();
  Type f64 = node.ops.getF64Type();
  Value w = node.in(1);
  Value x = centred(node, node.in(0), pointOf(node, node.in(2), true), f64);
  w = centred(node, w, ofChannels(node, node.in(3), w), f64);
  Value y = toChannelsFirst(node, convolution(node, x, w));
  return node.set(node.cast(y, node.ops.getI32Type()));
}

static LogicalResult qLinearConv(Node &node) {
  if (failed(node.arity(8, 9)))
    return failure();
  Type f64 = node.ops.getF64Type();
  Type to = elementOf(node.in(7));
  if (!isQuantized(node, to))
    return failure();
  Value w = node.in(3);
  Value x = centred(node, node.in(0), pointOf(node, node.in(2), true), f64);
  Value y = convolution(node, x,
                        centred(node, w, ofChannels(node, node.in(5), w), f64));
  // Channels are the last dimension.
  auto vector = [&](size_t index) {
    Value value = node.in(index);
    bool isOne = typeOf(value).getNumElements() == 1;
    return node.cast(isOne ? node.reshape(value, {}) : value, f64);
  };
  if (node.has(8) && y)
    y = node.add(y, vector(8));
  Value factor = node.div(node.mul(vector(1), vector(4)), vector(6));
  y = toChannelsFirst(node, node.mul(y, factor));
  return node.set(saturate(node, y, pointOf(node, node.in(7), true), to));
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
