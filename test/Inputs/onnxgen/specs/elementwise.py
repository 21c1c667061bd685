"""Arithmetic, comparison, logic, casts and activations."""
import numpy as np

from .. import legacy
from ..arrays import BF16, BOOL, F32, FLOATS, HALVES, I32, I64, INTEGERS, is_float
from ..graph import Skip
from . import spec


@spec("Abs", "Neg", "Relu", "Exp", "Log", "Sqrt", "Reciprocal", "Tanh", "Sigmoid", "Sin", "Cos", "Softsign",
      "HardSwish", "Softplus", "Mish", "Round", "Ceil", "Floor", "Sign", "Atan", "Sinh", "Cosh", "Asinh",
      train=True)
def unary(g, op):
    return g.node(op, [g.operand(op)])


@spec("Tan", train=True)
def tangent(g, op):
    """Of training away from its poles, beside which two steps say nothing: of a sine."""
    return g.node(op, [g.node("Sin", [g.operand("Sin", dtypes=g.dtypes("Sin") & g.dtypes(op))]) if g.training else
                       g.operand(op)])


DOMAINS = {"Asin": (-1, 1), "Acos": (-1, 1), "Atanh": (-1, 1), "Acosh": (1, 8)}


@spec(*DOMAINS, train=True)
def on_domain(g, op):
    """Mostly numbers of its domain, beyond which there is NaN alone: new ones, or a sine. Of training away from its
    ends, where the derivative is infinite."""
    low, high = DOMAINS[op]
    if g.chance(0.15) and not g.training:
        return g.node(op, [g.operand(op)])
    if high == 1 and g.chance(0.5):
        sine = g.node("Sin", [g.operand("Sin", dtypes=g.dtypes("Sin") & g.dtypes(op))])
        if g.training:
            sine = g.node("Mul", [sine, g.give(np.array(0.9, g.dtype(sine)), "constant", pickable=False)])
        return g.node(op, [sine])
    dtype = g.any_of(g.dtypes(op))
    if not g.training:
        return g.node(op, [g.source(g.sizes(), dtype, low, high)])
    # kerf draws a training's inputs, of any size.
    return g.node(op, [g.source(g.sizes(), dtype, 0.9 * low if low < 0 else 1.2, 0.9 * high, "initializer")])


@spec("Erf", train=True)
def erf(g, op):
    return g.node(op, [g.operand(op)])


@spec("IsNaN")
def is_nan(g, op):
    return g.node(op, [g.operand(op)])


@spec("Not")
def logical_not(g, op):
    return g.node(op, [condition(g)])


@spec("IsInf")
def is_inf(g, op):
    flags = {key: g.r.choice((0, 1)) for key in ("detect_positive", "detect_negative") if g.chance(0.5)}
    return g.node(op, [g.operand(op)], **flags)


def both(g, op, dtypes=None, low=None, high=None):
    """Two operands that broadcast, in either order."""
    first = g.operand(op, dtypes=dtypes)
    second = g.partner(first, low=low, high=high)
    return [first, second] if g.chance(0.5) else [second, first]


@spec("Add", "Sub", "Mul", train=True)
def arithmetic(g, op):
    if g.opset <= legacy.LAST:
        return legacy.along_axis(g, op, g.operand(op))
    if g.chance(0.05):
        x = g.operand(op)
        return g.node(op, [x, x])
    return g.node(op, both(g, op))


@spec("Div", train=True)
def div(g, op):
    if g.opset <= legacy.LAST:
        return legacy.along_axis(g, op, g.operand(op))
    a, b = both(g, op)
    if not is_float(g.dtype(b)):
        if not g.array(b).all():  # integer division by zero has no result
            b = g.source(g.shape(b), g.dtype(b), low=1, high=7)
    return g.node(op, [a, b])


@spec("Mod")
def mod(g, op):
    a, b = both(g, op)
    flag = {}
    if is_float(g.dtype(a)):
        flag["fmod"] = 1
    elif g.chance(0.4):
        flag["fmod"] = g.r.choice((0, 1))
    if not is_float(g.dtype(b)) and not g.array(b).all():
        b = g.source(g.shape(b), g.dtype(b), low=1, high=7)
    return g.node(op, [a, b], **flag)


