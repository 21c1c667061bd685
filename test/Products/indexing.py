# Operators that write, read and order by index: every reduction, negative and repeated indices, data that is larger than
# the indices, types, axes, indices that are constants and that are inputs, what stands before and behind. Against ONNX
# Runtime, on one rank and, every fourth model (with --full each), cut at random.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import itertools
import sys

import numpy as np

sys.path.insert(0, sys.argv.pop(2))
from onnx_cases import Suite

suite = Suite("indexing", sys.argv, spread=4, pack=24)


def places(key, shape, size, axis, distinct):
    """Indices along an axis, some counted from the end; `distinct`: no element twice."""
    rng = np.random.default_rng(len(repr(key)) + sum(map(ord, repr(key))))
    if not distinct:
        return rng.integers(-size, size, shape)
    index = np.empty(shape, np.int64)
    rows = np.moveaxis(index, axis, -1)
    for at in np.ndindex(rows.shape[:-1]):
        row = rng.permutation(size)[:rows.shape[-1]]
        rows[at] = np.where(rng.random(row.size) < 0.4, row - size, row)
    return index


def given(g, array, constant):
    """An array as a constant, or as an input."""
    array = np.asarray(array)
    if constant:
        return g.const(array, array.dtype)
    name = g.name("i")
    g.inputs[g.case, name] = name, array
    return name


DATA = {"rows": ((4, 6), (4, 3), 1), "front": ((6, 4), (3, 4), 0), "middle": ((3, 5, 4), (3, 2, 4), 1),
        "part": ((5, 6, 4), (2, 4, 3), 1), "vector": ((9,), (5,), 0), "last": ((2, 3, 7), (2, 3, 7), -1)}
for (name, (data, shape, axis)), reduction, constant in itertools.product(
        DATA.items(), ("none", "add", "mul", "min", "max"), (True, False)):
    def elements(g, data=data, shape=shape, axis=axis, reduction=reduction, constant=constant):
        index = places(g.case, shape, data[axis], axis, reduction == "none")
        x = g.Mul(g.x(*data), g.c(*data))
        y = g.ScatterElements(x, given(g, index, constant), g.x(*shape, tag=g.case), axis=axis, reduction=reduction)
        return g.Relu(y)
    suite.case(f"ScatterElements {name} {reduction} {constant}", elements)

for dtype, reduction in itertools.product(("float64", "int32", "int64", "float16", "int8", "uint8"),
                                          ("none", "add", "mul", "max", "min")):
    if dtype == "float16" and reduction != "none":  # ONNX Runtime adds in 16 bits
        continue

    def typed(g, dtype=dtype, reduction=reduction):
        index = places(g.case, (4, 3), 6, 1, reduction == "none")
        return g.ScatterElements(g.x(4, 6, dtype=dtype), given(g, index, False), g.x(4, 3, dtype=dtype, tag=g.case), axis=1,
                                 reduction=reduction)
    suite.case(f"ScatterElements {dtype} {reduction}", typed)

ND = {"rows": ((6, 4), 1, (3,)), "elements": ((6, 4), 2, (5,)), "slices": ((3, 5, 4), 2, (2, 2)), "deep": ((3, 4, 2), 3, (7,))}
for (name, (data, depth, head)), reduction, constant in itertools.product(
        ND.items(), ("none", "add", "mul", "min", "max"), (True, False)):
    def nd(g, data=data, depth=depth, head=head, reduction=reduction, constant=constant):
        rng = np.random.default_rng(sum(map(ord, g.case)))
        count = int(np.prod(head))
        linear = rng.permutation(int(np.prod(data[:depth])))[:count] if reduction == "none" else rng.integers(
            0, np.prod(data[:depth]), count)
        index = np.stack(np.unravel_index(linear, data[:depth]), -1)
        index = np.where(rng.random(index.shape) < 0.4, index - np.array(data[:depth]), index).reshape(*head, depth)
        return g.ScatterND(g.x(*data), given(g, index, constant), g.x(*head, *data[depth:], tag=g.case), reduction=reduction)
    suite.case(f"ScatterND {name} {reduction} {constant}", nd)

for shape, axis in (((4, 6), 1), ((6, 4), 0), ((3, 5, 4), 1)):
    def gather(g, shape=shape, axis=axis):
        count = list(shape)
        count[axis] = 8
        return g.Exp(g.GatherElements(g.Neg(g.x(*shape)), given(g, places(g.case, count, shape[axis], axis, False), False),
                                      axis=axis))
    suite.case(f"GatherElements {shape} {axis}", gather)
for batch in (0, 1, 2):
    def gather_nd(g, batch=batch):
        index = np.random.default_rng(batch).integers(-2, 2, (3, 4)[:batch] + (2, 1 if batch else 3))
        return g.GatherND(g.x(3, 4, 2), given(g, index, False), batch_dims=batch)
    suite.case(f"GatherND {batch}", gather_nd)

for (shape, axis, k), largest, dtype in itertools.product(
        (((5, 8), 1, 2), ((5, 8), -1, 8), ((7, 3), 0, 3), ((2, 9, 3), 1, 4), ((300,), 0, 50)), (0, 1),
        ("float32", "int32", "int64", "float64")):
    def top(g, shape=shape, axis=axis, k=k, largest=largest, dtype=dtype):
        x = g.x(*shape, dtype=dtype)
        if dtype == "float32":  # equal elements
            x = g.Round(x)
        return g.TopK(x, g.ints(k), results=2, axis=axis, largest=largest)
    suite.case(f"TopK {shape} {axis} {k} {largest} {dtype}", top)


for batch in (0, 1):
    def turned(g, batch=batch):
        lengths = np.array([3, 1, 5, 2] if batch == 0 else [4, 1, 2, 3, 4])
        return g.ReverseSequence(g.Neg(g.x(4, 5, 3)), given(g, lengths, False), batch_axis=batch, time_axis=1 - batch)
    suite.case(f"ReverseSequence {batch}", turned)
for axis in (0, 1, -1):
    suite.case(f"Hardmax {axis}", lambda g, axis=axis: g.Hardmax(g.Round(g.x(4, 5, 3)), axis=axis))


def routing(g):
    """A router: the two best of eight experts, and their weights where they stood."""
    p = g.Softmax(g.MatMul(g.x(6, 5), g.c(5, 8)))
    weights, best = g.op("TopK", p, g.ints(2), results=2)
    return g.MatMul(g.ScatterElements(g.Mul(p, g.const(0.0)), best, weights, axis=-1), g.c(8, 4))


suite.case("routing", routing)
suite.finish()
