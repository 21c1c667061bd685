# Matrix products of every rank whose operands are views of others (transposed, sliced, repeated, joined, reshaped), are
# constants on either side, or are one and the same; Gemm and Einsum in every form; convolutions of views. Against ONNX Runtime.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import itertools
import math
import sys
import zlib

sys.path.insert(0, sys.argv.pop(2))
from onnx_cases import Suite, covering

suite = Suite("operands", sys.argv, spread=8)
M, K, N = 5, 6, 7


def permuted(g, shape, perm, make):
    """A value of `shape` that is the transpose of another."""
    source = [0] * len(shape)
    for to, origin in enumerate(perm):
        source[origin] = shape[to]
    return g.Transpose(make(*source), perm=list(perm))


def views(rank):
    """name -> function of (graph, shape, make) that gives a value of the shape."""
    found = {"plain": lambda g, s, make: make(*s)}
    for perm in itertools.permutations(range(rank)):
        if perm != tuple(range(rank)):
            found["transpose " + "".join(map(str, perm))] = lambda g, s, make, p=perm: permuted(g, s, p, make)
    found["slice of columns"] = lambda g, s, make: g.Slice(make(*s[:-1], s[-1] + 3), g.ints(2), g.ints(s[-1] + 2), g.ints(-1))
    found["slice of rows"] = lambda g, s, make: g.Slice(make(*s[:-2], s[-2] + 3, s[-1]), g.ints(1), g.ints(s[-2] + 1), g.ints(-2))
    found["every second column"] = lambda g, s, make: g.Slice(
        make(*s[:-1], 2 * s[-1]), g.ints(1), g.ints(2 * s[-1]), g.ints(-1), g.ints(2))
    found["every second row"] = lambda g, s, make: g.Slice(
        make(*s[:-2], 2 * s[-2], s[-1]), g.ints(0), g.ints(2 * s[-2]), g.ints(-2), g.ints(2))
    found["reversed"] = lambda g, s, make: g.Slice(make(*s), g.ints(-1), g.ints(-1000), g.ints(-1), g.ints(-1))
    found["split"] = lambda g, s, make: g.op("Split", make(*s[:-1], 2 * s[-1]), axis=-1, num_outputs=2, results=2)[1]
    found["joined rows"] = lambda g, s, make: g.Concat(make(*s[:-2], 2, s[-1]), make(*s[:-2], s[-2] - 2, s[-1]), axis=-2)
    found["repeated column"] = lambda g, s, make: g.Expand(make(*s[:-1], 1), g.ints(*s))
    found["repeated row"] = lambda g, s, make: g.Expand(make(*s[:-2], 1, s[-1]), g.ints(*s))
    found["flat"] = lambda g, s, make: g.Reshape(make(math.prod(s)), g.ints(*s))
    found["elementwise"] = lambda g, s, make: g.Tanh(make(*s))
    found["one column"] = lambda g, s, make: g.Gather(make(*s, 3), g.const(1), axis=rank)
    if rank > 2:
        found["repeated batch"] = lambda g, s, make: g.Expand(make(1, *s[1:]), g.ints(*s))
        found["slice of batch"] = lambda g, s, make: g.Slice(make(s[0] + 2, *s[1:]), g.ints(1), g.ints(s[0] + 1), g.ints(0))
        found["heads"] = lambda g, s, make: g.Transpose(
            g.Reshape(make(*s[:-3], s[-2], s[-3] * s[-1]), g.ints(*s[:-3], s[-2], s[-3], s[-1])),
            perm=list(range(rank - 3)) + [rank - 2, rank - 3, rank - 1])
    return found


BATCHES = {2: [((), ())], 3: [((2,), (2,)), ((1,), (3,)), ((2,), ()), ((), (2,))],
           4: [((2, 3), (2, 3)), ((2, 1), (1, 3)), ((2, 3), (3,)), ((1, 3), (2, 1)), ((1, 1), (1, 1)), ((2, 3), (1, 1))]}