@spec("Pow", train=True)
def power(g, op):
    base = g.operand(op, dtypes=g.dtypes(op) & {g.float_type, F32, I32, I64})
    if g.chance(0.6):
        exponents = (2, 3, 1, 0) if not is_float(g.dtype(base)) else (2.0, 3.0, 0.5, -1.0, 1.0, 0.0, 1.5, -2.0, 4.0)
        kind = g.dtype(base)
        if g.opset >= 12 and g.chance(0.2):
            kind = g.r.choice([F32, I64]) if kind != BF16 else kind
        number = g.r.choice(exponents if is_float(kind) else (2, 3, 1, 0))
        shape = [1] * g.r.randint(0, 2) if g.chance(0.7) else g.shape(base)
        source = g.r.choice(("initializer", "constant", "input"))
        exponent = g.give(np.full(shape, number, kind), source, pickable=False)
        if is_float(kind) and not is_float(g.dtype(base)) and number < 0:
            raise Skip
    else:
        if not is_float(g.dtype(base)):
            exponent = g.partner(base, low=0, high=4)
        else:
            exponent = g.partner(base)
    return g.node(op, [base, exponent])


@spec("And", "Or", "Xor")
def logical(g, op):
    first = condition(g)
    if g.opset <= legacy.LAST:
        return legacy.along_axis(g, op, first)
    return g.node(op, [first, g.partner(first)])


@spec("BitwiseNot", since=18)
def bitwise_not(g, op):
    return g.node(op, [g.operand(op)])


@spec("BitwiseAnd", "BitwiseOr", "BitwiseXor", since=18)
def bitwise(g, op):
    return g.node(op, both(g, op))


@spec("BitShift", since=11)
def bit_shift(g, op):
    """Amounts beyond the bits of the type are rare."""
    x = g.operand(op)
    bits = 8 * g.dtype(x).itemsize
    low, high = (0 if g.dtype(x).kind == "u" else -3, bits + 3) if g.chance(0.2) else (0, 5)
    return g.node(op, [x, g.partner(x, low=low, high=high)], direction=g.r.choice(("LEFT", "RIGHT")))


