# What follows a product, in every order: bias and operands of every shape and position, activations, shape ops in
# between, results that are used twice; against ONNX Runtime. `--full` is the whole product, otherwise a part of it in
# which every pair of values of two of its factors occurs: of all activations directly behind the product, of three with
# shape ops in between, of which some transpositions stand for all.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import itertools
import math
import sys
import zlib

import numpy as np

sys.path.insert(0, sys.argv.pop(2))
from onnx_cases import Graph, Suite, covering

suite = Suite("epilogues", sys.argv, spread=8)

# Products: name -> (rank of the result, function of the graph and the batch). Sizes differ in every dimension.
PRODUCTS = {
    "matmul": lambda g, b: (g.MatMul(g.x(3 * b, 5), g.c(5, 8)), (3 * b, 8)),
    "gemm": lambda g, b: (g.Gemm(g.x(3 * b, 5), g.c(8, 5), g.c(8), transB=1), (3 * b, 8)),
    "gemm aB": lambda g, b: (g.Gemm(g.x(5, 3 * b), g.c(5, 7), g.c(3 * b, 1), transA=1, alpha=0.5, beta=2.0), (3 * b, 7)),
    "matmul3": lambda g, b: (g.MatMul(g.x(b, 3, 5), g.c(5, 8)), (b, 3, 8)),
    "batched": lambda g, b: (g.MatMul(g.x(b, 4, 3, 5), g.x(b, 4, 5, 7, tag=g.case)), (b, 4, 3, 7)),
    "left": lambda g, b: (g.MatMul(g.c(6, 5), g.x(b, 5, 7)), (b, 6, 7)),
    "shared right": lambda g, b: (g.MatMul(g.x(b, 4, 3, 5), g.x(b, 1, 5, 7, tag=g.case)), (b, 4, 3, 7)),
    # Sizes of the kernels of our own, which multiply values, and of blocks with a rest.
    "values": lambda g, b: (g.MatMul(g.x(20 * b, 18), g.x(18, 34, tag=g.case)), (20 * b, 34)),
    "values transposed": lambda g, b: (
        g.MatMul(g.Transpose(g.x(17, 20), perm=[1, 0]), g.Transpose(g.x(20 * b, 17, tag=g.case), perm=[1, 0])), (20, 20 * b)),
    "rows of values": lambda g, b: (g.MatMul(g.x(b, 9, 18), g.x(18, 20, tag=g.case)), (b, 9, 20)),
    "wide": lambda g, b: (g.MatMul(g.x(b, 17, 33), g.c(33, 50)), (b, 17, 50)),
    "double": lambda g, b: (g.Cast(g.MatMul(g.Cast(g.x(3 * b, 5), to=11), g.Cast(g.c(5, 8), to=11)), to=1), (3 * b, 8)),
    "conv1": lambda g, b: (g.Conv(g.x(b, 3, 9), g.c(8, 3, 3), g.c(8), pads=[1, 1]), (b, 8, 9)),
    "conv2": lambda g, b: (g.Conv(g.x(b, 3, 6, 5), g.c(8, 3, 3, 3), pads=[1, 1, 1, 1]), (b, 8, 6, 5)),
    "conv2 1x1": lambda g, b: (g.Conv(g.x(b, 4, 6, 5), g.c(7, 4, 1, 1), g.c(7)), (b, 7, 6, 5)),
    "conv2 wide": lambda g, b: (g.Conv(g.x(b, 16, 6, 5), g.c(18, 16, 3, 3), g.c(18), strides=[1, 1], pads=[1, 1, 1, 1]),
                                (b, 18, 6, 5)),
    "depthwise": lambda g, b: (g.Conv(g.x(b, 8, 6, 5), g.c(8, 1, 3, 3), g.c(8), group=8, pads=[0, 1, 2, 1]), (b, 8, 6, 5)),
    "conv3": lambda g, b: (g.Conv(g.x(b, 2, 3, 4, 5), g.c(6, 2, 1, 3, 3), pads=[0, 1, 1, 0, 1, 1]), (b, 6, 3, 4, 5)),
}

