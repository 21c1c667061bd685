# Normalizations, softmax, gelu, attention and rotary embeddings as exporters take them apart, in variants of axis, order,
# constants and shape; and near misses that look alike and are something else. All against ONNX Runtime, which knows none
# of the patterns with its optimizations off.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import itertools
import math
import sys

sys.path.insert(0, sys.argv.pop(2))
import numpy as np
from onnx_cases import Suite

suite = Suite("patterns", sys.argv, pack=24, spread=6)
AXES = {"last": (-1,), "first": (0,), "middle": (1,), "last two": (-2, -1), "outer two": (0, 1), "first and last": (0, -1)}
# A cube makes every wrong broadcast legal: what is along the wrong dimension shows in the numbers alone.
SHAPES = {"cube": (4, 4, 4), "odd": (2, 3, 5), "square": (4, 4), "row": (1, 6), "rank 4": (2, 3, 4, 5)}


def mean(g, x, axes, keep=1):
    return g.ReduceMean(x, g.ints(*axes), keepdims=keep)


def norm(g, shape, axes, centre=True, eps=1e-5, keep=1, root="div sqrt", eps_at="inside", power="mul", same=True,
         scale=None, bias=None, scale_first=False, count=None):
    """(x - mean) / sqrt(mean((x - mean)^2) + eps) * scale + bias, and what is nearly that."""
    x = g.x(*shape)
    centres = {False: None, True: lambda: mean(g, x, axes, keep),
               # Not its own mean, not along its rows.
               "another": lambda: mean(g, g.x(*shape, tag=3), axes), "across": lambda: mean(g, x, axes, 0)}
    d = g.Sub(x, centres[centre]()) if centre else x
    base = d if same else x  # not the same: squares of what is not centred
    if power == "mul":
        squares = g.Mul(base, base)
    elif power == "abs":
        squares = g.Mul(base, g.Abs(base))
    else:
        squares = g.Pow(base, g.const(float(power)))
    if count is not None:  # a sum, divided by something else than the number of elements
        variance = g.Div(g.ReduceSum(squares, g.ints(*axes), keepdims=keep), g.const(float(count)))
    else:
        variance = mean(g, squares, axes, keep)
    variance = g.Abs(variance) if power == "abs" or power == 3 else variance
    if eps_at == "inside":
        variance = g.Add(variance, g.const(eps))
    elif eps_at == "left":
        variance = g.Add(g.const(eps), variance)
    if root == "div sqrt":
        deviation = g.Sqrt(variance)
        deviation = g.Add(deviation, g.const(eps)) if eps_at == "outside" else deviation
        y = g.Div(d, deviation)
    elif root == "mul reciprocal":
        y = g.Mul(d, g.Reciprocal(g.Sqrt(variance)))
    elif root == "reciprocal mul":
        y = g.Mul(g.Reciprocal(g.Sqrt(variance)), d)
    elif root == "pow":
        y = g.Mul(d, g.Pow(variance, g.const(-0.5)))
    elif root == "div by variance":
        y = g.Div(d, variance)
    else:
        y = g.Div(g.Sqrt(variance), d)
    if scale is not None:
        w = g.c(*scale)
        y = g.Mul(w, y) if scale_first else g.Mul(y, w)
    if bias is not None:
        y = g.Add(y, g.c(*bias))
    return y


for (kind, shape), (name, axes), centre, keep in itertools.product(SHAPES.items(), AXES.items(), (True, False), (1, 0)):
    if any(axis >= len(shape) or axis < -len(shape) for axis in axes) or len({a % len(shape) for a in axes}) < len(axes):
        continue
    if not keep and kind not in ("cube", "square"):
        continue  # does not broadcast
    suite.case(f"norm {kind} {name} centred={centre} keepdims={keep}", lambda g, s=shape, a=axes, c=centre, k=keep: norm(
        g, s, a, c, keep=k))
