# Values that are cut in one way and wanted in another, on 2, 3 and 4 ranks and with sizes that do not divide: every pair of
# shardings of one tensor, asked for by `--shard`; the same with an op in between (products that leave partial sums, shape
# ops, rows, windows); every element type; and reshapes between all factorings, cut as the random solver says. Against
# ONNX Runtime.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import itertools
import sys
import zlib

sys.path.insert(0, sys.argv.pop(2))
from onnx_cases import Suite

suite = Suite("reshards", sys.argv, pack=40)
MESHES = {"2": (("--devices=cpu:2", "--mesh=a=2"), "a"), "3": (("--devices=cpu:3", "--mesh=a=3"), "a"),
          "4": (("--devices=cpu:4", "--mesh=a=4"), "a"), "2x2": (("--devices=cpu:4", "--mesh=a=2,b=2"), "ab")}
# Sizes that are not divided, with at most a quarter of padding, of which nothing more is cut.
SIZES = {"2": (7, 9, 5, 11), "3": (8, 5, 7, 11), "4": (7, 11, 10, 15), "2x2": (7, 11, 10, 15)}


def shardings(rank, axes):
    """Every axis cuts one dimension or none."""
    for places in itertools.product(range(-1, rank), repeat=len(axes)):
        dims = [",".join(axis for axis, place in zip(axes, places) if place == d) for d in range(rank)]
        yield "[" + ",".join("{" + dim + "}" for dim in dims) + "]"


def some(most, *key):
    """Keeps about one in eight times `most` of a product, always the same; everything with --full."""
    return suite.full or zlib.crc32(repr(key).encode()) % (8 * most) == 0


def start(g, *shape):
    """A value that is this case's alone: equal ones would be merged, with their hints."""
    return g.Mul(g.x(*shape), g.c(1))


def case(name, build, mesh):
    suite.case(f"{mesh}: {name}", build, plans=(MESHES[mesh][0],))


# One tensor, every pair.
for mesh, rank in itertools.product(MESHES, (1, 2, 3, 4)):
    for before, after in itertools.product(shardings(rank, MESHES[mesh][1]), repeat=2):
        if some(1 if rank < 3 else 3 if rank == 3 else 8, mesh, before, after):
            case(f"{before} to {after}", lambda g, m=mesh, r=rank, a=before, b=after: g.Neg(g.cut(g.Abs(g.cut(start(
                g, *SIZES[m][:r]), a)), b)), mesh)
# Types.
for mesh, (dtype, kind) in itertools.product(("3", "2x2"), (("int64", 7), ("int32", 6), ("float64", 11), ("float16", 10),
                                                            ("bool", 9), ("uint8", 2), ("int8", 3))):
    for before, after in itertools.product(shardings(2, MESHES[mesh][1]), repeat=2):
        if some(4, mesh, dtype, before, after):
            case(f"{dtype} {before} to {after}", lambda g, m=mesh, t=kind, a=before, b=after: g.Cast(g.cut(g.Transpose(g.cut(
                g.Cast(start(g, *SIZES[m][:2]), to=t), a), perm=[1, 0]), b), to=1) , mesh)


# What stands between.
def matmul(g, m, a, b):
    return g.MatMul(g.cut(start(g, *SIZES[m][:2]), a), g.c(SIZES[m][1], SIZES[m][2]))


def both(g, m, a, b):
    return g.MatMul(g.cut(start(g, *SIZES[m][:2]), a), g.cut(start(g, *SIZES[m][1:3]), b))


def shape_op(make):
    return lambda g, m, a, b: make(g, g.cut(start(g, *SIZES[m][:2]), a), SIZES[m])


