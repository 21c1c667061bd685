//===- Elementwise.cpp - arithmetic, comparison, logic --------------------===//
//
// One nn op each where there is one; old operator sets broadcast by attribute.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "../Importer.h"

#include <limits>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

static bool isFloat(Value x) { return isa<FloatType>(elementOf(x)); }

template <typename Op> static LogicalResult unary(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  // Before operator set 6.
  (void)node.integerList("consumed_inputs");
  return node.set(node.make<Op>({node.in(0)}));
}

/// Float-only ops: integers are refused by name.
template <typename Op> static LogicalResult unaryFloat(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  (void)node.integerList("consumed_inputs");
  if (!isFloat(node.in(0)))
    return node.error("input has an integer type, expected a float");
  return node.set(node.make<Op>({node.in(0)}));
}

/// For integers the result is an integer, too (before operator set 13): as in
/// ONNX's reference, rounded to float32 and truncated towards zero.
static LogicalResult errorFunction(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  if (isFloat(x))
    return node.set(node.make<ErfOp>({x}));
  Value wide = node.cast(x, node.ops.getF64Type());
  Value narrow = node.cast(node.make<ErfOp>({wide}), node.ops.getF32Type());
  return node.set(node.cast(narrow, elementOf(x)));
}

template <typename Op> static LogicalResult binary(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  return node.set(node.make<Op>({node.in(0), node.in(1)}));
}

/// Before operator set 7: `broadcast=1` aligns the second input at `axis`.
template <typename Op> static LogicalResult binaryWithAxis(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  Value a = node.in(0), b = node.in(1);
  (void)node.integerList("consumed_inputs");
  bool broadcast = node.integer("broadcast", 0);
  int64_t axis = node.integer("axis", rankOf(a) - rankOf(b));
  if (broadcast && node.hasAttribute("axis")) {
    auto within = node.axisWithin(axis, rankOf(a), true);
    if (!within)
      return failure();
    if (*within + rankOf(b) > rankOf(a))
      return node.error("axis is " + Twine(axis) + ", too large for rank " +
                        Twine(rankOf(b)));
    SmallVector<int64_t> shape(shapeOf(b));
    shape.append(rankOf(a) - *within - rankOf(b), 1);
    b = node.reshape(b, shape);
  }
  return node.set(node.make<Op>({a, b}));
}

/// Logic of bools, or of the bits of integers.
template <bool ofBits, LogicalResult (*handle)(Node &)>
static LogicalResult logic(Node &node) {
  for (Value input : node.inputs)
    if (input && (!isa<IntegerType>(elementOf(input)) ||
                  elementOf(input).isInteger(1) == ofBits))
      return node.error(ofBits ? "input is not an integer"
                               : "input is not bool");
  return handle(node);
}

/// Shifts by a negative number, or by all bits, are those of operator set 28.
static LogicalResult bitShift(Node &node) {
  node.requireAttribute("direction");
  std::string direction = node.text("direction", "");
  if (node.failed)
    return failure();
  if (direction != "LEFT" && direction != "RIGHT")
    return node.error("direction is \"" + direction +
                      "\", expected LEFT or RIGHT");
  return direction == "LEFT" ? binary<ShiftLeftOp>(node)
                             : binary<ShiftRightOp>(node);
}

/// a > b is b < a, which also holds for NaN.
template <typename Op> static LogicalResult swapped(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  return node.set(node.make<Op>({node.in(1), node.in(0)}));
}

template <typename Op> static Value chain(Node &node) {
  Value result = node.in(0);
  for (Value input : ArrayRef(node.inputs).drop_front())
    result = node.make<Op>({result, input});
  return result;
}

template <typename Op> static LogicalResult variadic(Node &node) {
  if (failed(node.arity(1, 1 << 16)))
    return failure();
  (void)node.integerList("consumed_inputs");
  return node.set(chain<Op>(node));
}

static LogicalResult mean(Node &node) {
  if (failed(node.arity(1, 1 << 16)))
    return failure();
  (void)node.integerList("consumed_inputs");
  return node.set(
      node.mul(chain<AddOp>(node), 1.0 / double(node.inputs.size())));
}

