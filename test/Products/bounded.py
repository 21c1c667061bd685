# Results whose size the program computes: NonZero, Compress, Unique and NonMaxSuppression of inputs, with none, some and
# all chosen, and what follows them: places, sums, rows in order, shapes. Against ONNX Runtime, on one rank and, every
# fourth model, cut at random.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import itertools
import sys

import numpy as np
from onnx import TensorProto, helper

sys.path.insert(0, sys.argv.pop(2))
from onnx_cases import Suite

suite = Suite("bounded", sys.argv, pack=12, opset=21, spread=4)
random = np.random.default_rng(5)
F32, F16, I64 = np.float32, np.float16, np.int64
MASKS = {"none": np.zeros(9, bool), "some": np.array([0, 1, 1, 0, 0, 1, 0, 0, 1], bool), "all": np.ones(9, bool),
         "last": np.arange(9) == 8}
DATA = random.standard_normal((9, 4)).astype(F32)


def chosen(g, mask, data=DATA):
    """Rows of an input where a mask, an input too, holds: as torch.onnx writes x[mask]."""
    places = g.op("Transpose", g.op("NonZero", g.given(mask)), perm=[1, 0])
    return g.op("GatherND", g.given(data), places)


def either(g, mask):
    """Rows of a mask, or if there are none two others."""
    x, other = chosen(g, mask), g.given(DATA[:2])
    empty = g.op("Equal", g.op("Size", x), g.const(np.array(0, I64)))
    branches = [helper.make_graph([helper.make_node("Identity", [value], [name])], name, [], [helper.make_tensor_value_info(name, 1, None)])
                for name, value in ((g.name("then"), other), (g.name("else"), x))]
    return g.op("If", empty, then_branch=branches[0], else_branch=branches[1])


def both(build, names=MASKS):
    """`build` for each mask."""
    masks = names if isinstance(names, dict) else {name: MASKS[name] for name in names}
    return [(name, lambda g, m=mask: build(g, m)) for name, mask in masks.items()]


def cases(title, build, names=MASKS):
    for name, make in both(build, names):
        suite.case(f"{title} {name}", make)


# The operators themselves.
cases("not zero", lambda g, m: g.op("NonZero", g.given(m)))
for dtype in (np.float32, np.int32, np.int64, np.uint8, bool):
    suite.case(f"not zero {np.dtype(dtype)}", lambda g, d=dtype: g.op(
        "NonZero", g.given((np.arange(24).reshape(2, 3, 4) * 7 % 5 % 3).astype(d))))
suite.case("not zero of one", lambda g: [g.op("NonZero", g.given(np.array([3], F32))), g.op("NonZero", g.given(np.zeros((1, 1), F32)))])
suite.case("not zero, NaN", lambda g: g.op("NonZero", g.given(np.array([0, np.nan, -0.0, np.inf], F32))))
for axis in (None, 0, 1, -1):
    for name, mask in MASKS.items():
        suite.case(f"compressed {axis} {name}", lambda g, a=axis, m=mask: g.op(
            "Compress", g.given(random.standard_normal((9, 9)).astype(F32)), g.given(m), **({} if a is None else {"axis": a})))
suite.case("compressed, short", lambda g: g.op("Compress", g.given(DATA), g.given(np.array([0, 1, 1], bool)), axis=0))
ROWS = np.array([[[1, 0], [1, 0], [2, 3], [1, 0], [0, 9]], [[2, 2], [2, 2], [0, 1], [2, 2], [0, 1]]], F32)
for sorts, axis in itertools.product((0, 1), (None, 0, 1, -1)):
    suite.case(f"different {sorts} {axis}", lambda g, s=sorts, a=axis: g.op(
        "Unique", g.given(ROWS), results=4, sorted=s, **({} if a is None else {"axis": a})))
for name, values in (("ints", np.array([5, -2, 5, 5, 9, -2, 0], I64)), ("one", np.array([4.0], F32)),
                     ("equal", np.full(6, 2.5, F32)), ("double", np.array([0.5, -1, 0.5], np.float64))):
    for sorts in (0, 1):
        suite.case(f"different {name} {sorts}", lambda g, v=values, s=sorts: g.op("Unique", g.given(v), results=4, sorted=s))


def boxes(batch, count, seed=0, centre=False):
    rng = np.random.default_rng(seed)
    corner, size = rng.uniform(0, 8, (batch, count, 2)), rng.uniform(1, 5, (batch, count, 2))
    return np.concatenate([corner, size] if centre else [corner, corner + size], -1).astype(F32)


