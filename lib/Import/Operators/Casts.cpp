//===- Casts.cpp - between element types, by value or by bits -------------===//
//
// nn.cast rounds; what ONNX adds for floats of 8 bits are ops before it. Where
// numbers saturate, they are clamped to the type's range first, infinity too.
// float8e8m0 has the powers of 2 from 2^-127 to 2^127: the exponent of the f32,
// rounded by its mantissa, is the code. Where numbers do not saturate, those
// out of range become NaN.
//
//===----------------------------------------------------------------------===//
#include "Casts.h"

#include "../Forms.h"
#include "../Graph/Handlers.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

/// The code of a power of 2, of an i32 that holds the bits of |x|.
static Value codeOfPower(Node &node, Value bits, Conversion how) {
  using Rounding = Conversion::Rounding;
  Type i32 = node.ops.getI32Type();
  auto number = [&](double value) { return node.scalar(value, i32); };
  Value exponent = node.make<ShiftRightOp>({bits, number(23)});
  Value mantissa = node.make<AndOp>({bits, number(0x7fffff)});
  // Codes 0 and 1 are 2^-127, which is half of the first normal f32, and that.
  Value isSmall = node.make<EqualOp>({exponent, number(0)});
  Value upFrom; // mantissas from here on round up
  if (how.rounding == Rounding::Up)
    upFrom = node.select(isSmall, number(0x400001), number(1));
  else if (how.rounding == Rounding::Nearest)
    upFrom = node.select(isSmall, number(0x600000), number(0x400000));
  Value code = exponent;
  if (upFrom)
    code = node.add(code,
                    node.cast(node.make<LessEqualOp>({upFrom, mantissa}), i32));
  Value infinity = number(0x7f800000);
  if (how.saturates) {
    code = node.make<MinOp>({code, number(254)});
  } else {
    Value lowest = node.make<LessOp>({bits, number(0x400000)});
    code = node.make<MinOp>({code, number(255)});
    code = node.select(lowest, number(255), code);
  }
  return node.select(node.make<LessOp>({infinity, bits}), number(255), code);
}

static Value toPowers(Node &node, Value x, Conversion how) {
  Type i32 = node.ops.getI32Type();
  x = node.cast(x, node.ops.getF32Type());
  if (!x)
    return {};
  Value bits =
      node.makeTyped(BitcastOp::getOperationName(), typeOf(x).clone(i32), {x});
  bits = node.make<AndOp>({bits, node.scalar(0x7fffffff, i32)});
  Value code =
      node.cast(codeOfPower(node, bits, how),
                IntegerType::get(node.context, 8, IntegerType::Unsigned));
  if (!code)
    return {};
  auto type = typeOf(x).clone(Float8E8M0FNUType::get(node.context));
  return node.makeTyped(BitcastOp::getOperationName(), type, {code});
}

Value kerf::onnx_import::convert(Node &node, Value x, Type element,
                                 Conversion how) {
  if (!x || elementOf(x) == element)
    return x;
  if (isa<Float8E8M0FNUType>(element))
    return toPowers(node, x, how);
  // To integers of 2 and 4 bits ONNX rounds, to others it drops what is behind
  // the point.
  if (isa<IntegerType>(element) && isNarrow(element) &&
      isa<FloatType>(elementOf(x))) {
    if (!isComputedFloat(elementOf(x)))
      x = node.cast(x, node.ops.getF32Type());
    x = node.make<RoundOp>({x});
  }
  auto type = dyn_cast<FloatType>(element);
  if (!x || !type || type.getWidth() != 8)
    return x ? node.cast(x, element) : x;
  if (!isComputedFloat(elementOf(x)))
    x = node.cast(x, node.ops.getF32Type());
  if (how.saturates && x) {
    double most =
        APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
    // Float16 holds no 57344.
    if (!elementOf(x).isF64())
      x = node.cast(x, node.ops.getF32Type());
    x = node.make<MaxOp>({x, node.scalar(-most, elementOf(x))});
    x = node.make<MinOp>({x, node.scalar(most, elementOf(x))});
  }
  return node.cast(x, element);
}

/// The attributes of Cast and CastLike; none after reporting another mode.
static std::optional<Conversion> conversionOf(Node &node) {
  Conversion how;
  how.saturates = node.integer("saturate", 1) != 0;
  std::string mode = node.text("round_mode", "up");
  if (mode == "down") {
    how.rounding = Conversion::Rounding::Down;
  } else if (mode == "nearest") {
    how.rounding = Conversion::Rounding::Nearest;
  } else if (mode != "up") {
    (void)node.unsupported("round_mode \"" + mode + "\" of operator " +
                               node.proto.op_type(),
                           "up, down and nearest are taken");
    return std::nullopt;
  }
  return how;
}

static LogicalResult castTo(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  auto how = conversionOf(node);
  int64_t to;
  if (node.opset < 6) {
    // A name instead of a number.
    std::string name = node.text("to", "");
    to = 0;
    for (int type = 1; type < 32; ++type)
      if (StringRef(name).equals_insensitive(dataTypeName(type)))
        to = type;
  } else {
    node.requireAttribute("to");
    to = node.integer("to", 0);
  }
  if (node.failed || !how)
    return failure();
  Type element = elementType(node.context, to);
  if (!element)
    return node.unsupported("type " + dataTypeName(to), kTypesTaken);
  return node.set(convert(node, node.in(0), element, *how));
}

static LogicalResult castLike(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  auto how = conversionOf(node);
  if (!how)
    return failure();
  return node.set(convert(node, node.in(0), elementOf(node.in(1)), *how));
}

/// The bits of each element as another type of the same width. A bool is a byte
/// that is 0 or 1.
static LogicalResult bitCast(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  node.requireAttribute("to");
  int64_t to = node.integer("to", 0);
  if (node.failed)
    return failure();
  Type from = elementOf(node.in(0)), element = elementType(node.context, to);
  if (!element)
    return node.unsupported("type " + dataTypeName(to), kTypesTaken);
  auto bits = [](Type type) {
    return type.isInteger(1) ? 8 : type.getIntOrFloatBitWidth();
  };
  if (bits(from) != bits(element))
    return node.error("input has elements of " + Twine(bits(from)) +
                      " bits, those of " + dataTypeName(to) + " have " +
                      Twine(bits(element)));
  Type byte = IntegerType::get(node.context, 8, IntegerType::Unsigned);
  Type whole = element.isInteger(1) ? byte : element;
  Value x = node.in(0);
  if (from.isInteger(1))
    x = node.cast(x, byte);
  if (x && elementOf(x) != whole)
    x = node.makeTyped(BitcastOp::getOperationName(), typeOf(x).clone(whole),
                       {x});
  return node.set(node.cast(x, element));
}

void kerf::onnx_import::addCasts(HandlerTable &table) {
  table.add("Cast", 1, castTo);
  table.add("CastLike", 15, castLike);
  table.add("BitCast", 26, bitCast);
}