static LogicalResult power(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  (void)node.integer("broadcast", 0);
  (void)node.integer("axis", 0);
  Value base = node.in(0), exponent = node.in(1);
  Type element = elementOf(base);
  // Powers that are products or roots.
  if (auto number = node.scalarElement(exponent);
      number && isFloat(base) && rankOf(exponent) <= rankOf(base)) {
    if (*number == 1)
      return node.set(base);
    if (*number == 2)
      return node.set(node.mul(base, base));
    if (*number == 3)
      return node.set(node.mul(node.mul(base, base), base));
    if (*number == 0.5)
      return node.set(node.make<SqrtOp>({base}));
    if (*number == -1)
      return node.set(node.make<ReciprocalOp>({base}));
  }
  if (!isFloat(base) && isFloat(exponent))
    return node.set(node.cast(
        node.make<PowOp>({node.cast(base, elementOf(exponent)), exponent}),
        element));
  return node.set(node.make<PowOp>({base, node.cast(exponent, element)}));
}

static LogicalResult mod(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  bool fmod = node.integer("fmod", 0);
  if (!fmod && isFloat(node.in(0)) && node.opset < 28)
    return node.error("fmod is 0 for floats, expected 1");
  if (!fmod && isFloat(node.in(0))) {
    // The result has the sign of the divisor, also if that is infinite.
    Value a = node.in(0), b = node.in(1), zero = node.scalar(0, elementOf(b));
    Value rest = node.make<RemOp>({a, b});
    Value differs =
        node.make<LessOp>({node.mul(rest, node.make<SignOp>({b})), zero});
    return node.set(node.select(differs, node.add(rest, b), rest));
  }
  if (fmod)
    return node.set(node.make<RemOp>({node.in(0), node.in(1)}));
  return node.set(node.make<ModOp>({node.in(0), node.in(1)}));
}

/// The bounds as attributes (before operator set 11) or inputs.
static LogicalResult clip(Node &node) {
  if (failed(node.arity(1, node.opset < 11 ? 1 : 3)))
    return failure();
  (void)node.integerList("consumed_inputs");
  Value x = node.in(0), low = node.in(1), high = node.in(2);
  if (node.opset < 11) {
    if (node.hasAttribute("min"))
      low = node.scalar(node.real("min", 0), elementOf(x));
    if (node.hasAttribute("max"))
      high = node.scalar(node.real("max", 0), elementOf(x));
  }
  for (Value bound : {low, high})
    if (bound &&
        (typeOf(bound).getNumElements() != 1 || rankOf(bound) > rankOf(x)))
      return node.error("bounds must be scalars");
  if (low)
    x = node.make<MaxOp>({x, low});
  if (high)
    x = node.make<MinOp>({x, high});
  return node.set(x);
}

static LogicalResult where(Node &node) {
  if (failed(node.arity(3, 3)))
    return failure();
  if (!elementOf(node.in(0)).isInteger(1))
    return node.error("condition is not bool");
  return node.set(node.select(node.in(0), node.in(1), node.in(2)));
}

static LogicalResult isInf(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  if (!isFloat(x))
    return node.error("input has an integer type, expected a float");
  bool positive = node.integer("detect_positive", 1);
  bool negative = node.integer("detect_negative", 1);
  double inf = std::numeric_limits<double>::infinity();
  auto equals = [&](Value value, double bound) {
    return node.make<EqualOp>({value, node.scalar(bound, elementOf(x))});
  };
  if (positive && negative)
    return node.set(equals(node.make<AbsOp>({x}), inf));
  if (positive || negative)
    return node.set(equals(x, positive ? inf : -inf));
  return node.set(node.splat(shapeOf(x), 0, node.ops.getI1Type()));
}

/// Inference: the identity; the mask is all true.
static LogicalResult dropout(Node &node) {
  if (failed(node.arity(1, 3, 2)))
    return failure();
  (void)node.real("ratio", 0.5);
  (void)node.integer("seed", 0);
  (void)node.integer("is_test", 1);
  (void)node.integerList("consumed_inputs");
  if (node.has(2)) {
    auto training = node.constantReal(2);
    if (!training)
      return failure();
    auto ratio = node.has(1) ? node.scalarElement(node.in(1)) : 0.5;
    using Forms = ImportOptions::TrainingForms;
    Forms forms = node.importer.trainingForms();
    if (*training != 0 && ratio != 0.0 && forms == Forms::AsInference)
      node.importer.noteAsInference();
    if (*training != 0 && ratio != 0.0 && forms != Forms::AsInference) {
      if (forms == Forms::Refuse)
        return node.unsupported(
            "operator Dropout in training mode",
            "the model was exported in training form: to run it, export it in "
            "inference form (model.eval() in PyTorch) or give option "
            "as-inference; training takes both forms");
      if (!ratio || !(*ratio >= 0 && *ratio < 1))
        return node.error("ratio must be a constant in [0, 1)");
      if (node.wants(1))
        return node.unsupported("the mask of operator Dropout in training",
                                "its first output is taken");
      return node.set(node.makeTyped("nn.dropout", typeOf(node.in(0)),
                                     {node.in(0)},
                                     {node.f64("ratio", *ratio)}));
    }
  }
  if (node.wants(1)) {
    Type element =
        node.opset < 10 ? elementOf(node.in(0)) : Type(node.ops.getI1Type());
    if (failed(node.set(1, node.splat(shapeOf(node.in(0)), 1, element))))
      return failure();
  }
  return node.set(node.in(0));
}