# Operands beside a result of `shape`: which dimensions they have.
def operands(shape):
    rank = len(shape)
    found = {
        "full": shape, "scalar": (), "one": (1,), "last": shape[-1:],
        "per row": shape[-2:-1] + (1,), "last two": shape[-2:],
        "lead": (shape[0],) + (1,) * (rank - 1),
        "unit rank": (1,) * rank,
        "last of full rank": (1,) * (rank - 1) + shape[-1:],
    }
    if rank > 2:
        found["per channel"] = (shape[1],) + (1,) * (rank - 2)
        found["without lead"] = shape[1:]
        found["channel and last"] = (1, shape[1]) + (1,) * (rank - 3) + shape[-1:]
        found["lead and channel"] = shape[:2] + (1,) * (rank - 2)
    return found


BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
OPERANDS = ("full", "scalar", "one", "last", "per row", "last two", "lead", "unit rank", "last of full rank",
            "per channel", "without lead", "channel and last", "lead and channel")


def square(g, y):
    return g.Mul(y, y)


UNARY = {
    "none": lambda g, y: y,
    "Relu": lambda g, y: g.Relu(y),
    "LeakyRelu": lambda g, y: g.LeakyRelu(y, alpha=0.1),
    "Clip": lambda g, y: g.Clip(y, g.const(-0.7), g.const(0.9)),
    "Relu6": lambda g, y: g.Clip(y, g.const(0.0), g.const(6.0)),
    "Gelu": lambda g, y: g.Gelu(y),
    "GeluTanh": lambda g, y: g.Gelu(y, approximate="tanh"),
    "Silu": lambda g, y: g.Mul(y, g.Sigmoid(y)),
    "Tanh": lambda g, y: g.Tanh(y),
    "Sigmoid": lambda g, y: g.Sigmoid(y),
    "Elu": lambda g, y: g.Elu(y, alpha=0.7),
    "HardSwish": lambda g, y: g.HardSwish(y),
    "HardSigmoid": lambda g, y: g.HardSigmoid(y, alpha=0.3, beta=0.4),
    "Exp": lambda g, y: g.Exp(g.Mul(y, g.const(0.25))),
    "Abs": lambda g, y: g.Abs(y),
    "Sqrt": lambda g, y: g.Sqrt(g.Abs(y)),
    "square": square,
    "Neg": lambda g, y: g.Neg(y),
    "Softplus": lambda g, y: g.Softplus(y),
    "linear": lambda g, y: g.Sub(g.const(0.3), g.Mul(g.Neg(y), g.const(1.5))),
}


