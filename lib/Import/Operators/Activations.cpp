//===- Activations.cpp - activation functions -----------------------------===//
//
// Gelu is an op of its own; the others are small formulas of elementwise ops,
// which code generation fuses again. Arguments of exponentials are clamped
// first, so that a branch which is not chosen never overflows.
//===----------------------------------------------------------------------===//
#include "Activations.h"
#include "../Graph/Handlers.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

static bool floatInput(Node &node, size_t inputs = 1) {
  if (failed(node.arity(inputs, inputs)))
    return false;
  (void)node.integerList("consumed_inputs");
  if (isa<FloatType>(elementOf(node.in(0))))
    return true;
  (void)node.error("input has an integer type, expected a float");
  return false;
}

static Value number(Node &node, double value) {
  return node.scalar(value, elementOf(node.in(0)));
}
static Value maximum(Node &node, Value a, double b) {
  return a ? node.make<MaxOp>({a, node.scalar(b, elementOf(a))}) : a;
}
static Value minimum(Node &node, Value a, double b) {
  return a ? node.make<MinOp>({a, node.scalar(b, elementOf(a))}) : a;
}
/// alpha (exp(min(x, 0) / scale) - 1)
static Value expMinusOne(Node &node, Value x, double alpha, double scale) {
  Value low = node.mul(minimum(node, x, 0), 1 / scale);
  return node.mul(node.add(node.make<ExpOp>({low}), -1.0), alpha);
}
static Value isPositive(Node &node, Value x) {
  return node.make<LessOp>({number(node, 0), x});
}

static LogicalResult elu(Node &node) {
  if (!floatInput(node))
    return failure();
  Value x = node.in(0);
  return node.set(
      node.select(isPositive(node, x), x,
                  expMinusOne(node, x, node.real("alpha", 1.0), 1.0)));
}

static LogicalResult selu(Node &node) {
  if (!floatInput(node))
    return failure();
  double alpha =
      node.real("alpha", node.opset < 6 ? 1.6732 : 1.67326319217681884765625);
  double gamma =
      node.real("gamma", node.opset < 6 ? 1.0507 : 1.05070102214813232421875);
  Value x = node.in(0);
  return node.set(node.mul(
      node.select(isPositive(node, x), x, expMinusOne(node, x, alpha, 1.0)),
      gamma));
}

static LogicalResult celu(Node &node) {
  if (!floatInput(node))
    return failure();
  double alpha = node.real("alpha", 1.0);
  Value x = node.in(0);
  return node.set(
      node.add(maximum(node, x, 0), expMinusOne(node, x, alpha, alpha)));
}

static LogicalResult leakyRelu(Node &node) {
  if (!floatInput(node))
    return failure();
  Value x = node.in(0);
  Value scaled = node.mul(x, node.real("alpha", 0.01));
  return node.set(
      node.select(node.make<LessOp>({x, number(node, 0)}), scaled, x));
}

static LogicalResult prelu(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  Value x = node.in(0), slope = node.in(1);
  // Before operator set 7 a vector is one number per channel.
  if (node.opset < 7 && rankOf(slope) == 1 && shapeOf(slope)[0] != 1 &&
      rankOf(x) > 2) {
    SmallVector<int64_t> shape(rankOf(x) - 1, 1);
    shape[0] = shapeOf(slope)[0];
    slope = node.reshape(slope, shape);
  }
  return node.set(node.select(node.make<LessOp>({x, number(node, 0)}),
                              node.mul(x, slope), x));
}

static LogicalResult thresholdedRelu(Node &node) {
  if (!floatInput(node))
    return failure();
  Value x = node.in(0);
  Value above = node.make<LessOp>({number(node, node.real("alpha", 1.0)), x});
  return node.set(node.select(above, x, number(node, 0)));
}

