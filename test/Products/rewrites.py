# Rewrites among ops: identities and constants that fold, slices that rise, reshapes and transposes that sink, and what
# lowering prepares. Each where it is right and, beside it, where it looks alike and would compute something else; all
# against ONNX Runtime, which does none of them with its optimizations off.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import itertools
import sys

sys.path.insert(0, sys.argv.pop(2))
import numpy as np
from onnx_cases import Suite

suite = Suite("rewrites", sys.argv, pack=16, spread=6)
case = suite.case
UP = np.arange(16, dtype=np.float32).reshape(4, 4)


def cut(g, x, axis, start, end, step=1):
    return g.Slice(x, g.ints(start), g.ints(end), g.ints(axis), g.ints(step))


# --- numbers and constants ---------------------------------------------------------------------------------------------
for kind, number, first in itertools.product(("Add", "Sub", "Mul", "Div"), (0.0, 1.0, -1.0, 2.0), (False, True)):
    if not (kind == "Div" and number == 0 and not first):
        case(f"{kind} {number} first={first}", lambda g, k=kind, n=number, f=first: g.op(
            k, *((g.const(n), g.x(4, 4)) if f else (g.x(4, 4), g.const(n)))))
case("difference of two values", lambda g: g.Sub(g.x(4, 4), g.x(4, 4, tag=1)))
for kind, truth in itertools.product(("And", "Or"), (False, True)):
    case(f"{kind} with {truth}", lambda g, k=kind, t=truth: g.op(
        k, g.Greater(g.x(4, 4), g.const(0.0)), g.const(np.array(t))))
for number in (1.0, 2.0, 3.0, 2.0 ** -20, 2.0 ** -130, 1e-39, 1e36):
    case(f"divided by {number}", lambda g, n=number: g.Div(g.given(UP * np.float32(n)), g.const(n)))
    case(f"{number} over", lambda g, n=number: g.Div(g.const(n), g.given((UP + 1) * np.float32(max(n, 1e-30)))))
for other in ((), (1,), (4,), (4, 1), (3, 4, 4)):
    case(f"broadcast plus {other}", lambda g, o=other: g.Add(g.Expand(g.x(1, 4), g.ints(4, 4)), g.x(*o, tag=1)))
    case(f"negated broadcast times {other}", lambda g, o=other: g.Neg(
        g.Mul(g.Expand(g.x(4), g.ints(4, 4)), g.x(*o, tag=1))))
case("broadcast plus a row", lambda g: g.Add(g.Expand(g.x(1, 4), g.ints(3, 4)), g.x(1, 4, tag=1)))
case("broadcast to three dimensions plus two", lambda g: g.Add(g.Expand(g.x(4), g.ints(2, 3, 4)), g.x(3, 4)))
case("exp of a broadcast", lambda g: g.Exp(g.Expand(g.x(4), g.ints(4, 4))))
for read in (False, True):
    case(f"both sides of a product scaled, one read={read}", lambda g, r=read: (
        lambda k: (g.MatMul(g.Mul(g.x(4, 4), g.const(0.5)), k), *([k] if r else [])))(
            g.Mul(g.x(4, 4, tag=1), g.const(3.0))))
case("factors that are tiny together", lambda g: g.MatMul(
    g.Mul(g.given(UP * np.float32(1e10)), g.const(1e-25)), g.Mul(g.given(UP * np.float32(1e10)), g.const(1e-25))))
case("power that is no product", lambda g: g.Pow(g.Abs(g.x(4, 4)), g.const(0.3)))
for exponent in (2.0, 3.0, 4.0):
    case(f"power of {exponent}", lambda g, e=exponent: g.Pow(g.x(4, 4), g.const(e)))


# --- a guard against NaN -----------------------------------------------------------------------------------------------
def guarded(g, mask, other=False):
    s = g.x(4, 4)
    p = g.Softmax(s if mask is None else g.Add(s, g.const(mask.astype(np.float32))), axis=-1)
    seen = g.Sqrt(g.x(4, 4, tag=1)) if other else p
    return g.Where(g.IsNaN(seen), g.const(0.0), p)


case("guard without a mask", lambda g: guarded(g, None))
case("guard behind a triangle", lambda g: guarded(g, np.where(np.tri(4), 0, -np.inf)))
case("guard behind a row without a key", lambda g: guarded(g, np.where(np.tri(4, k=-1), 0, -np.inf)))
case("guard that asks another value", lambda g: guarded(g, None, other=True))

# --- slices ------------------------------------------------------------------------------------------------------------
for indices in ([0, 1], [1, 2, 3], [-2, -1], [0, 2], [2, 1], [1, 1], [3]):
    case(f"gather of {indices}", lambda g, i=indices: g.Gather(g.x(4, 4), g.ints(*i), axis=1))
case("reversed", lambda g: cut(g, g.x(4, 4), 1, -1, -100, -1))
case("all", lambda g: cut(g, g.x(4, 4), 1, 0, 4))
for axis, start, end, step in ((1, 0, 4, 1), (1, 4, 8, 1), (1, 0, 8, 2), (1, 1, 8, 4), (0, 0, 2, 1), (0, 1, 3, 1)):
    at = (axis, start, end, step)
    case(f"slice {at} of a product", lambda g, a=at: cut(g, g.MatMul(g.x(4, 4), g.c(4, 8)), *a))
    case(f"slice {at} of a product with a bias", lambda g, a=at: cut(g, g.Add(g.MatMul(g.x(4, 4), g.c(4, 8)), g.c(8)), *a))
    case(f"product with slice {at} of a weight", lambda g, a=at: g.MatMul(
        g.x(4, 4), (lambda w: w if a[0] else g.Concat(w, w, axis=0))(cut(g, g.c(4, 8), *a))))
    case(f"product with a weight cut by {at}, in another shape", lambda g, a=at: (
        lambda w: g.Mul(g.x(1, tag=3), g.Reshape(w, g.ints(2, -1))))(cut(g, g.c(4, 8), *a)))