def suppressed(g, b, s, most=None, overlap=None, least=None, **attributes):
    scalars = [g.given(np.array([v], t)) if v is not None else "" for v, t in ((most, I64), (overlap, F32), (least, F32))]
    return g.op("NonMaxSuppression", g.given(b), g.given(s), *scalars, **attributes)


for batch, classes, most, overlap, least in ((1, 1, 3, 0.5, 0.0), (2, 3, 5, 0.3, 0.4), (1, 2, 100, 0.1, None), (1, 1, 4, 0.0, 2.0),
                                             (2, 2, 1, 1.0, 0.2), (1, 3, 0, 0.5, 0.1)):
    b, s = boxes(batch, 20, classes), np.random.default_rng(most).uniform(0, 1, (batch, classes, 20)).astype(F32)
    suite.case(f"suppressed {batch} {classes} {most} {overlap} {least}", lambda g, b=b, s=s, m=most, o=overlap, t=least: suppressed(
        g, b, s, m, o, t))
    suite.case(f"suppressed, constants, {batch} {classes} {most}", lambda g, b=b, s=s, m=most, o=overlap, t=least: g.op(
        "NonMaxSuppression", g.given(b), g.given(s), g.const(np.array([m], I64)), g.const(np.array([o], F32)),
        *([] if t is None else [g.const(np.array([t], F32))])))
# More boxes than are put in order at once, of which most are wanted, few are, or those that come first crowd.
for classes, most, overlap, spread in ((2, 5, 0.5, 9), (3, 60, 0.02, 9), (1, 700, 0.4, 9), (2, 40, 0.3, 0), (1, 700, 0.7, 0)):
    b = boxes(1, 700, classes)
    b += spread * np.tile(b[..., :2], 2)
    s = np.round(random.uniform(0, 1, (1, classes, 700)), 2).astype(F32)
    suite.case(f"suppressed, many, {classes} {most} {overlap} {spread}", lambda g, b=b, s=s, m=most, o=overlap: suppressed(g, b, s, m, o, 0.1))
    suite.case(f"suppressed, many, constant, {classes} {most} {overlap} {spread}", lambda g, b=b, s=s, m=most, o=overlap: g.op(
        "NonMaxSuppression", g.given(b), g.given(s), g.const(np.array([m], I64)), g.const(np.array([o], F32))))
suite.case("suppressed, centres", lambda g: suppressed(
    g, boxes(2, 15, 3, centre=True), random.uniform(0, 1, (2, 2, 15)).astype(F32), 4, 0.3, 0.2, center_point_box=1))
suite.case("suppressed, equal scores", lambda g: suppressed(g, boxes(1, 12, 4), np.full((1, 2, 12), 0.5, F32), 6, 0.4, 0.1))
TURNED = boxes(1, 10, 6)
TURNED[:, ::2] = TURNED[:, ::2, [2, 3, 0, 1]]
TURNED[:, 1] = TURNED[:, 0]  # the same box, turned
TURNED[:, 3, 2:] = TURNED[:, 3, :2]  # without area
suite.case("suppressed, turned", lambda g: suppressed(g, TURNED, random.uniform(0, 1, (1, 1, 10)).astype(F32), 10, 0.5))
HALF = np.array([[[0, 0, 2, 2], [0, 1, 2, 3], [0, 0, 2, 4], [5, 5, 6, 6]]], F32)  # shares of 1/3 and 1/2, on the threshold
for overlap in (1 / 3, 0.5, 0.4999):
    suite.case(f"suppressed, at {overlap:.4f}", lambda g, o=overlap: suppressed(
        g, HALF, np.array([[[0.9, 0.8, 0.7, 0.6]]], F32), 4, o))
suite.case("suppressed, none wanted", lambda g: g.op("NonMaxSuppression", g.given(boxes(1, 5)), g.given(np.ones((1, 1, 5), F32))))

# Places go on.
cases("rows", lambda g, m: chosen(g, m))
cases("rows, halves", lambda g, m: g.op("Mul", chosen(g, m, DATA.astype(F16)), g.const(np.array(3, F16))))
cases("rows, then elements", lambda g, m: g.Relu(g.Add(g.Mul(chosen(g, m), g.c(4)), g.c(1))))
cases("rows, then a product", lambda g, m: g.MatMul(chosen(g, m), g.c(4, 5)))
cases("rows, then Gemm", lambda g, m: g.Gemm(chosen(g, m), g.c(5, 4), g.c(5), transB=1))