void kerf::onnx_import::addElementwise(HandlerTable &table) {
  table.add("Abs", 1, unary<AbsOp>);
  table.add("Neg", 1, unary<NegOp>);
  table.add("Sign", 9, unary<SignOp>);
  table.add("Not", 1, logic<false, unary<NotOp>>);
  table.add("Relu", 1, unary<ReluOp>);
  table.add("Ceil", 1, unaryFloat<CeilOp>);
  table.add("Floor", 1, unaryFloat<FloorOp>);
  table.add("Round", 11, unaryFloat<RoundOp>);
  table.add("Exp", 1, unaryFloat<ExpOp>);
  table.add("Log", 1, unaryFloat<LogOp>);
  table.add("Sqrt", 1, unaryFloat<SqrtOp>);
  table.add("Reciprocal", 1, unaryFloat<ReciprocalOp>);
  table.add("Erf", 9, errorFunction);
  table.add("Tanh", 1, unaryFloat<TanhOp>);
  table.add("Sigmoid", 1, unaryFloat<SigmoidOp>);
  table.add("Sin", 7, unaryFloat<SinOp>);
  table.add("Cos", 7, unaryFloat<CosOp>);
  table.add("Tan", 7, unaryFloat<TanOp>);
  table.add("Asin", 7, unaryFloat<AsinOp>);
  table.add("Acos", 7, unaryFloat<AcosOp>);
  table.add("Atan", 7, unaryFloat<AtanOp>);
  table.add("Sinh", 9, unaryFloat<SinhOp>);
  table.add("Cosh", 9, unaryFloat<CoshOp>);
  table.add("Asinh", 9, unaryFloat<AsinhOp>);
  table.add("Acosh", 9, unaryFloat<AcoshOp>);
  table.add("Atanh", 9, unaryFloat<AtanhOp>);
  table.add("IsNaN", 9, unaryFloat<IsNaNOp>);
  table.add("IsInf", 10, isInf);
  table.add("Add", 1, binaryWithAxis<AddOp>);
  table.add("Add", 7, binary<AddOp>);
  table.add("Sub", 1, binaryWithAxis<SubOp>);
  table.add("Sub", 7, binary<SubOp>);
  table.add("Mul", 1, binaryWithAxis<MulOp>);
  table.add("Mul", 7, binary<MulOp>);
  table.add("Div", 1, binaryWithAxis<DivOp>);
  table.add("Div", 7, binary<DivOp>);
  table.add("And", 1, logic<false, binaryWithAxis<AndOp>>);
  table.add("And", 7, logic<false, binary<AndOp>>);
  table.add("Or", 1, logic<false, binaryWithAxis<OrOp>>);
  table.add("Or", 7, logic<false, binary<OrOp>>);
  table.add("Xor", 1, logic<false, binaryWithAxis<XorOp>>);
  table.add("Xor", 7, logic<false, binary<XorOp>>);
  table.add("BitwiseNot", 18, logic<true, unary<NotOp>>);
  table.add("BitwiseAnd", 18, logic<true, binary<AndOp>>);
  table.add("BitwiseOr", 18, logic<true, binary<OrOp>>);
  table.add("BitwiseXor", 18, logic<true, binary<XorOp>>);
  table.add("BitShift", 11, logic<true, bitShift>);
  table.add("Equal", 7, binary<EqualOp>);
  table.add("Less", 7, binary<LessOp>);
  table.add("LessOrEqual", 12, binary<LessEqualOp>);
  table.add("Greater", 7, swapped<LessOp>);
  table.add("GreaterOrEqual", 12, swapped<LessEqualOp>);
  table.add("Pow", 1, power);
  table.add("Mod", 10, mod);
  table.add("Sum", 1, variadic<AddOp>);
  table.add("Max", 1, variadic<MaxOp>);
  table.add("Min", 1, variadic<MinOp>);
  table.add("Mean", 1, mean);
  table.add("Clip", 1, clip);
  table.add("Where", 9, where);
  table.add("Dropout", 1, dropout);
}