for shape, centre in itertools.product(((4, 4), (4, 4, 4)), ("another", "across")):
    suite.case(f"norm {shape} centred by {centre}", lambda g, s=shape, c=centre: norm(g, s, (-1,), c))
VARIANTS = [dict(root=root) for root in ("mul reciprocal", "reciprocal mul", "pow", "div by variance", "other way")]
VARIANTS += [dict(eps_at=at) for at in ("left", "outside", "none")] + [dict(eps=eps) for eps in (1e-12, 0.1, 1.0, -1e-6)]
VARIANTS += [dict(power=power) for power in (2, 3, "abs")] + [dict(same=False), dict(count=4), dict(count=3), dict(count=16)]
for shape in ((4, 4, 4), (3, 4)):
    wide = [(4,), (1, 4), (4, 1), (4, 4), (), (1,), (1, 1, 4), (4, 1, 1), (1, 4, 1), (4, 4, 4)]
    VARIANTS_OF_SHAPE = VARIANTS + [dict(scale=s, bias=b, scale_first=f) for s, b, f in
                                    [(s, None, f) for s in wide for f in (False, True)] + [(None, b, False) for b in wide] +
                                    [((4,), b, False) for b in wide] + [((1, 4), (1, 4), True)]]
    for variant, centre in itertools.product(VARIANTS_OF_SHAPE, (True, False)):
        beside = [variant[each] for each in ("scale", "bias") if variant.get(each)]
        if not all(len(each) <= len(shape) and all(m in (1, n) for m, n in zip(each[::-1], shape[::-1])) for each in beside):
            continue
        suite.case(f"norm {shape} centred={centre} {variant}",
                   lambda g, s=shape, c=centre, v=variant: norm(g, s, (-1,), c, **v))
        if shape == (4, 4, 4) and (variant.get("scale") or variant.get("bias")):
            suite.case(f"norm {shape} of two axes centred={centre} {variant}",
                       lambda g, s=shape, c=centre, v=variant: norm(g, s, (-2, -1), c, **v))


def add_bias_value(g):
    """A bias that is an activation of the right shape by accident."""
    return g.Add(norm(g, (4, 4), (-1,), scale=(4,)), g.ReduceSum(g.x(4, 4, tag=1), g.ints(0), keepdims=0))


suite.case("norm, bias is a value", add_bias_value)
suite.case("LayerNormalization scaled twice", lambda g: g.Mul(g.LayerNormalization(g.x(4, 4), g.c(4), axis=-1), g.c(4)))
suite.case("norm without centre scaled twice", lambda g: g.Mul(norm(g, (4, 4), (-1,), centre=False, scale=(4,)), g.c(4)))
suite.case("LayerNormalization with a bias, scaled", lambda g: g.Mul(g.LayerNormalization(
    g.x(4, 4), g.const([1.0] * 4), g.c(4), axis=-1), g.c(4)))
suite.case("LayerNormalization with two biases", lambda g: g.Add(g.LayerNormalization(
    g.x(4, 4), g.c(4), g.c(4), axis=-1), g.c(4)))
suite.case("norm, scale is a value", lambda g: g.Mul(norm(g, (4, 4), (-1,)), g.x(4)))
suite.case("norm, scale is a value of full shape", lambda g: g.Mul(norm(g, (4, 4), (-1,)), g.x(4, 4, tag=1)))
suite.case("norm used twice", lambda g: (lambda y: (g.Mul(y, g.c(4)), g.Add(y, g.c(4))))(norm(g, (4, 4), (-1,))))
suite.case("norm times itself", lambda g: (lambda y: g.Mul(y, y))(norm(g, (4, 4), (-1,))))
for fused, axis in itertools.product(("LayerNormalization", "RMSNormalization"), (-1, 1, 0)):
    if fused == "LayerNormalization":
        suite.case(f"{fused} axis {axis}", lambda g, a=axis: g.op(
            "LayerNormalization", g.x(3, 4, 5), g.c(*(3, 4, 5)[a % 3:]), g.c(*(3, 4, 5)[a % 3:]), axis=a, epsilon=1e-3))