static Value hardSigmoidOf(Node &node, Value x, double alpha, double beta) {
  return maximum(node, minimum(node, node.add(node.mul(x, alpha), beta), 1), 0);
}
static LogicalResult hardSigmoid(Node &node) {
  if (!floatInput(node))
    return failure();
  return node.set(hardSigmoidOf(node, node.in(0), node.real("alpha", 0.2),
                                node.real("beta", 0.5)));
}
static LogicalResult hardSwish(Node &node) {
  if (!floatInput(node))
    return failure();
  return node.set(
      node.mul(node.in(0), hardSigmoidOf(node, node.in(0), 1.0 / 6, 0.5)));
}

/// log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|))
static Value softplusOf(Node &node, Value x) {
  Value tail = node.make<ExpOp>({node.make<NegOp>({node.make<AbsOp>({x})})});
  return node.add(maximum(node, x, 0), node.make<Log1pOp>({tail}));
}
static LogicalResult softplus(Node &node) {
  if (!floatInput(node))
    return failure();
  return node.set(softplusOf(node, node.in(0)));
}
static LogicalResult mish(Node &node) {
  if (!floatInput(node))
    return failure();
  Value x = node.in(0);
  return node.set(node.mul(x, node.make<TanhOp>({softplusOf(node, x)})));
}
static LogicalResult softsign(Node &node) {
  if (!floatInput(node))
    return failure();
  Value x = node.in(0);
  return node.set(node.div(x, node.add(node.make<AbsOp>({x}), 1.0)));
}
static LogicalResult swish(Node &node) {
  if (!floatInput(node))
    return failure();
  Value x = node.in(0);
  return node.set(node.mul(
      x, node.make<SigmoidOp>({node.mul(x, node.real("alpha", 1.0))})));
}

static LogicalResult swiglu(Node &node) {
  if (!floatInput(node, 2))
    return failure();
  Value a = node.in(0), b = node.in(1);
  if (a.getType() != b.getType())
    return node.error("inputs must have one shape and type");
  Value gate =
      node.mul(a, node.make<SigmoidOp>({node.mul(a, node.real("alpha", 1.0))}));
  return node.set(node.mul(gate, b));
}

static LogicalResult gelu(Node &node) {
  if (!floatInput(node))
    return failure();
  std::string form = node.text("approximate", "none");
  if (form != "none" && form != "tanh")
    return node.error("approximate is \"" + form + "\", expected none or tanh");
  SmallVector<NamedAttribute, 1> flags;
  if (form == "tanh")
    flags.push_back(node.unit("tanh"));
  return node.set(node.make<GeluOp>({node.in(0)}, flags));
}

/// Integers are compared and moved as floats, then truncated towards zero.
static LogicalResult shrink(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Type element = elementOf(node.in(0));
  Value x = isa<FloatType>(element)
                ? node.in(0)
                : node.cast(node.in(0), node.ops.getF64Type());
  auto scalar = [&](double value) { return node.scalar(value, elementOf(x)); };
  double lambda = node.real("lambd", 0.5), bias = node.real("bias", 0.0);
  Value low = node.make<LessOp>({x, scalar(-lambda)});
  Value high = node.make<LessOp>({scalar(lambda), x});
  Value result = node.select(low, node.add(x, bias),
                             node.select(high, node.add(x, -bias), scalar(0)));
  return node.set(node.cast(result, element));
}

namespace {
/// An activation that attributes name; a and b are its numbers.
struct Named {
  StringLiteral name;
  Value (*of)(Node &node, Value x, double a, double b);
  std::optional<double> a, b; ///< unless they are given; none: it has none
};
} // namespace

static Value scalarLike(Node &node, Value x, double value) {
  return node.scalar(value, elementOf(x));
}

static Value between(Node &node, Value x, double low, double high) {
  return maximum(node, minimum(node, x, high), low);
}

static constexpr double kLargest = std::numeric_limits<float>::max();