@spec("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
def comparison(g, op):
    return g.node(op, both(g, op))


@spec("Sum", "Max", "Min", "Mean", train=True)
def variadic(g, op):
    first = g.operand(op)
    inputs = [first] + [g.partner(first) for _ in range(g.r.choice((0, 1, 1, 2, 3)))]
    if len(inputs) > 2:  # all together must broadcast
        try:
            np.broadcast_shapes(*[g.shape(each) for each in inputs])
        except ValueError as error:
            raise Skip from error
    g.r.shuffle(inputs)
    return g.node(op, inputs)


@spec("Clip", train=True)
def clip(g, op):
    x = g.operand(op, dtypes=g.dtypes(op) if g.opset >= 12 else g.dtypes(op) & set(FLOATS))
    low, high = sorted(g.r.choice((-2, -1, 0, 1, 3, 6)) for _ in range(2))
    dtype = g.dtype(x)
    low, high = (max(low, 0), max(high, 0)) if dtype.kind == "u" else (low, high)
    if g.opset >= 13 and g.chance(0.05):
        low, high = high, low  # all elements become `high`
    has_low, has_high = g.chance(0.8), g.chance(0.8)
    if g.opset < 11:
        bounds = {"min": float(low) if has_low else None, "max": float(high) if has_high else None}
        return g.node(op, [x], **bounds)

    def bound(value, present):
        if not present:
            return None
        kind = "input" if g.chance(0.15) else g.r.choice(("initializer", "constant"))
        return g.give(np.array(value, dtype), kind, pickable=False)

    return g.node(op, [x, bound(low, has_low), bound(high, has_high)])


def condition(g, shape=None):
    """A value of bool, found, compared or made."""
    found = g.find(lambda array: array.dtype == BOOL and (shape is None or array.shape == tuple(shape)))
    if found:
        return found
    if shape is None and g.opset > legacy.LAST and g.chance(0.6):
        x = g.operand("Less")
        return g.node("Less", [x, g.partner(x)])
    return g.source(g.sizes() if shape is None else shape, BOOL)


@spec("Where", train=True)
def where(g, op):
    first = g.operand(op, index=1)
    second = g.partner(first)
    chosen = g.r.choice((first, second))
    if g.chance(0.5):
        cond = condition(g, g.shape(chosen))
    else:
        cond = g.partner(chosen, BOOL)
    return g.node(op, [cond, first, second])


def may_cast(g, x, dtype):
    """Casts out of range have no one result."""
    array = g.array(x)
    if is_float(array.dtype) and array.size:
        values = array.astype(np.float64)
        finite = values[np.isfinite(values)]
        if dtype in INTEGERS:
            info = np.iinfo(dtype)
            return len(finite) == values.size and finite.min() >= max(info.min + 1, -2**31) \
                and finite.max() < min(info.max, 2**31 - 65)
        if dtype in HALVES:
            return not len(finite) or np.abs(finite).max() < 6e4
    elif dtype in INTEGERS and array.size and array.dtype != BOOL:
        info = np.iinfo(dtype)
        return int(array.min()) >= info.min and int(array.max()) <= info.max
    return True


@spec("Cast", train=True)
def cast(g, op):
    import onnx.helper
    x = g.operand(op)
    targets = [each for each in (F32, g.float_type, g.float_type, BOOL, *INTEGERS)
               if not (each == BF16 and g.opset < 13) and may_cast(g, x, each)]
    dtype = np.dtype(g.r.choice(targets))
    if BF16 in (dtype, g.dtype(x)):
        raise Skip  # see bf16 below
    return g.node(op, [x], to=int(onnx.helper.np_dtype_to_tensor_dtype(dtype)))


@spec("CastLike")
def cast_like(g, op):
    x = g.operand(op, dtypes=g.dtypes(op) - {BF16})
    like = g.operand(op, 1, dtypes=g.dtypes(op, 1) - {BF16})
    if not may_cast(g, x, g.dtype(like)):
        raise Skip
    return g.node(op, [x, like])


@spec("Dropout", train=False)
def dropout(g, op):
    x = g.operand(op)
    outputs = [True, True] if g.chance(0.2) else 1
    if g.opset < 12:
        return g.node(op, [x], outputs, ratio=0.3 if g.chance(0.5) else None)
    ratio = g.give(np.array(0.4, F32), "initializer", pickable=False) if g.chance(0.5) else None
    training = None
    if g.chance(0.3):
        training = g.give(np.array(False), g.r.choice(("initializer", "constant")), pickable=False)
    return g.node(op, [x, ratio, training], outputs)


def number(g, *values):
    """A value of an attribute, or None for its default."""
    return g.r.choice(values) if g.chance(0.6) else None


@spec("Elu", "Celu", "LeakyRelu", train=True)
def with_alpha(g, op):
    return g.node(op, [g.operand(op)], alpha=number(g, 0.5, 1.0, 2.0, 0.1))


@spec("ThresholdedRelu", train=True)
def thresholded(g, op):
    return g.node(op, [g.operand(op)], alpha=number(g, 0.5, 0.0, -1.0))


@spec("Selu", train=True)
def selu(g, op):
    return g.node(op, [g.operand(op)], alpha=number(g, 1.0, 2.0), gamma=number(g, 1.5, 0.5))


@spec("HardSigmoid", train=True)
def hard_sigmoid(g, op):
    return g.node(op, [g.operand(op)], alpha=number(g, 0.25, 0.5), beta=number(g, 0.4, 0.1))


@spec("Swish", train=True)
def swish(g, op):
    return g.node(op, [g.operand(op)], alpha=number(g, 1.0, 0.5, 2.0, -1.0))


@spec("Gelu", train=True)
def gelu(g, op):
    return g.node(op, [g.operand(op)], approximate=number(g, "none", "tanh"))


@spec("Shrink")
def shrink(g, op):
    x = g.operand(op)
    # Below 0 unsigned integers are out of range.
    bias = number(g, 0.2, 1.0) if g.dtype(x).kind != "u" else None
    return g.node(op, [x], lambd=number(g, 0.2, 1.0), bias=bias)


@spec("PRelu", train=True)
def prelu(g, op):
    x = g.operand(op, dtypes=g.dtypes(op) & {*FLOATS, I32, I64})
    shape = [1 if g.chance(0.4) else size for size in g.shape(x)][g.r.randint(0, g.rank(x)):]
    return g.node(op, [x, g.weight(shape, g.dtype(x))])