# --- softmax ---------------------------------------------------------------------------------------------------------
def softmax(g, shape, axis, keep_max=1, keep_sum=1, max_axis=None, sum_axis=None, shift="max", of=None):
    x = of if of is not None else g.x(*shape)
    z = x
    if shift == "max":
        z = g.Sub(x, g.ReduceMax(x, g.ints(axis if max_axis is None else max_axis), keepdims=keep_max))
    elif shift == "min":
        z = g.Sub(x, g.ReduceMin(x, g.ints(axis), keepdims=keep_max))
    elif shift == "mean":
        z = g.Sub(x, g.ReduceMean(x, g.ints(axis), keepdims=keep_max))
    elif shift == "swapped":
        z = g.Sub(g.ReduceMax(x, g.ints(axis), keepdims=keep_max), x)
    elif shift == "other":
        z = g.Sub(x, g.ReduceMax(g.x(*shape, tag=1), g.ints(axis), keepdims=keep_max))
    e = g.Exp(z)
    return g.Div(e, g.ReduceSum(e, g.ints(axis if sum_axis is None else sum_axis), keepdims=keep_sum))


for shape in ((4, 4), (4, 4, 4)):
    for axis, keep_max, keep_sum in itertools.product(range(len(shape)), (0, 1), (0, 1)):
        suite.case(f"softmax {shape} axis {axis} keepdims {keep_max} {keep_sum}",
                   lambda g, s=shape, a=axis, m=keep_max, k=keep_sum: softmax(g, s, a, m, k))
    for max_axis, sum_axis in itertools.product(range(len(shape)), repeat=2):
        suite.case(f"softmax {shape} max {max_axis} sum {sum_axis}",
                   lambda g, s=shape, m=max_axis, k=sum_axis: softmax(g, s, k, max_axis=m))
    for shift in ("none", "min", "mean", "swapped", "other"):
        suite.case(f"softmax {shape} shifted by {shift}", lambda g, s=shape, h=shift: softmax(g, s, 1, shift=h))
for shape in ((2, 3, 5), (1, 7), (3, 1)):
    for axis in range(len(shape)):
        suite.case(f"softmax {shape} axis {axis}", lambda g, s=shape, a=axis: softmax(g, s, a))
        suite.case(f"Softmax {shape} axis {axis}", lambda g, s=shape, a=axis: g.Softmax(g.x(*s), axis=a))
        suite.case(f"LogSoftmax {shape} axis {axis}", lambda g, s=shape, a=axis: g.LogSoftmax(g.x(*s), axis=a))
        suite.case(f"log of softmax {shape} axis {axis}", lambda g, s=shape, a=axis: g.Log(g.Softmax(g.x(*s), axis=a)))
suite.case("softmax, exp read elsewhere", lambda g: (lambda e: (g.Div(e, g.ReduceSum(e, g.ints(-1))), g.Neg(e)))(
    g.Exp(g.x(3, 5))))
suite.case("exp over sum of another", lambda g: g.Div(g.Exp(g.x(4, 4)), g.ReduceSum(g.Exp(g.x(4, 4, tag=1)), g.ints(-1))))
for kind in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceL2"):
    suite.case(f"exp over {kind} of it", lambda g, k=kind: (lambda e: g.Div(e, g.op(k, e, g.ints(-1))))(g.Exp(g.x(4, 4))))
suite.case("sum over exp", lambda g: (lambda e: g.Div(g.ReduceSum(e, g.ints(-1)), e))(g.Exp(g.x(4, 4))))