def shapes_between(shape):
    """name -> (function, shape behind it): what can stand between the product and what follows."""
    rank, found = len(shape), {"none": (lambda g, y: y, shape)}
    for perm in itertools.permutations(range(rank)):
        if perm != tuple(range(rank)) and (rank < 5 or perm in ((0, 2, 3, 4, 1), (4, 3, 2, 1, 0), (1, 0, 2, 3, 4))):
            found["transpose " + "".join(map(str, perm))] = (
                lambda g, y, perm=perm: g.Transpose(y, perm=list(perm)), tuple(shape[d] for d in perm))
    flat = (shape[0], math.prod(shape[1:]))
    found["flatten"] = (lambda g, y: g.Reshape(y, g.ints(*flat)), flat)
    merged = (shape[0] * shape[1],) + shape[2:] if rank > 2 else (1,) + shape
    found["merge"] = (lambda g, y: g.Reshape(y, g.ints(*merged)), merged)
    if shape[-1] % 2 == 0:
        parts = shape[:-1] + (2, shape[-1] // 2)
        found["heads"] = (lambda g, y: g.Reshape(y, g.ints(*parts)), parts)
        perm = list(range(rank - 2)) + [rank - 1, rank - 2, rank]
        if rank >= 2:
            found["heads transposed"] = (lambda g, y: g.Transpose(g.Reshape(y, g.ints(*parts)), perm=perm),
                                         tuple(parts[d] for d in perm))
    cut = shape[:-1] + (shape[-1] - 2,)
    found["slice last"] = (lambda g, y: g.Slice(y, g.ints(1), g.ints(shape[-1] - 1), g.ints(rank - 1)), cut)
    first = shape[:1] + (shape[1] - 1,) + shape[2:] if shape[1] > 1 else shape
    found["slice 1"] = (lambda g, y: g.Slice(y, g.ints(0), g.ints(first[1]), g.ints(1)), first)
    half = shape[:-1] + (shape[-1] - 3,)
    found["split"] = (lambda g, y: g.op("Split", y, g.ints(3, shape[-1] - 3), axis=rank - 1, results=2)[1], half)
    found["concat"] = (lambda g, y: g.Concat(y, g.x(*shape, tag="beside"), axis=rank - 1),
                       shape[:-1] + (2 * shape[-1],))
    return found


USES = {
    "once": lambda g, y, z: z,
    "and product": lambda g, y, z: (z, y),  # the product is an output as well
    "and read": lambda g, y, z: (z, g.Tanh(y)),
}


def add(product, batch, between, kind, operand, side, constant, activation, use, before):
    """One case of the product of all factors, or none where the factors do not meet."""
    _, shape = PRODUCTS[product](Graph(), batch)
    forms = shapes_between(shape)
    if between not in forms:
        return
    make, behind = forms[between]
    shapes = operands(behind)
    if operand != "self" and operand not in shapes:
        return

    def build(g):
        first, _ = PRODUCTS[product](g, batch)
        y = UNARY[activation](g, first) if before else first
        y = make(g, y)
        if operand == "self":
            other = y
        elif constant:
            other = g.c(*shapes[operand], kind="positive" if kind == "Div" else "normal")
        else:
            other = g.x(*shapes[operand], kind="positive" if kind == "Div" else "normal", tag="operand")
        if kind == "Div" and (side == "right" or operand == "self"):  # nothing near zero is divided by
            y = g.Add(g.Abs(y), g.const(0.5))
            other = y if operand == "self" else other
        z = g.op(kind, *((y, other) if side == "left" else (other, y)))
        if not before:
            z = UNARY[activation](g, z)
        return USES[use](g, first, z)

    suite.case(f"{product} batch {batch} | {between} | {kind} {'constant' if constant else 'value'} {operand} "
               f"(product {side}) | {activation} {'before' if before else 'after'} | {use}", build)


BETWEEN = sorted({name for product in PRODUCTS.values()
                  for name in shapes_between(product(Graph(), 2)[1])})
FACTORS = (list(PRODUCTS), (1, 2), BETWEEN, BINARY, OPERANDS + ("self",), ("left", "right"), (True, False), list(UNARY),
           list(USES), (False, True))
if suite.full:
    # Every product with every shape op, operand, binary op, side and kind; activations and uses in turn.
    turn = 0
    for each in itertools.product(*FACTORS[:7]):
        if zlib.crc32(repr(each).encode()) % 12 == 0:
            turn += 1
            add(*each, FACTORS[7][turn % len(UNARY)], FACTORS[8][turn // 3 % len(USES)], turn // 7 % 2 == 0)
else:
    FORMS = {product: shapes_between(make(Graph(), 1)[1]) for product, make in PRODUCTS.items()}

    def meet(row):
        product, _, between, _, operand, *_ = row
        if product is None or between is None:
            return True
        return between in FORMS[product] and operand in (None, "self", *operands(FORMS[product][between][1]))

    TRANSPOSED = [name for name in BETWEEN if name.startswith("transpose") and len(name) == len("transpose 0123")]
    few = [name for name in BETWEEN if name not in TRANSPOSED or name[10:] in ("0132", "0231", "0312", "1023", "3210")]
    products, batches, _, *others, activations, uses, before = FACTORS
    for each in covering((products, batches, ("none",), *others, activations, uses, before), meet):
        add(*each)
    for each in covering((products, batches, few, *others, ("none", "Relu", "Tanh"), uses, before), meet):
        add(*each)
    # What looks like a bias, and comes too late.
    for product, activation in itertools.product(PRODUCTS, ("Relu", "Tanh", "linear")):
        add(product, 1, "none", "Add", "per channel" if product.startswith(("conv", "depthwise")) else "last", "left", True,
            activation, "once", True)
# NaN and infinities in what is multiplied and in what follows: they come out where they do in ONNX Runtime.
SPECIAL = {
    "matmul": lambda g: g.MatMul(g.x(7, 5, kind="special"), g.c(5, 8)),
    "gemm": lambda g: g.Gemm(g.x(7, 5, kind="special"), g.c(8, 5), g.c(8), transB=1),
    "values": lambda g: g.MatMul(g.x(33, 18, kind="special"), g.x(18, 34, tag=g.case)),
    "conv1": lambda g: g.Conv(g.x(2, 3, 40, kind="special"), g.c(8, 3, 3), g.c(8), pads=[1, 1]),
    "conv2": lambda g: g.Conv(g.x(2, 3, 12, 11, kind="special"), g.c(8, 3, 3, 3), g.c(8), pads=[1, 1, 1, 1]),
    "conv2 wide": lambda g: g.Conv(g.x(1, 16, 12, 11, kind="special"), g.c(16, 16, 3, 3), pads=[1, 1, 1, 1]),
    "depthwise": lambda g: g.Conv(g.x(1, 8, 12, 11, kind="special"), g.c(8, 1, 3, 3), group=8),
    "nothing": lambda g: g.x(7, 11, kind="special", tag=g.case),
}
for product, activation in itertools.product(SPECIAL, UNARY):
    suite.case(f"special {product} | {activation}", lambda g, p=product, a=activation: UNARY[a](g, SPECIAL[p](g)))
TWO = (list(SPECIAL), BINARY, ("left", "right"), ("constant", "value"))
for product, kind, side, other in itertools.product(*TWO) if suite.full else covering(TWO):
    def two(g, kind=kind, product=product, side=side, other=other):
        y = SPECIAL[product](g)
        z = g.const(0.5) if other == "constant" else g.Tanh(SPECIAL[product](g))
        return g.op(kind, *((y, z) if side == "left" else (z, y)))
    suite.case(f"special {product} | {kind} {other} {side}", two)
NUMBERS = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-42, 3e38)
for turn, (kind, number) in enumerate(itertools.product(BINARY, NUMBERS)):
    for product in ("matmul", "conv2") if suite.full else (("matmul", "conv2")[turn % 2],):
        for first in ("none", "Neg", "linear"):
            suite.case(f"{product} | {first} | {kind} {number}",
                       lambda g, p=product, k=kind, n=number, f=first: g.op(
                           k, UNARY[f](g, PRODUCTS[p](g, 1)[0]), g.const(n)))
# An operand of more elements than the product: the result is larger than what the product stores.
WIDER = (list(PRODUCTS), ("Add", "Mul"), ("value", "constant", "equal elements"))
for product, kind, other in itertools.product(*WIDER) if suite.full else covering(WIDER):
    def wider(g, product=product, kind=kind, other=other):
        y, shape = PRODUCTS[product](g, 1)
        shape = (2,) + shape
        return g.op(kind, y, g.x(*shape, tag="wider") if other == "value" else
                    g.c(*shape) if other == "constant" else g.op("Expand", g.const(0.75), g.const(np.array(shape, np.int64))))
    suite.case(f"{product} | {kind} wider {other}", wider)
suite.finish()