def put(g, mask, older):
    """x[mask] = 7 as the current exporter writes it, which counts the mask, and x[mask] *= 2 as the older one does, which
    cuts the updates to as many as there are places."""
    one, given, data = g.const(np.array([0], I64)), g.given(mask), g.given(DATA)
    places = g.op("Transpose", g.op("NonZero", given), perm=[1, 0])
    if older:
        count = g.op("Unsqueeze", g.op("Gather", g.op("Shape", places), g.const(np.array(0, I64)), axis=0), one)
        twice = g.op("Mul", g.op("GatherND", data, places), g.const(np.array(2, F32)))
        return g.op("ScatterND", data, places, g.op("Slice", twice, one, count, one))
    count = g.op("ReduceSum", g.op("Cast", g.op("Reshape", given, g.const(np.array([-1], I64))), to=TensorProto.INT64), one, keepdims=1)
    if mask.ndim < DATA.ndim:
        count = g.op("Concat", count, g.const(np.array([4], I64)), axis=0)
    return g.op("ScatterND", data, places, g.op("Expand", g.const(np.array(7, F32)), count))


for older in (False, True):
    cases(f"put at rows {older}", lambda g, m, o=older: put(g, m, o))
    suite.case(f"put at elements {older}", lambda g, o=older: put(g, DATA > 0.3, o))
    suite.case(f"put at no element {older}", lambda g, o=older: put(g, DATA > 99, o))
cases("rows, turned", lambda g, m: g.op("Transpose", chosen(g, m), perm=[1, 0]))
cases("rows, as a list", lambda g, m: g.op("Reshape", chosen(g, m), g.ints(-1)))
cases("columns, as a list", lambda g, m: g.op("Reshape", g.op("Transpose", chosen(g, m), perm=[1, 0]), g.ints(-1)))
cases("rows, apart", lambda g, m: g.op("Reshape", chosen(g, m), g.ints(-1, 2, 2)))
cases("rows, a dimension more", lambda g, m: g.op("Squeeze", g.op("Unsqueeze", chosen(g, m), g.ints(1)), g.ints(1)))
cases("rows, columns of them", lambda g, m: g.op("Slice", chosen(g, m), g.ints(1), g.ints(3), g.ints(1)))
cases("rows with others beside them", lambda g, m: (lambda x: g.op("Concat", x, g.Neg(x), axis=1))(chosen(g, m)))
cases("rows behind rows", lambda g, m: (lambda x: g.op("Concat", x, g.given(DATA[:2]), g.Neg(x), axis=0))(chosen(g, m)))
cases("many behind each other", lambda g, m: (lambda x: g.op("Concat", *[x, g.Neg(x)] * 50, axis=0))(chosen(g, m)))
cases("one of two", lambda g, m: either(g, m))
cases("indices", lambda g, m: g.op("Gather", g.given(DATA), g.op("Squeeze", g.op("NonZero", g.given(m)), g.ints(0)), axis=0))
cases("indices plus one", lambda g, m: g.op("Gather", g.given(random.standard_normal(11).astype(F32)), g.Add(
    g.op("Squeeze", g.op("NonZero", g.given(m)), g.ints(0)), g.ints(2))))
cases("where", lambda g, m: (lambda x: g.op("Where", g.op("Greater", x, g.const(0.0)), x, g.const(-1.0)))(chosen(g, m)))
cases("same mask twice", lambda g, m: (lambda n: g.Sub(
    g.op("GatherND", g.given(DATA), g.op("Transpose", g.op("NonZero", n), perm=[1, 0])),
    g.op("GatherND", g.given(DATA[::-1].copy()), g.op("Transpose", g.op("NonZero", n), perm=[1, 0]))))(g.given(m)))
cases("rows of rows", lambda g, m: (lambda x: g.op("Compress", x, g.op("Greater", g.op("ReduceSum", x, g.ints(1), keepdims=0),
                                                                            g.const(0.0)), axis=0))(chosen(g, m)))
cases("not zero of rows", lambda g, m: g.op("NonZero", g.op("Greater", chosen(g, m), g.const(0.0))))
cases("different rows", lambda g, m: g.op("Unique", chosen(g, m, (DATA > 0).astype(I64)), axis=0, results=4))
cases("written", lambda g, m: (lambda p: g.op("ScatterND", g.given(DATA), p, g.Mul(g.op("GatherND", g.given(DATA), p), g.const(2.0))))(
    g.op("Transpose", g.op("NonZero", g.given(m)), perm=[1, 0])))