for rank, batches in BATCHES.items():
    for left, right in batches:
        lefts, rights = (views(len(each) + 2) for each in (left, right))
        for (a, one), (b, two) in itertools.product(lefts.items(), rights.items()):
            for constant in ("none", "left", "right"):
                if not suite.full and a != "plain" != b and zlib.crc32(repr((left, right, a, b, constant)).encode()) % 16:
                    continue
                # Which side is a constant: in turn, but for matrices alone.
                turn = zlib.crc32(repr((a, b, left, right)).encode())
                if not suite.full and rank > 2 and (("none", "left", "right")[turn % 3] != constant or
                                                    rank == 4 and turn // 3 % 2):
                    continue

                def build(g, left=left, right=right, one=one, two=two, constant=constant):
                    def source(which):
                        if constant == which:
                            return g.c
                        return lambda *shape: g.x(*shape, tag=(g.case, which))
                    return g.MatMul(one(g, (*left, M, K), source("left")), two(g, (*right, K, N), source("right")))
                suite.case(f"{left} {a} times {right} {b}, constant {constant}", build)
# Vectors, single rows and columns, one product only.
for a, b in itertools.product(((), (1,), (4,), (2, 3)), repeat=2):
    for m, k, n in ((1, K, 1), (1, K, N), (M, K, 1), (M, 1, N), (1, 1, 1), (17, 33, 18)):
        if a and b and len(a) == len(b) and not all(i == j or 1 in (i, j) for i, j in zip(a, b)):
            continue
        if a and b and len(a) != len(b) and not (a[-1] == b[-1] or 1 in (a[-1], b[-1])):
            continue
        suite.case(f"{a}x{m}x{k} times {b}x{k}x{n}", lambda g, a=a, b=b, m=m, k=k, n=n: g.MatMul(
            g.x(*a, m, k), g.x(*b, k, n, tag=g.case)))
suite.case("vector times matrix", lambda g: g.MatMul(g.x(K), g.x(K, N, tag=g.case)))
suite.case("matrix times vector", lambda g: g.MatMul(g.x(M, K, tag=g.case), g.x(K)))
suite.case("vector times vector", lambda g: g.MatMul(g.x(K), g.x(K, tag=g.case)))
suite.case("vector times batch", lambda g: g.MatMul(g.x(K), g.x(2, K, N, tag=g.case)))
suite.case("batch times vector", lambda g: g.MatMul(g.x(2, M, K, tag=g.case), g.x(K)))
# The same operand on both sides.
for rank, shape in ((2, (5, 5)), (3, (2, 5, 5)), (4, (2, 3, 5, 5))):
    for (a, one), (b, two) in itertools.product(views(rank).items(), repeat=2):
        if any(word in a + b for word in ("slice", "second", "split", "joined", "repeated", "heads", "flat", "one")):
            continue
        if rank == 4 and not suite.full and zlib.crc32((a + b).encode()) % 6:
            continue
        swap = "transpose " + "".join(map(str, [*range(rank - 2), rank - 1, rank - 2]))
        if any(each.startswith("transpose") and each != swap for each in (a, b)):
            continue  # another shape
        suite.case(f"itself {shape} {a} times {b}",
                   lambda g, s=shape, one=one, two=two: (lambda y: g.MatMul(one(g, s, lambda *_: y), two(g, s, lambda *_: y)))(
                       g.x(*s, tag=g.case)))
# Gemm.
GEMM = ((0, 1), (0, 1), (1.0, 0.5, 0.0), (1.0, -2.0, 0.0), ("none", (), (1,), (N,), (M, 1), (1, N), (M, N), (1, 1)),
        ("constant", "value"))
for ta, tb, alpha, beta, c, batch in itertools.product(*GEMM) if suite.full else covering(GEMM):
    suite.case(f"Gemm transA {ta} transB {tb} alpha {alpha} beta {beta} C {c} {batch}",
               lambda g, ta=ta, tb=tb, alpha=alpha, beta=beta, c=c, k=batch: g.op(
                   "Gemm", g.x(*((K, M) if ta else (M, K))),
                   *([g.c(*((N, K) if tb else (K, N)))] if k == "constant" else [g.x(*((N, K) if tb else (K, N)), tag=g.case)]),
                   *([] if c == "none" else [g.c(*c)] if k == "constant" else [g.x(*c, tag=g.case)]),
                   transA=ta, transB=tb, alpha=alpha, beta=beta))
EINSUM = {
    "ij,jk->ik": ((4, 5), (5, 6)), "ij,kj->ik": ((4, 5), (6, 5)), "ji,jk->ki": ((5, 4), (5, 6)), "bij,bjk->bik": ((2, 4, 5), (2, 5, 6)),
    "bhid,bhjd->bhij": ((2, 3, 4, 5), (2, 3, 6, 5)), "bihd,bjhd->bhij": ((2, 4, 3, 5), (2, 6, 3, 5)),
    "bhij,bjhd->bihd": ((2, 3, 4, 6), (2, 6, 3, 5)), "bid,hde->bhie": ((2, 4, 5), (3, 5, 6)), "i,j->ij": ((4,), (5,)),
    "i,i->": ((5,), (5,)), "ij,ij->i": ((4, 5), (4, 5)), "bij,k->bijk": ((2, 3, 4), (5,)), "abc,cd->abd": ((2, 3, 4), (4, 5)),
    "abc,adc->abd": ((2, 3, 4), (2, 5, 4)), "abc,abd->cd": ((2, 3, 4), (2, 3, 5)), "ij->ji": ((4, 5),), "ij->j": ((4, 5),),
    "bthd,hde->bte": ((2, 4, 3, 5), (3, 5, 6)), "abcd,d->abc": ((2, 3, 4, 5), (5,)), "...ij,...jk->...ik": ((2, 3, 4), (2, 4, 5)),
    "...ij,jk": ((2, 3, 4), (4, 5)), "ab,bc,cd->ad": ((2, 3), (3, 4), (4, 5)), "bqhd,bkhd->bhqk": ((1, 4, 2, 8), (1, 5, 2, 8)),
}
for equation, shapes in EINSUM.items():
    for constant in (False, True):
        suite.case(f"Einsum {equation}{' of a constant' if constant else ''}", lambda g, e=equation, s=shapes, c=constant: g.op(
            "Einsum", *(g.x(*each, tag=(g.case, at)) if not (c and at) else g.c(*each) for at, each in enumerate(s)), equation=e))
# Types: those that no library takes.
for kind, to in (("float64", 11), ("float16", 10), ("int32", 6), ("int64", 7), ("uint32", 12), ("uint64", 13)):
    suite.case(f"MatMul of {kind}", lambda g, t=to: g.Cast(g.MatMul(
        g.Cast(g.x(3, 5, dtype="int32", kind=g.case), to=t), g.Cast(g.const([[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]], "int32"), to=t)), to=1)
        if t < 12 else g.MatMul(g.x(3, 5, dtype="uint32" if t == 12 else "uint64"),
                                g.x(5, 2, dtype="uint32" if t == 12 else "uint64", tag=g.case)))
# One product split for many, and many of one operand.
suite.case("queries, keys and values of one product", lambda g: tuple(
    g.Transpose(g.Reshape(part, g.ints(2, 5, 2, 4)), perm=[0, 2, 1, 3])
    for part in g.op("Split", g.Add(g.MatMul(g.x(2, 5, 8), g.c(8, 24)), g.c(24)), axis=-1, num_outputs=3, results=3)))
suite.case("attention of one product", lambda g: (lambda q, k, v: g.MatMul(g.Softmax(g.MatMul(q, g.Transpose(
    k, perm=[0, 1, 3, 2]))), v))(*(g.Squeeze(part, g.ints(0)) for part in g.op("Split", g.Transpose(g.Reshape(g.MatMul(
        g.x(2, 5, 8), g.c(8, 24)), g.ints(2, 5, 3, 2, 4)), perm=[2, 0, 3, 1, 4]), axis=0, num_outputs=3, results=3))))
suite.case("gate and up", lambda g: (lambda x: g.Mul((lambda y: g.Mul(y, g.Sigmoid(y)))(g.MatMul(x, g.c(8, 16))), g.MatMul(
    x, g.c(8, 16))))(g.x(2, 5, 8)))
suite.case("chain", lambda g: g.MatMul(g.MatMul(g.MatMul(g.x(5, 8), g.c(8, 3)), g.c(3, 9)), g.c(9, 2)))
# Convolutions whose operands are views. `images` have batch and channel in front, as ONNX has it.
for spatial, kernel, channels, filters, groups in (((5,), (3,), 4, 6, 1), ((5, 4), (1, 1), 4, 3, 1), ((5, 4), (3, 3), 4, 6, 2),
                                                   ((4, 4), (3, 3), 4, 4, 4), ((3, 4, 5), (2, 2, 2), 2, 3, 1)):
    image, weights = (2, channels, *spatial), (filters, channels // groups, *kernel)
    for (a, one), (b, two) in itertools.product(views(len(image)).items(), views(len(weights)).items()):
        if b == "joined rows" and weights[-2] < 2:
            continue
        if "plain" not in (a, b) and not suite.full and zlib.crc32(f"{a} {b} {spatial}".encode()) % 32:
            continue
        if not suite.full and zlib.crc32(f"{a} {b}".encode()) % {3: 1, 4: 3, 5: 8}[len(image)]:
            continue
        for constant in (False, True):
            if not suite.full and constant != bool(zlib.crc32(f"{b} {a} {image}".encode()) % 2):
                continue

            def build(g, one=one, two=two, image=image, weights=weights, constant=constant, groups=groups):
                return g.Conv(one(g, image, lambda *shape: g.x(*shape, tag=(g.case, "image"))),
                              two(g, weights, g.c if constant else lambda *shape: g.x(*shape, tag=(g.case, "weights"))),
                              group=groups)
            suite.case(f"Conv {image} {a}, {weights} {b}{' constant' if constant else ''}", build)
suite.finish()