static const Named kNamed[] = {
    {"Relu",
     [](Node &n, Value x, double, double) { return n.make<ReluOp>({x}); },
     {},
     {}},
    {"Tanh",
     [](Node &n, Value x, double, double) { return n.make<TanhOp>({x}); },
     {},
     {}},
    {"Sigmoid",
     [](Node &n, Value x, double, double) { return n.make<SigmoidOp>({x}); },
     {},
     {}},
    {"Softplus",
     [](Node &n, Value x, double, double) { return softplusOf(n, x); },
     {},
     {}},
    {"Softsign",
     [](Node &n, Value x, double, double) {
       return n.div(x, n.add(n.make<AbsOp>({x}), 1.0));
     },
     {},
     {}},
    {"Affine",
     [](Node &n, Value x, double a, double b) { return n.add(n.mul(x, a), b); },
     1.0, 0.0},
    {"LeakyRelu",
     [](Node &n, Value x, double a, double) {
       return n.select(n.make<LessOp>({x, scalarLike(n, x, 0)}), n.mul(x, a),
                       x);
     },
     0.01,
     {}},
    {"ThresholdedRelu",
     [](Node &n, Value x, double a, double) {
       return n.select(n.make<LessOp>({scalarLike(n, x, a), x}), x,
                       scalarLike(n, x, 0));
     },
     1.0,
     {}},
    {"ScaledTanh",
     [](Node &n, Value x, double a, double b) {
       return n.mul(n.make<TanhOp>({n.mul(x, b)}), a);
     },
     1.0, 1.0},
    {"HardSigmoid",
     [](Node &n, Value x, double a, double b) {
       return between(n, n.add(n.mul(x, a), b), 0, 1);
     },
     0.2, 0.5},
    {"Elu",
     [](Node &n, Value x, double a, double) {
       return n.select(n.make<LessOp>({scalarLike(n, x, 0), x}), x,
                       expMinusOne(n, x, a, 1.0));
     },
     1.0,
     {}},
    {"Clip",
     [](Node &n, Value x, double a, double b) { return between(n, x, a, b); },
     -kLargest, kLargest},
};

static const Named *findNamed(StringRef name) {
  // Recurrent cells spell them with or without capitals.
  for (const Named &named : kNamed)
    if (name.equals_insensitive(named.name))
      return &named;
  return nullptr;
}

std::pair<bool, bool> kerf::onnx_import::numbersOfActivation(StringRef name) {
  const Named *named = findNamed(name);
  return {named && named->a, named && named->b};
}

Value kerf::onnx_import::applyActivation(Node &node, StringRef name, Value x,
                                         std::optional<double> alpha,
                                         std::optional<double> beta) {
  if (!x)
    return {};
  const Named *named = findNamed(name);
  if (!named) {
    std::string names;
    for (const Named &known : kNamed)
      names += (names.empty() ? "" : ", ") + known.name.str();
    (void)node.unsupported("activation \"" + name + "\" of operator " +
                               node.proto.op_type(),
                           names + " are taken");
    return {};
  }
  return named->of(node, x, alpha.value_or(named->a.value_or(0)),
                   beta.value_or(named->b.value_or(0)));
}

void kerf::onnx_import::addActivations(HandlerTable &table) {
  table.add("Elu", 1, elu);
  table.add("Selu", 1, selu);
  table.add("Celu", 12, celu);
  table.add("LeakyRelu", 1, leakyRelu);
  table.add("PRelu", 1, prelu);
  table.add("ThresholdedRelu", 10, thresholdedRelu);
  table.add("HardSigmoid", 1, hardSigmoid);
  table.add("HardSwish", 14, hardSwish);
  table.add("Softplus", 1, softplus);
  table.add("Mish", 18, mish);
  table.add("Softsign", 1, softsign);
  table.add("Swish", 24, swish);
  table.add("SwiGLU", 28, swiglu);
  table.add("Gelu", 20, gelu);
  table.add("Shrink", 9, shrink);
}