# --- gelu --------------------------------------------------------------------------------------------------------------
def gelu(g, x, form="erf", order=0, half=0.5, one=1.0, inner=None, cubic=0.044715, of=None, cube="pow"):
    of = of or x
    if form == "erf":
        t = g.Erf(g.Div(of, g.const(math.sqrt(2.0) if inner is None else inner)))
    elif form == "erf mul":
        t = g.Erf(g.Mul(of, g.const(math.sqrt(0.5) if inner is None else inner)))
    else:
        third = g.Pow(of, g.const(3.0)) if cube == "pow" else g.Mul(of, g.Mul(of, of))
        t = g.Tanh(g.Mul(g.const(math.sqrt(2 / math.pi) if inner is None else inner),
                         g.Add(of, g.Mul(third, g.const(cubic)))))
    plus = g.Add(t, g.const(one)) if order % 2 else g.Add(g.const(one), t)
    if order == 0:
        return g.Mul(g.Mul(x, g.const(half)), plus)
    if order == 1:
        return g.Mul(g.const(half), g.Mul(x, plus))
    if order == 2:
        return g.Mul(x, g.Mul(plus, g.const(half)))
    if order == 3:
        return g.Mul(g.Mul(x, plus), g.const(half))
    if order == 4:
        return g.Div(g.Mul(plus, x), g.const(1 / half))
    return g.Add(g.Mul(x, g.const(half)), g.Mul(g.Mul(x, g.const(half)), t))


for form, order in itertools.product(("erf", "erf mul", "tanh"), range(6)):
    suite.case(f"gelu {form} order {order}", lambda g, f=form, o=order: gelu(g, g.x(3, 5), f, o))
    suite.case(f"gelu {form} order {order} behind a product",
               lambda g, f=form, o=order: gelu(g, g.MatMul(g.x(3, 5), g.c(5, 8)), f, o))
suite.case("gelu tanh cube by products", lambda g: gelu(g, g.x(3, 5), "tanh", cube="mul"))
for form, miss in itertools.product(("erf", "tanh"), (
        dict(half=0.51), dict(one=1.01), dict(one=-1.0), dict(inner=1.0), dict(inner=0.79), dict(inner=1.42),
        dict(cubic=0.0448), dict(cubic=0.045), dict(cubic=0.0), dict(half=-0.5), dict(half=0.5002))):
    suite.case(f"gelu {form} but {miss}", lambda g, f=form, m=miss: gelu(g, g.x(3, 5), f, 0, **m))
suite.case("gelu of two values", lambda g: gelu(g, g.x(3, 5), of=g.x(3, 5, tag=1)))
suite.case("gelu of a row", lambda g: gelu(g, g.x(3, 5), of=g.x(1, 5)))
suite.case("gelu times a row", lambda g: gelu(g, g.x(1, 5), of=g.x(3, 5)))
suite.case("gelu of a square, transposed", lambda g: gelu(g, g.x(4, 4), of=g.Transpose(g.x(4, 4), perm=[1, 0])))
suite.case("quick gelu", lambda g: g.Mul(g.x(3, 5), g.Sigmoid(g.Mul(g.x(3, 5), g.const(1.702)))))
suite.case("silu", lambda g: g.Mul(g.Sigmoid(g.x(3, 5)), g.x(3, 5)))
suite.case("silu of two values", lambda g: g.Mul(g.Sigmoid(g.x(3, 5)), g.x(3, 5, tag=1)))


# --- attention ---------------------------------------------------------------------------------------------------------
def triangle(rows, columns, below=0.0, above=-np.inf, k=0):
    upper = np.arange(columns)[None] > np.arange(rows)[:, None] + k
    return np.where(upper, np.float32(above), np.float32(below))


def heads(g, x, batch, length, count, size, form):
    x = g.Reshape(x, g.ints(batch, length, count, size))
    if form == "key":
        return g.Transpose(x, perm=[0, 2, 3, 1])
    return g.Transpose(x, perm=[0, 2, 1, 3])