# What is reduced.
for op in ("ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2"):
    for axes, keeps in (((0,), 0), ((0, 1), 1), ((1,), 0)):
        cases(f"{op} {axes} {keeps}", lambda g, m, o=op, a=axes, k=keeps: g.op(o, chosen(g, m), g.ints(*a), keepdims=k), ("none", "some"))
for op in ("ReduceMax", "ReduceMin", "ReduceMean"):
    cases(op, lambda g, m, o=op: g.op(o, chosen(g, m), g.ints(0), keepdims=1), ("some", "all", "last"))
    cases(f"{op} of ints", lambda g, m, o=op: g.op(o, chosen(g, m, np.arange(36, dtype=np.int32).reshape(9, 4) - 7), g.ints(0)), ("some",))
cases("softmax", lambda g, m: g.op("Softmax", chosen(g, m), axis=0), ("some", "all", "last"))
cases("softmax of rows", lambda g, m: g.op("Softmax", chosen(g, m), axis=1))
cases("largest", lambda g, m: [g.op("ArgMax", chosen(g, m), axis=0), g.op("ArgMin", chosen(g, m), axis=0)], ("some", "all", "last"))
cases("product across", lambda g, m: (lambda x: g.MatMul(g.op("Transpose", x, perm=[1, 0]), x))(chosen(g, m)))
cases("infinities behind", lambda g, m: g.op("ReduceSum", g.op("Reciprocal", g.Abs(chosen(g, m))), g.ints(0)))
cases("product across, infinities behind", lambda g, m: (lambda x: g.MatMul(g.op("Transpose", g.op("Reciprocal", x), perm=[1, 0]), x))(
    chosen(g, m)))
cases("pairs", lambda g, m: (lambda x: g.MatMul(x, g.op("Transpose", x, perm=[1, 0])))(chosen(g, m)))
cases("pairs, summed", lambda g, m: (lambda x: g.op("ReduceSum", g.MatMul(x, g.op("Transpose", x, perm=[1, 0])), g.ints(1)))(chosen(g, m)))
cases("running sum", lambda g, m: [g.op("CumSum", chosen(g, m), g.const(np.array(0, I64)), reverse=r) for r in (0, 1)])
for largest in (0, 1):
    cases(f"best two {largest}", lambda g, m, b=largest: g.op("TopK", chosen(g, m), g.ints(2), axis=0, largest=b, results=2), ("some", "all"))
    cases(f"in order {largest}", lambda g, m, b=largest: (lambda x: g.op("TopK", x, g.op(
        "Min", g.op("Slice", g.op("Shape", x), g.ints(0), g.ints(1)), g.ints(6)), axis=0, largest=b, results=2))(chosen(g, m)))
cases("layer norm", lambda g, m: g.op("LayerNormalization", chosen(g, m), g.c(4), g.c(4)))

# Shapes.
cases("shape", lambda g, m: [g.op("Shape", chosen(g, m)), g.op("Size", chosen(g, m))])
cases("zeros alike", lambda g, m: g.op("ConstantOfShape", g.op("Shape", chosen(g, m))))
cases("ones alike", lambda g, m: (lambda x: g.Add(x, g.op("Expand", g.const(np.ones(1, F32)), g.op("Shape", x))))(chosen(g, m)))
cases("numbered", lambda g, m: (lambda x: g.op("Range", g.const(np.array(0, I64)), g.op("Gather", g.op("Shape", x), g.const(np.array(0, I64))),
                                               g.const(np.array(1, I64))))(chosen(g, m)))
cases("numbered by threes", lambda g, m: (lambda x: g.op("Range", g.const(np.array(1, I64)), g.op("Gather", g.op("Shape", x), g.const(np.array(0, I64))),
                                                         g.const(np.array(3, I64))))(chosen(g, m)))
cases("reshaped by its shape", lambda g, m: (lambda x: g.op("Reshape", x, g.op("Concat", g.op("Slice", g.op("Shape", x), g.ints(0), g.ints(1)),
                                                                               g.ints(2, 2), axis=0)))(chosen(g, m)))
cases("known among computed", lambda g, m: (lambda x: g.op("Expand", g.op("Reshape", g.op("Range", g.const(np.array(0, I64)), g.op(
    "Gather", g.op("Shape", x), g.const(np.array(1, I64))), g.const(np.array(1, I64))), g.ints(1, -1)), g.op("Shape", x)))(chosen(g, m)))
