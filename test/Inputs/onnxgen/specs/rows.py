"""Reductions, softmax, normalizations."""
import numpy as np

from ..arrays import F32, FLOATS
from ..graph import Skip
from . import spec

AXES_INPUT = {"ReduceSum": 13}


def some_axes(g, rank):
    if not rank:
        return []
    axes = g.r.sample(range(rank), g.r.randint(1, min(rank, 3)))
    return [axis - rank if g.opset >= 11 and g.chance(0.3) else axis for axis in axes]


@spec("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare",
      "ReduceLogSum", "ReduceLogSumExp", train=True)
def reduce(g, op):
    dtypes = g.dtypes(op)
    if op in ("ReduceLogSum", "ReduceLogSumExp", "ReduceL2", "ReduceMean"):
        dtypes = dtypes & set(FLOATS)  # of integers: no one rounding
    x = g.operand(op, dtypes=dtypes)
    rank = g.rank(x)
    axes = some_axes(g, rank) if g.chance(0.85) else None
    keep = g.r.choice((None, 0, 0, 1))
    if g.opset < AXES_INPUT.get(op, 18):
        return g.node(op, [x], axes=axes or None, keepdims=keep)
    noop = None
    if g.chance(0.15):
        noop = g.r.choice((0, 1))
        axes = g.r.choice((None, axes, []))
    return g.node(op, [x, g.steer(axes) if axes is not None else None], keepdims=keep, noop_with_empty_axes=noop)


@spec("ArgMax", "ArgMin")
def arg(g, op):
    x = g.operand(op, low=1)
    axis = g.r.randrange(-g.rank(x) if g.opset >= 11 else 0, g.rank(x))
    last = g.r.choice((None, 0, 1)) if g.opset >= 12 else None
    return g.node(op, [x], axis=axis if g.chance(0.8) else None, keepdims=g.r.choice((None, 0, 1)),
                  select_last_index=last)


@spec("Softmax", "LogSoftmax", train=True)
def softmax(g, op):
    x = g.operand(op, low=1)
    rank = g.rank(x)
    axis = g.r.randrange(0 if g.opset < 11 else -rank, rank) if g.chance(0.7) else None
    if axis is None and g.opset < 13 and rank < 2:
        axis = 0
    return g.node(op, [x], axis=axis)


@spec("LayerNormalization", train=True)
def layer_norm(g, op):
    x = g.operand(op, low=1, dtypes=g.dtypes(op) & set(FLOATS))
    rank = g.rank(x)
    axis = g.r.randrange(-rank, rank) if g.chance(0.6) else -1
    shape = g.shape(x)[axis:]
    bias = g.weight(shape, g.dtype(x)) if g.chance(0.7) else None
    outputs = [True, True, True] if g.chance(0.1) and g.dtype(x) == F32 else 1
    return g.node(op, [x, g.weight(shape, g.dtype(x)), bias], outputs,
                  axis=axis if axis != -1 or g.chance(0.5) else None, epsilon=g.r.choice((None, 1e-3, 1e-5)))


@spec("RMSNormalization", train=True)
def rms_norm(g, op):
    x = g.operand(op, low=1, dtypes=g.dtypes(op) & set(FLOATS))
    rank = g.rank(x)
    axis = g.r.randrange(-rank, rank) if g.chance(0.4) else -1
    return g.node(op, [x, g.weight(g.shape(x)[axis:], g.dtype(x))], axis=axis, epsilon=g.r.choice((None, 1e-3, 1e-5)))


@spec("InstanceNormalization", train=True)
def instance_norm(g, op):
    x = g.operand(op, low=3, dtypes=g.dtypes(op) & set(FLOATS))
    channels = g.shape(x)[1]
    return g.node(op, [x, g.weight([channels], g.dtype(x)), g.weight([channels], g.dtype(x))],
                  epsilon=g.r.choice((None, 1e-3)))


@spec("GroupNormalization", train=True)
def group_norm(g, op):
    x = g.operand(op, low=3, dtypes=g.dtypes(op) & set(FLOATS))
    channels = g.shape(x)[1]
    groups = g.r.choice([each for each in range(1, channels + 1) if channels % each == 0] or [1])
    count = groups if g.opset < 21 else channels
    return g.node(op, [x, g.weight([count], g.dtype(x)), g.weight([count], g.dtype(x))], num_groups=groups,
                  epsilon=g.r.choice((None, 1e-3)))


@spec("MeanVarianceNormalization", train=True)
def mean_variance(g, op):
    x = g.operand(op, low=1, dtypes=g.dtypes(op) & set(FLOATS))
    axes = [axis % g.rank(x) for axis in some_axes(g, g.rank(x))]
    if g.rank(x) == 4 and g.chance(0.5):
        axes = None
    # Nothing to normalise over: 0 / 1e-9 is decided by rounding.
    if g.array(x).size and np.prod([g.shape(x)[axis] for axis in axes or (0, 2, 3)]) < 2:
        raise Skip
    return g.node(op, [x], axes=axes)


@spec("LpNormalization", train=True)
def lp_norm(g, op):
    x = g.operand(op, low=1, dtypes=g.dtypes(op) & set(FLOATS))
    axis = g.r.randrange(-g.rank(x), g.rank(x)) if g.chance(0.7) else None
    return g.node(op, [x], axis=axis, p=g.r.choice((None, 1, 2)))
