# Convolutions and pools in one, two and three dimensions: kernels, strides, dilations, pads of either side, groups,
# automatic pads, rounding up; operands that are views of others, weights and biases that are values, what is folded into
# them (normalizations, pads, factors). Against ONNX Runtime.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import itertools
import sys
import zlib

sys.path.insert(0, sys.argv.pop(2))
from onnx_cases import Suite

suite = Suite("windows", sys.argv, spread=8)
SIZES = {1: (11,), 2: (9, 7), 3: (5, 6, 4)}
KERNELS = {1: ((1,), (2,), (3,), (5,)), 2: ((1, 1), (3, 3), (2, 3), (1, 4)), 3: ((1, 1, 1), (2, 3, 1), (3, 3, 3))}
GROUPS = {"plain": (3, 8, 1), "one channel": (1, 5, 1), "to one": (4, 1, 1), "two groups": (4, 6, 2), "depthwise": (8, 8, 8),
          "multiplied": (4, 8, 4), "wide": (16, 16, 1), "wide groups": (32, 32, 2), "odd depthwise": (5, 5, 5)}


def take(*key):
    """A third of a product that is too large, always the same."""
    return suite.full or zlib.crc32(repr(key).encode()) % 5 == 0


def pads(kind, kernel):
    rank = len(kernel)
    if kind == "none":
        return {}
    if kind in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        return dict(auto_pad=kind)
    low = [k // 2 for k in kernel]
    return dict(pads=low + low if kind == "same" else [0] * rank + [k - 1 for k in kernel] if kind == "high" else
                [k - 1 for k in kernel] + [0] * rank)


PADS = ("none", "same", "high", "low", "SAME_UPPER", "SAME_LOWER", "VALID")
for rank in SIZES:
    for kernel, stride, dilation, pad, group, batch, bias in itertools.product(
            KERNELS[rank], (1, 2, 3), (1, 2), PADS, GROUPS, (1, 2), (True, False)):
        if not take(rank, kernel, stride, dilation, pad, group, batch, bias) and (stride, dilation, batch) != (1, 1, 1):
            continue
        if not suite.full and zlib.crc32(repr((kernel, pad, group, stride)).encode()) % 6:
            continue
        if dilation > 1 and pad.startswith("SAME"):  # ONNX Runtime has none
            continue
        if any((k - 1) * dilation + 1 > size for k, size in zip(kernel, SIZES[rank])):
            continue

        def conv(g, rank=rank, kernel=kernel, stride=stride, dilation=dilation, pad=pad, group=group, batch=batch, bias=bias):
            channels, out, groups = GROUPS[group]
            operands = [g.x(batch, channels, *SIZES[rank]), g.c(out, channels // groups, *kernel)]
            return g.Conv(*operands, *([g.c(out)] if bias else []), strides=[stride] * rank, dilations=[dilation] * rank,
                          group=groups, **pads(pad, kernel))
        suite.case(f"conv{rank} {kernel} stride {stride} dilation {dilation} pads {pad} {group} batch {batch} bias {bias}", conv)
    for kernel, stride, dilation, pad, ceil, batch, include in itertools.product(
            KERNELS[rank], (1, 2, 3), (1, 2), PADS, (0, 1), (1, 2), (0, 1)):
        if not suite.full and zlib.crc32(repr((kernel, stride, dilation, pad, ceil, batch)).encode()) % 6:
            continue
        if any((k - 1) * dilation + 1 > size for k, size in zip(kernel, SIZES[rank])) or (
                ceil and pad.startswith(("SAME", "VALID"))) or (pad in ("high", "low", "same") and min(kernel) == 1) or (
                dilation > 1 and pad not in ("none", "VALID")) or (pad.startswith("SAME") and stride > min(kernel)):
            continue  # ONNX Runtime refuses them
        options = dict(kernel_shape=kernel, strides=[stride] * rank, ceil_mode=ceil, **pads(pad, kernel))
        name = f"{kernel} stride {stride} dilation {dilation} pads {pad} ceil {ceil} batch {batch}"
        if not include:
            suite.case(f"max pool {name}", lambda g, r=rank, o=options, b=batch, d=dilation: g.MaxPool(
                g.x(b, 5, *SIZES[r]), dilations=[d] * r, **o))
        if dilation == 1 and not (ceil and include):
            suite.case(f"average pool {name} include {include}", lambda g, r=rank, o=options, b=batch, i=include: g.AveragePool(
                g.x(b, 5, *SIZES[r]), count_include_pad=i, **o))
    for pool in ("GlobalAveragePool", "GlobalMaxPool"):
        for batch in (1, 2):
            suite.case(f"{pool} {rank} batch {batch}", lambda g, p=pool, r=rank, b=batch: g.op(p, g.x(b, 5, *SIZES[r])))

# Around a convolution of two dimensions.
IN = (2, 4, 7, 6)


def weights(g, out=8, channels=4):
    return g.c(out, channels, 3, 3)


def batch_norm(g, y, channels=8, eps=1e-3):
    return g.BatchNormalization(y, g.c(channels), g.c(channels), g.c(channels), g.c(channels, kind="positive"), epsilon=eps)


AROUND = {
    "of a transposed image": lambda g: g.Conv(g.Transpose(g.x(2, 7, 6, 4), perm=[0, 3, 1, 2]), weights(g)),
    "of a turned image": lambda g: g.Conv(g.Transpose(g.x(*IN), perm=[0, 1, 3, 2]), weights(g)),
    "of a slice of channels": lambda g: g.Conv(g.Slice(g.x(2, 6, 7, 6), g.ints(1), g.ints(5), g.ints(1)), weights(g)),
    "of a slice of rows": lambda g: g.Conv(g.Slice(g.x(2, 4, 9, 6), g.ints(1), g.ints(8), g.ints(2)), weights(g)),
    "of every second row": lambda g: g.Conv(g.Slice(g.x(2, 4, 13, 6), g.ints(0), g.ints(13), g.ints(2), g.ints(2)), weights(g)),
    "of a reversed image": lambda g: g.Conv(g.Slice(g.x(*IN), g.ints(-1), g.ints(-100), g.ints(3), g.ints(-1)), weights(g)),
    "of joined channels": lambda g: g.Conv(g.Concat(g.x(2, 3, 7, 6), g.x(2, 1, 7, 6), axis=1), weights(g)),
    "of a reshape": lambda g: g.Conv(g.Reshape(g.x(2, 168), g.ints(*IN)), weights(g)),
    "of a repeated image": lambda g: g.Conv(g.Expand(g.x(1, 4, 7, 6), g.ints(*IN)), weights(g)),
    "of a repeated channel": lambda g: g.Conv(g.Expand(g.x(2, 1, 7, 6), g.ints(*IN)), weights(g)),
    "of a padded image": lambda g: g.Conv(g.Pad(g.x(*IN), g.ints(0, 0, 1, 2, 0, 0, 0, 1)), weights(g)),
    "of an image padded with ones": lambda g: g.Conv(g.Pad(g.x(*IN), g.ints(0, 0, 1, 1, 0, 0, 1, 1), g.const(1.0)), weights(g)),
    "of an image padded by its edge": lambda g: g.Conv(
        g.op("Pad", g.x(*IN), g.ints(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect"), weights(g)),
    "of padded channels": lambda g: g.Conv(g.Pad(g.x(2, 3, 7, 6), g.ints(0, 0, 0, 0, 0, 1, 0, 0)), weights(g)),
    "of a padded image, with pads": lambda g: g.Conv(g.Pad(g.x(*IN), g.ints(0, 0, 1, 1, 0, 0, 0, 0)), weights(g),
                                                     pads=[1, 1, 1, 1]),
    "with weights that are values": lambda g: g.Conv(g.x(*IN), g.x(8, 4, 3, 3)),
    "with transposed weights": lambda g: g.Conv(g.x(*IN), g.Transpose(g.c(3, 3, 4, 8), perm=[3, 2, 0, 1])),
    "with transposed weights that are values": lambda g: g.Conv(g.x(*IN), g.Transpose(g.x(4, 8, 3, 3), perm=[1, 0, 2, 3])),
    "with scaled weights": lambda g: g.Conv(g.x(*IN), g.Mul(weights(g), g.c(8, 1, 1, 1))),
    "with a bias that is a value": lambda g: g.Conv(g.x(*IN), weights(g), g.x(8)),
    "with a bias that is cut out": lambda g: g.Conv(g.x(*IN), weights(g), g.Slice(g.x(11), g.ints(2), g.ints(10))),
    "normalized": lambda g: batch_norm(g, g.Conv(g.x(*IN), weights(g), g.c(8))),
    "normalized, no bias": lambda g: g.Relu(batch_norm(g, g.Conv(g.x(*IN), weights(g)))),
    "normalized before": lambda g: g.Conv(batch_norm(g, g.x(*IN), 4), weights(g), pads=[1, 1, 1, 1]),
    "normalized and read": lambda g: (lambda y: (batch_norm(g, y), g.Relu(y)))(g.Conv(g.x(*IN), weights(g))),
    "depthwise normalized": lambda g: batch_norm(g, g.Conv(g.x(2, 8, 7, 6), g.c(8, 1, 3, 3), group=8)),
    "weights are values, normalized": lambda g: batch_norm(g, g.Conv(g.x(*IN), g.x(8, 4, 3, 3))),
    "times a channel": lambda g: g.Mul(g.Conv(g.x(*IN), weights(g), g.c(8)), g.c(8, 1, 1)),
    "plus a channel twice": lambda g: g.Add(g.Add(g.Conv(g.x(*IN), weights(g), g.c(8)), g.c(8, 1, 1)), g.c(1, 8, 1, 1)),
    "gated by a channel": lambda g: (lambda y: g.Mul(y, g.Sigmoid(g.Conv(g.GlobalAveragePool(y), g.c(8, 8, 1, 1)))))(
        g.Conv(g.x(*IN), weights(g))),
    "two added": lambda g: g.Relu(g.Add(g.Conv(g.x(*IN), weights(g)), g.Conv(g.x(*IN), weights(g)))),
    "residual": lambda g: g.Relu(g.Add(g.Conv(g.x(2, 8, 7, 6), weights(g, 8, 8), pads=[1, 1, 1, 1]), g.x(2, 8, 7, 6))),
    "residual twice": lambda g: g.Add(g.Add(g.Conv(g.x(2, 8, 7, 6), weights(g, 8, 8), pads=[1] * 4), g.x(2, 8, 7, 6)),
                                      g.x(2, 8, 7, 6)),
    "residual of another layout": lambda g: g.Add(g.Transpose(g.x(2, 5, 4, 8), perm=[0, 3, 1, 2]), g.Conv(g.x(*IN), weights(g))),
    "twice the same": lambda g: (lambda y: g.Add(y, y))(g.Conv(g.x(*IN), weights(g))),
    "to rows": lambda g: g.MatMul(g.Transpose(g.Reshape(g.Conv(g.x(*IN), weights(g)), g.ints(2, 8, 20)), perm=[0, 2, 1]), g.c(8, 5)),
    "to rows with positions": lambda g: g.Add(
        g.Transpose(g.Reshape(g.Conv(g.x(*IN), weights(g), g.c(8)), g.ints(2, 8, 20)), perm=[0, 2, 1]), g.c(20, 8)),
    "flattened": lambda g: g.Gemm(g.Flatten(g.MaxPool(g.Relu(g.Conv(g.x(*IN), weights(g))), kernel_shape=[2, 2])), g.c(96, 5)),
    "joined": lambda g: g.Concat(g.Conv(g.x(*IN), weights(g)), g.Conv(g.x(*IN), weights(g, 3)), axis=1),
    "split": lambda g: tuple(g.op("Split", g.Conv(g.x(*IN), weights(g)), g.ints(3, 5), axis=1, results=2)),
    "shuffled": lambda g: g.Reshape(g.Transpose(g.Reshape(g.Conv(g.x(*IN), weights(g)), g.ints(2, 2, 4, 5, 4)),
                                                perm=[0, 2, 1, 3, 4]), g.ints(2, 8, 5, 4)),
    "pooled by average, normalized": lambda g: batch_norm(g, g.AveragePool(g.Conv(g.x(*IN), weights(g)), kernel_shape=[2, 2])),
    "of one pixel": lambda g: g.Conv(g.x(2, 4, 1, 1), g.c(8, 4, 1, 1), g.c(8)),
    "of one pixel by 3x3": lambda g: g.Conv(g.x(1, 4, 1, 1), weights(g), pads=[1, 1, 1, 1]),
    "of float16": lambda g: g.Conv(g.Cast(g.x(*IN), to=10), g.Cast(weights(g), to=10)),
}
for name, build in AROUND.items():
    suite.case(f"conv {name}", build)
suite.finish()