cases("regions", lambda g, m: (lambda n: g.op(
    "RoiAlign", g.given(random.standard_normal((1, 2, 8, 8)).astype(F32)), g.op("GatherND", g.given(np.abs(DATA)), g.op("Transpose", n, perm=[1, 0])),
    g.op("Squeeze", g.op("Mul", n, g.const(np.array(0, I64))), g.ints(0)), output_height=2, output_width=2, sampling_ratio=2))(
    g.op("NonZero", g.given(m))))
cases("last row", lambda g, m: g.op("Gather", chosen(g, m), g.const(np.array(-1, I64)), axis=0), ("some", "all", "last"))
for start, end in ((0, 3), (2, 100), (0, -1), (-2, 100), (1, -1)):
    cases(f"rows from {start} to {end}", lambda g, m, s=start, e=end: g.op("Slice", chosen(g, m), g.ints(s), g.ints(e), g.ints(0)))
for start, end, step in ((-1, -100, -1), (1, 100, 2), (0, 100, 3), (7, 0, -2), (-2, -5, -1), (0, -1, 2)):
    cases(f"rows from {start} to {end} by {step}", lambda g, m, s=start, e=end, t=step: g.op(
        "Slice", chosen(g, m), g.ints(s), g.ints(e), g.ints(0), g.ints(t)))
cases("columns backwards", lambda g, m: g.op("Slice", chosen(g, m), g.ints(-1), g.ints(-100), g.ints(1), g.ints(-2)))
TRIPLES = {"none": np.zeros(9, bool), "three": np.isin(np.arange(9), (1, 4, 8)), "six": np.isin(np.arange(9), (0, 1, 3, 4, 5, 8)),
           "all": np.ones(9, bool)}
cases("as many in each group", lambda g, m: (lambda x: [x, g.op("Gather", x, g.const(np.array(-1, I64)), axis=1), g.op(
    "ReduceSum", x, g.ints(1), keepdims=0)])(g.op("Reshape", g.op("Concat", chosen(g, m), chosen(g, m), axis=0), g.ints(2, -1, 4))),
    ("some", "all", "last"))
for shape in ((3, -1, 4), (3, -1), (-1, 3), (-1, 2, 6), (3, 2, -1), (2, 2, -1, 3), (6, -1), (-1, 12)):
    cases(f"in groups {shape}", lambda g, m, s=shape: g.op("Reshape", chosen(g, m), g.ints(*s)), TRIPLES)
cases("in groups behind others", lambda g, m: g.op("Reshape", g.op("Compress", g.given(random.standard_normal((2, 9, 5)).astype(F32)), g.given(
    m), axis=1), g.ints(2, 3, -1, 5)), TRIPLES)
cases("rows over and over", lambda g, m: g.op("Tile", chosen(g, m), g.ints(3, 2)))
cases("columns over and over", lambda g, m: g.op("Tile", g.op("Transpose", chosen(g, m), perm=[1, 0]), g.ints(1, 3)))
cases("a middle dimension over and over", lambda g, m: g.op("Tile", g.op("Compress", g.given(random.standard_normal((2, 9, 5)).astype(F32)), g.given(
    m), axis=1), g.ints(1, 2, 1)))
cases("a middle dimension with the first", lambda g, m: g.op("Reshape", g.op("Compress", g.given(random.standard_normal((2, 9, 5)).astype(
    F32)), g.given(m), axis=1), g.ints(-1, 5)))
for upper, k in ((0, 0), (1, 1), (0, -2)):
    cases(f"triangle {upper} {k}", lambda g, m, u=upper, k=k: (lambda x: g.op("Trilu", g.MatMul(x, g.op(
        "Transpose", x, perm=[1, 0])), g.const(np.array(k, I64)), upper=u))(chosen(g, m)))
for equation in ("ij,kj->ik", "ij,ik->jk", "ij,ij->i", "ij,ij->", "ji,ji->", "ij,ij->j"):
    cases(f"by labels {equation}", lambda g, m, e=equation: (lambda x: g.op("Einsum", x, x, equation=e))(chosen(g, m)))
cases("by labels, one", lambda g, m: g.op("Einsum", chosen(g, m), equation="ij->ji"))
cases("by labels, three", lambda g, m: g.op("Einsum", chosen(g, m), g.c(4, 3), g.c(3), equation="ij,jk,k->ik"))
cases("framed", lambda g, m: g.op("Pad", chosen(g, m), g.ints(0, 1, 0, 2)))
cases("as many of others", lambda g, m: (lambda x: g.op("Slice", g.given(DATA[::-1].copy()), g.ints(0), g.op("Slice", g.op("Shape", x), g.ints(0),
                                                                                                          g.ints(1)), g.ints(0)))(chosen(g, m)))
suite.finish()
