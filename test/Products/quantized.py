# Quantized values and their products, spectra, pools of powers: against ONNX Runtime, on one rank and, every third model
# (with --full each), cut at random.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import itertools
import sys

import numpy as np

sys.path.insert(0, sys.argv.pop(2))
from onnx_cases import Suite

suite = Suite("quantized", sys.argv, pack=16, opset=21, spread=3)
TYPES = {"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16}


def scales(axis, shape, block=0):
    """Powers of two, by which nothing rounds: of all, of each index, of each block."""
    if axis is None:
        return np.float32(0.125)
    count = -(-shape[axis] // block) if block else shape[axis]
    row = 2.0 ** -(np.arange(count) % 5 + 2)
    if not block:
        return row.astype(np.float32)
    wide = [1] * len(shape)
    wide[axis] = count
    return np.broadcast_to(row.reshape(wide), [*shape[:axis], count, *shape[axis + 1:]]).astype(np.float32)


def points(dtype, like):
    low = 0 if dtype.__name__.startswith("u") else -7
    return (np.arange(np.size(like)) * 5 % 11 + low).reshape(np.shape(like)).astype(dtype)


def there_and_back(dtype, axis, block, zero):
    def build(g):
        shape = (4, 6, 5)
        scale = scales(axis, shape, block)
        operands = [g.const(scale), *([g.const(points(dtype, scale))] if zero or dtype is not np.uint8 else [])]
        more = {} if axis is None else {"axis": axis, **({"block_size": block} if block else {})}
        q = g.op("QuantizeLinear", g.x(*shape), *operands, **more)
        return [q, g.op("DequantizeLinear", q, *operands, **more)]
    return build


for (name, dtype), (axis, block), zero in itertools.product(TYPES.items(), ((None, 0), (1, 0), (1, 2), (2, 0)), (False, True)):
    suite.case(f"{name} {axis} {block} {zero}", there_and_back(dtype, axis, block, zero))


def of_bytes(g, dtype, *shape, most=251):
    return g.given((np.arange(np.prod(shape)).reshape(shape) * 37 % most - (0 if dtype is np.uint8 else most // 2)).astype(dtype))


for a, b, zeros in itertools.product((np.uint8, np.int8), (np.uint8, np.int8), (0, 1, 2)):
    suite.case(f"product {a.__name__} {b.__name__} {zeros}", lambda g, a=a, b=b, zeros=zeros: g.op(
        # Without VNNI ONNX Runtime saturates sums of two products of a large unsigned with a signed byte.
        "MatMulInteger", of_bytes(g, a, 4, 300, most=127), of_bytes(g, b, 300, 6, most=127),
        *([g.const(a(3)), g.const(np.arange(6).astype(b) if zeros == 2 else b(5))] if zeros else [])))
suite.case("product to bytes", lambda g: g.op(
    "QLinearMatMul", of_bytes(g, np.uint8, 2, 4, 6), g.const(np.float32(0.5)), g.const(np.uint8(120)), of_bytes(g, np.uint8, 6, 5),
    g.const(np.float32(0.25)), g.const(np.uint8(110)), g.const(np.float32(64)), g.const(np.uint8(100))))
suite.case("dynamic", lambda g: g.op("DynamicQuantizeLinear", g.x(4, 6), results=3))

for inverse, onesided, parts, length in ((0, 0, 1, 0), (0, 0, 2, 0), (0, 1, 1, 0), (1, 0, 2, 0), (0, 1, 1, 7), (0, 0, 1, 12)):
    suite.case(f"dft {inverse} {onesided} {parts} {length}", lambda g, i=inverse, o=onesided, p=parts, n=length: g.op(
        "DFT", g.x(3, 9, p), *([g.const(np.array(n, np.int64)), g.const(np.array(1, np.int64))] if n else
                               ["", g.const(np.array(1, np.int64))]), inverse=i, onesided=o))
suite.case("stft", lambda g: g.op("STFT", g.x(2, 32, 1), g.const(np.array(4, np.int64)), g.const(np.hanning(8).astype(np.float32)),
                                  g.const(np.array(8, np.int64)), onesided=1))

for p, kernel, more in itertools.product((1, 2, 3), ([2, 3],), ({}, {"pads": [1, 1, 0, 1]}, {"strides": [2, 2]})):
    suite.case(f"lp {p} {more}", lambda g, p=p, k=kernel, more=more: g.op("LpPool", g.x(2, 3, 6, 7), p=p, kernel_shape=k, **more))
    if not more:
        suite.case(f"global lp {p}", lambda g, p=p: g.op("GlobalLpPool", g.x(2, 3, 6, 7), p=p))
suite.finish()