def attention(g, batch=2, length=5, keys=None, count=3, size=8, key_heads=None, scale="div", mask=None, late=None,
              second_scale=None, axis=-1, swap=False, flat=False, use=False, transposed_values=False):
    keys = keys or length
    key_heads = key_heads or count
    width = count * size
    x, memory = g.x(batch, length, width), g.x(batch, keys, width, tag=2)
    q = heads(g, g.MatMul(x, g.c(width, width)), batch, length, count, size, "query")
    k = heads(g, g.MatMul(memory, g.c(width, key_heads * size)), batch, keys, key_heads, size,
              "key" if key_heads == count else "query")
    v = heads(g, g.MatMul(memory, g.c(width, key_heads * size)), batch, keys, key_heads, size, "value")
    if key_heads != count:
        groups = count // key_heads

        def repeat(y):
            y = g.Expand(g.Unsqueeze(y, g.ints(2)), g.ints(batch, key_heads, groups, keys, size))
            return g.Reshape(y, g.ints(batch, count, keys, size))
        k, v = g.Transpose(repeat(k), perm=[0, 1, 3, 2]), repeat(v)
    if scale == "query":
        q = g.Mul(q, g.const(size ** -0.5))
    if scale == "both":
        q, k = g.Mul(q, g.const(size ** -0.25)), g.Mul(k, g.const(size ** -0.25))
    if flat:
        q, k, v = (g.Reshape(y, g.ints(batch * count, *s)) for y, s in
                   ((q, (length, size)), (k, (size, keys)), (v, (keys, size))))
    s = g.MatMul(q, k)
    if flat:
        s = g.Reshape(s, g.ints(batch, count, length, keys))
    if scale == "div":
        s = g.Div(s, g.const(size ** 0.5))
    if scale == "mul":
        s = g.Mul(g.const(size ** -0.5), s)
    if mask is not None:
        s = mask(g, s)
    if second_scale:
        s = g.Mul(s, g.const(second_scale))
    p = g.Softmax(s, axis=axis)
    if late is not None:
        p = late(g, p)
    if flat:
        p = g.Reshape(p, g.ints(batch * count, length, keys))
    y = g.MatMul(p, v)
    if flat:
        y = g.Reshape(y, g.ints(batch, count, length, size))
    y = g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), g.ints(batch, length, width))
    y = g.MatMul(y, g.c(width, width))
    return (y, p) if use else y


# Attention is recognised where it is asked for, in 16 bits.
FUSED = ("--devices=cpu:1", "--precision=bf16", "--fused-attention")


def attention_case(name, build):
    suite.case(name, build)
    suite.case(f"fused {name}", build, (suite.under_test(FUSED),))


for batch, length, count, size in ((1, 5, 3, 8), (2, 5, 1, 8), (2, 1, 3, 8), (2, 7, 2, 5), (1, 17, 4, 16)):
    for scale in ("div", "mul", "query", "both", "none"):
        attention_case(f"attention batch {batch} length {length} heads {count} of {size} scale {scale}",
                   lambda g, b=batch, n=length, c=count, s=size, f=scale: attention(g, b, n, None, c, s, scale=f))
for keys in (1, 3, 9):
    attention_case(f"attention to {keys} keys", lambda g, k=keys: attention(g, keys=k))
for key_heads in (1, 2, 4):
    attention_case(f"attention of 4 heads, {key_heads} of keys", lambda g, k=key_heads: attention(g, count=4, key_heads=k))