for axis, start, end in ((2, 0, 2), (2, 2, 4), (1, 0, 1), (1, 1, 2), (0, 1, 3)):
    case(f"slice {(axis, start, end)} of a product taken apart", lambda g, a=(axis, start, end): cut(
        g, g.Reshape(g.MatMul(g.x(4, 4), g.c(4, 8)), g.ints(4, 2, 4)), *a))
for start, end in ((0, 4), (4, 8), (2, 6), (1, 5), (3, 5)):
    case(f"slice {start}:{end} of a product put together", lambda g, s=start, e=end: cut(
        g, g.Reshape(g.MatMul(g.x(4, 2, 4), g.c(4, 4)), g.ints(4, 8)), 1, s, e))

# --- reshapes ----------------------------------------------------------------------------------------------------------
for transposed in (False, True):
    case(f"product of a reshape, transposed={transposed}", lambda g, t=transposed: (
        lambda x: g.Gemm(x, g.c(4, 4), transA=int(t)))(g.Reshape(g.x(2, 2, 4), g.ints(4, 4))))
for shape, other in itertools.product(((2, 8), (4, 2, 2), (4, 4), (16,), (2, 2, 4)), ((), (1,), (4,), (4, 4))):
    case(f"reshape of {shape} plus {other}", lambda g, s=shape, o=other: g.Exp(
        g.Add(g.Reshape(g.x(*s), g.ints(4, 4)), g.c(*o))))
for shape, axis in itertools.product(((2, 2, 4), (4, 2, 2), (2, 8), (4, 4)), (-1, 0)):
    case(f"norm {axis} of a reshape of {shape}", lambda g, s=shape, a=axis: g.LayerNormalization(
        g.Reshape(g.x(*s), g.ints(4, 4)), g.c(*((4,) if a else (4, 4))), axis=a))

# --- transposes --------------------------------------------------------------------------------------------------------
for perm in itertools.permutations(range(3)):
    named = f"transpose {perm}"
    case(named, lambda g, p=perm: g.Transpose(g.x(4, 4, 4), perm=p))
    case(f"{named} with a dimension of 1", lambda g, p=perm: g.Transpose(g.x(1, 4, 4), perm=p))
    for merged in ((16, 4), (4, 16)):
        case(f"{named} merged to {merged}", lambda g, p=perm, m=merged: g.Reshape(
            g.Transpose(g.x(4, 4, 4), perm=p), g.ints(*m)))
    case(f"product of a {named}", lambda g, p=perm: g.MatMul(g.Transpose(g.Exp(g.x(4, 4, 4)), perm=p), g.c(4, 4)))
    for axis in (-1, -2):
        case(f"norm {axis} of a {named}", lambda g, p=perm, a=axis: g.LayerNormalization(
            g.Transpose(g.x(4, 4, 4), perm=p), g.c(*((4,) if a == -1 else (4, 4))), axis=a))
    for other in ((0, 2, 1), (2, 1, 0)):
        case(f"{named} beside {other}", lambda g, p=perm, o=other: g.Concat(
            g.Transpose(g.x(4, 4, 4), perm=p), g.Transpose(g.x(4, 4, 4, tag=1), perm=o), axis=1))

# --- what lowering prepares --------------------------------------------------------------------------------------------
for read, kind, number in itertools.product((False, True), ("Mul", "Div"), (0.5, 3.0, 1e-39, np.inf)):
    case(f"{kind} by {number} in front of a product, read={read}", lambda g, r=read, k=kind, n=number: (
        lambda s: (*([g.Exp(s)] if r else []), g.MatMul(s, g.x(4, 4, tag=1))))(g.op(k, g.x(4, 4), g.const(n))))
case("dividend in front of a product", lambda g: g.MatMul(
    g.Div(g.const(3.0), g.given(UP + 1)), g.x(4, 4, tag=1)))
for bias in ((4, 1, 1), (1, 4, 1), (1, 1, 4), (1,)):
    case(f"convolution plus {bias}, normalized", lambda g, b=bias: g.BatchNormalization(
        g.Add(g.Conv(g.x(1, 3, 4, 4), g.c(4, 3, 1, 1)), g.c(*b)), g.c(4), g.c(4), g.c(4), g.const([1.0, 2.0, 0.5, 3.0])))
for sizes in ((1, 1, 1, 1), (2, 2), (1, 3), (3, 1)):
    case(f"steps of {sizes} of a product", lambda g, s=sizes: tuple(
        g.Relu(each) for each in g.op("Split", g.MatMul(g.x(3, 4, 4), g.x(3, 4, 8)), g.ints(*s), axis=1, results=len(s))))
for axes in ((0,), (1,)):
    case(f"long sum over {axes}", lambda g, a=axes: g.ReduceSum(
        g.x(*((60000, 3) if a == (0,) else (3, 60000)), kind="positive"), g.ints(*a), keepdims=0))

suite.finish()