BETWEEN = {
    "product": matmul, "product of two": both,
    "product, relu": lambda g, m, a, b: g.Relu(matmul(g, m, a, b)),
    "product and bias": lambda g, m, a, b: g.Add(matmul(g, m, a, b), g.c(SIZES[m][2])),
    "gram": lambda g, m, a, b: (lambda y: g.MatMul(y, g.Transpose(y, perm=[1, 0])))(g.cut(start(g, *SIZES[m][:2]), a)),
    "transpose": shape_op(lambda g, y, s: g.Transpose(y, perm=[1, 0])),
    "slice": shape_op(lambda g, y, s: g.Slice(y, g.ints(1, 2), g.ints(s[0], s[1]), g.ints(0, 1))),
    "second": shape_op(lambda g, y, s: g.Slice(y, g.ints(1), g.ints(100), g.ints(1), g.ints(2))),
    "concat 0": shape_op(lambda g, y, s: g.Concat(y, g.Neg(y), axis=0)),
    "concat 1": shape_op(lambda g, y, s: g.Concat(y, g.Neg(y), g.x(*s[:2]), axis=1)),
    "pad": shape_op(lambda g, y, s: g.Pad(y, g.ints(1, 0, 2, 1), g.const(0.5))),
    "row": shape_op(lambda g, y, s: g.Add(y, g.ReduceSum(y, g.ints(0), keepdims=1))),
    "column": shape_op(lambda g, y, s: g.Sub(g.ReduceMax(y, g.ints(1), keepdims=1), y)),
    "product of a row": shape_op(lambda g, y, s: g.Mul(y, g.ReduceProd(y, g.ints(0), keepdims=1))),
    "mean": shape_op(lambda g, y, s: g.Sub(y, g.ReduceMean(y, g.ints(0, 1), keepdims=1))),
    "softmax 0": shape_op(lambda g, y, s: g.Softmax(y, axis=0)),
    "softmax 1": shape_op(lambda g, y, s: g.Softmax(y, axis=1)),
    "layer norm": shape_op(lambda g, y, s: g.LayerNormalization(y, g.c(s[1]), g.c(s[1]), axis=-1)),
    "gather 0": shape_op(lambda g, y, s: g.Gather(y, g.ints(3, 0, 2, 1, 5, 3, 3), axis=0)),
    "gather 1": shape_op(lambda g, y, s: g.Gather(y, g.ints(3, 0, 2, 1, 4, 3, 3), axis=1)),
    "cumulated": shape_op(lambda g, y, s: g.CumSum(y, g.const(1))),
    "argmax": shape_op(lambda g, y, s: g.Add(y, g.Cast(g.ArgMax(y, axis=1, keepdims=1), to=1))),
    "outer": shape_op(lambda g, y, s: g.Mul(y, g.ReduceSum(g.Transpose(y, perm=[1, 0]), g.ints(0), keepdims=0)) if s[0] == s[1]
                      else g.Mul(y, g.Unsqueeze(g.ReduceSum(y, g.ints(1), keepdims=0), g.ints(1)))),
    "expand": shape_op(lambda g, y, s: g.ReduceSum(g.Mul(g.Expand(g.Unsqueeze(y, g.ints(0)), g.ints(3, *s[:2])), g.c(3, 1, 1)),
                                                   g.ints(0), keepdims=0)),
}
for mesh, (name, make) in itertools.product(MESHES, BETWEEN.items()):
    for before, after, third in itertools.product(shardings(2, MESHES[mesh][1]), repeat=3):
        if name != "product of two" and third != before:
            continue
        if not some({"2": 1, "3": 1, "4": 2, "2x2": 8}[mesh] * (3 if name == "product of two" else 1), mesh, name, before,
                    after, third):
            continue
        case(f"{name} {before} {third} to {after}",
             lambda g, m=mesh, f=make, a=before, b=third, c=after: g.Abs(g.cut(f(g, m, a, b), c)), mesh)


# Two partial sums that are multiplied: only one of them may stay partial.
for kind, turn in itertools.product(("Mul", "MatMul", "Div", "Add", "Max"), range(4)):
    suite.case(f"{kind} of two products, {turn}", lambda g, k=kind: g.op(
        k, g.MatMul(g.x(8, 8), g.c(8, 8)), g.MatMul(g.x(8, 8, tag=1), g.c(8, 8, kind="positive")) if k != "Div" else g.MatMul(
            g.x(8, 8, kind="positive"), g.c(8, 8, kind="positive"))),
        plans=tuple(("--devices=cpu:4", "--solver=random", f"--seed={seed}") for seed in range(40 if suite.full else 4)))


# Reshapes between all factorings, as the random solver cuts them.
def factorings(count, rank):
    if rank == 1:
        yield (count,)
        return
    for first in range(1, count + 1):
        if count % first == 0:
            for rest in factorings(count // first, rank - 1):
                yield (first, *rest)


RANDOM = [(f"--devices=cpu:{ranks}", "--solver=random", f"--seed={seed}") for ranks in (2, 3, 4)
          for seed in (range(8) if suite.full else (1, 2))]


def drawn(turn):
    """Every plan with --full; else one of them in turn."""
    return tuple(RANDOM) if suite.full else (RANDOM[turn % 6],)


chosen = []
for count in (24, 30, 36, 240):
    shapes = [shape for rank in (1, 2, 3, 4) for shape in factorings(count, rank) if rank < 4 or shape.count(1) < 2]
    most = {24: 60, 30: 60, 36: 200, 240: 20000}[count] // (10 if suite.full else 1)
    chosen += [each for each in itertools.product(shapes, shapes)
               if each[0] != each[1] and zlib.crc32(repr(each).encode()) % most == 0]
for turn, (before, after) in enumerate(chosen):
    suite.case(f"reshape {before} to {after}", lambda g, a=before, b=after: g.Neg(g.Reshape(start(
        g, *a), g.ints(*b))), plans=drawn(turn))
    if len(before) > 1:
        suite.case(f"reshape {before} to {after}, transposed", lambda g, a=before, b=after: g.Reshape(g.Transpose(start(
            g, *a), perm=list(range(len(a)))[::-1]), g.ints(*b)), plans=drawn(turn + 1))
suite.finish()