MASKS = {
    "causal -inf": lambda g, s: g.Add(s, g.const(triangle(5, 5))),
    "causal first": lambda g, s: g.Add(g.const(triangle(5, 5)), s),
    "causal lowest": lambda g, s: g.Add(s, g.const(triangle(5, 5, above=np.finfo(np.float32).min))),
    "causal -1e4": lambda g, s: g.Add(s, g.const(triangle(5, 5, above=-1e4))),
    "causal rank 4": lambda g, s: g.Add(s, g.const(triangle(5, 5)[None, None])),
    "causal by where": lambda g, s: g.Where(g.const(triangle(5, 5) == 0), s, g.const(-1e9)),
    "causal by where, inverted": lambda g, s: g.Where(g.const(triangle(5, 5) != 0), g.const(np.float32(-np.inf)), s),
    "weak triangle": lambda g, s: g.Add(s, g.const(triangle(5, 5, above=-5.0))),
    "triangle of ones": lambda g, s: g.Add(s, g.const(triangle(5, 5, below=1.0))),
    "anticausal": lambda g, s: g.Add(s, g.const(triangle(5, 5).T.copy())),
    "strict": lambda g, s: g.Add(s, g.const(triangle(5, 5, above=-1e9, k=-1))),
    "one ahead": lambda g, s: g.Add(s, g.const(triangle(5, 5, k=1))),
    "by where, small": lambda g, s: g.Where(g.const(triangle(5, 5) == 0), s, g.const(-3.0)),
    "by where, zero": lambda g, s: g.Where(g.const(triangle(5, 5) == 0), s, g.const(0.0)),
    "by where, positive": lambda g, s: g.Where(g.const(triangle(5, 5) == 0), s, g.const(1e9)),
    "padding": lambda g, s: g.Add(s, g.const(np.where(np.arange(5) < 3, 0, -1e9).astype(np.float32))),
    "padding of a batch": lambda g, s: g.Add(s, g.x(2, 1, 1, 5, tag=5)),
    "per head": lambda g, s: g.Add(s, g.x(1, 3, 5, 5, tag=5)),
    "per head, rank 3": lambda g, s: g.Add(s, g.x(3, 1, 5, tag=5)),
    "per head, learned": lambda g, s: g.Add(s, g.c(3, 5, 5)),
    "full": lambda g, s: g.Add(s, g.x(2, 3, 5, 5, tag=5)),
    "per query": lambda g, s: g.Add(s, g.x(5, 1, tag=5)),
    "two": lambda g, s: g.Add(g.Add(s, g.const(triangle(5, 5))), g.x(2, 1, 1, 5, tag=5)),
    "hidden row": lambda g, s: g.Add(s, g.const(np.where(np.arange(5)[:, None] == 2, -np.inf, 0).astype(np.float32) +
                                                np.zeros((5, 5), np.float32))),
    "hidden row, lowest": lambda g, s: g.Add(s, g.const(np.where(np.arange(5)[:, None] == 2, -3.4e38, 0).astype(np.float32) +
                                                        np.zeros((5, 5), np.float32))),
    "factor": lambda g, s: g.Mul(s, g.x(2, 1, 1, 5, tag=5)),
    "subtracted": lambda g, s: g.Sub(s, g.x(2, 1, 1, 5, tag=5)),
    "subtracted from": lambda g, s: g.Sub(g.x(2, 1, 1, 5, tag=5), s),
    "softcap": lambda g, s: g.Mul(g.Tanh(g.Mul(s, g.const(0.5))), g.const(2.0)),
    "softcap and mask": lambda g, s: g.Add(g.Mul(g.Tanh(g.Div(s, g.const(3.0))), g.const(3.0)), g.const(triangle(5, 5))),
    "clip": lambda g, s: g.Clip(s, g.const(-1.0), g.const(1.0)),
    "relu": lambda g, s: g.Relu(s),
}
for turn, ((name, mask), flat, scale) in enumerate(itertools.product(MASKS.items(), (False, True), ("div", "query"))):
    # Every mask flat or not with either scale, in turn.
    if suite.full or (flat == (scale == "query")) == (turn // 4 % 2 == 0):
        attention_case(f"attention mask {name}{' flat' if flat else ''} scale {scale}",
                       lambda g, m=mask, f=flat, s=scale: attention(g, mask=m, flat=f, scale=s))
for name in ("strict", "hidden row", "hidden row, lowest", "causal lowest"):
    suite.case(f"fused in float16, attention mask {name}", lambda g, m=MASKS[name]: attention(g, mask=m),
               (suite.under_test(("--devices=cpu:1", "--precision=f16", "--fused-attention")),))
for name in ("causal -inf", "padding of a batch", "padding", "weak triangle", "two"):
    attention_case(f"attention mask {name}, scaled behind it", lambda g, m=MASKS[name]: attention(g, mask=m, second_scale=0.5))
    attention_case(f"attention mask {name}, one key head of 3", lambda g, m=MASKS[name]: attention(g, mask=m, key_heads=1))
    attention_case(f"attention mask {name}, probabilities read", lambda g, m=MASKS[name]: attention(g, mask=m, use=True))
attention_case("attention scaled twice", lambda g: attention(g, second_scale=2.0))
attention_case("attention scaled negatively", lambda g: attention(g, second_scale=-1.0))
attention_case("attention, probabilities masked", lambda g: attention(g, late=lambda g, p: g.Mul(p, g.const(triangle(5, 5, 1, 0)))))
attention_case("attention, probabilities added to", lambda g: attention(g, late=lambda g, p: g.Add(p, g.x(2, 1, 1, 5, tag=5))))
attention_case("attention, NaN guarded", lambda g: attention(
    g, mask=MASKS["hidden row"], late=lambda g, p: g.Where(g.IsNaN(p), g.const(0.0), p)))
attention_case("attention, guarded by one", lambda g: attention(
    g, mask=MASKS["hidden row"], late=lambda g, p: g.Where(g.IsNaN(p), g.const(1.0), p)))
attention_case("attention along queries", lambda g: attention(g, axis=-2))
attention_case("attention along heads", lambda g: attention(g, axis=1))
# --- rotary embeddings -------------------------------------------------------------------------------------------------


def rotary(g, batch, length, count, size, halves=True, transposed=True, sign=-1.0, tables="constant"):
    angles = np.arange(length)[:, None] / 10.0 ** (np.arange(size // 2) / size)
    angles = np.concatenate([angles, angles], -1).astype(np.float32)
    cos, sin = ((g.const(np.cos(angles)), g.const(np.sin(angles))) if tables == "constant" else
                (g.x(length, size, tag=7), g.x(length, size, tag=8)))
    x = g.Reshape(g.MatMul(g.x(batch, length, count * size), g.c(count * size, count * size)),
                  g.ints(batch, length, count, size))
    if transposed:
        x = g.Transpose(x, perm=[0, 2, 1, 3])
    else:
        cos, sin = g.Unsqueeze(cos, g.ints(1)), g.Unsqueeze(sin, g.ints(1))
    if halves:
        first = g.Slice(x, g.ints(0), g.ints(size // 2), g.ints(-1))
        second = g.Slice(x, g.ints(size // 2), g.ints(2 ** 62), g.ints(-1))
        turned = g.Concat(g.Mul(second, g.const(sign)) if sign != -1.0 else g.Neg(second), first, axis=-1)
    else:
        even = g.Slice(x, g.ints(0), g.ints(size), g.ints(-1), g.ints(2))
        odd = g.Slice(x, g.ints(1), g.ints(size), g.ints(-1), g.ints(2))
        turned = g.Concat(g.Neg(odd), even, axis=-1)
    return g.Add(g.Mul(x, cos), g.Mul(turned, sin))


for batch, count, halves, transposed, tables in itertools.product((1, 2), (1, 3), (True, False), (True, False),
                                                                  ("constant", "value")):
    suite.case(f"rotary batch {batch} heads {count} halves {halves} transposed {transposed} tables {tables}",
               lambda g, *_, a=(batch, 5, count, 8, halves, transposed), t=tables: rotary(g, *a, tables=t))
suite.case("rotary with another sign", lambda g: rotary(g, 2, 5, 3, 8, sign=1.0))
suite.finish()
