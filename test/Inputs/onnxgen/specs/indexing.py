"""Operators that select by index, and sums and products along an axis."""
import numpy as np

from ..arrays import F16, FLOATS, I32, I64, is_float, random_array
from ..graph import Skip
from . import spec


def indices(g, shape, size, negative):
    """Integers below `size`, as a constant or an input; negative ones count from the end."""
    if size < 1:
        raise Skip
    array = g.rng.integers(-size if negative and g.chance(0.3) else 0, size, tuple(shape))
    return g.give(np.asarray(array).astype(g.r.choice((I64, I64, I32))), pickable=False)


@spec("Gather", train=True)
def gather(g, op):
    x = g.operand(op, low=1)
    axis = g.r.randrange(g.rank(x))
    size = g.shape(x)[axis]
    found = g.find(lambda array: array.dtype in (I32, I64) and array.ndim + g.rank(x) <= 6 and array.size and
                   array.min() >= (-size if g.opset >= 11 else 0) and array.max() < size)
    index = found or indices(g, g.sizes(high=6 - g.rank(x)), size, g.opset >= 11)
    if g.array(index).size * g.array(x).size > g.most_elements * max(1, size):
        raise Skip
    if axis == 0 and g.chance(0.5):
        return g.node(op, [x, index])
    return g.node(op, [x, index], axis=axis - g.rank(x) if g.opset >= 11 and g.chance(0.2) else axis)


@spec("GatherElements", train=True)
def gather_elements(g, op):
    x = g.operand(op, low=1)
    axis = g.r.randrange(g.rank(x))
    shape = [g.r.randint(min(1, size), size) if g.chance(0.3) else size for size in g.shape(x)]
    shape[axis] = g.size()
    if np.prod(shape) > g.most_elements:
        raise Skip
    index = indices(g, shape, g.shape(x)[axis], True)
    return g.node(op, [x, index], axis=axis - g.rank(x) if g.chance(0.3) else axis)


@spec("GatherND", train=True)
def gather_nd(g, op):
    x = g.operand(op, low=1)
    shape, rank = g.shape(x), g.rank(x)
    batch = g.r.randrange(rank) if g.opset >= 12 and g.chance(0.4) else 0
    depth = g.r.randint(1, rank - batch)
    head = list(shape[:batch]) + g.sizes(g.r.randint(0 if batch == 0 else 0, 2))
    if not batch and not head and g.chance(0.5):
        head = [g.size()]
    columns = []
    for dim in range(batch, batch + depth):
        if shape[dim] < 1:
            raise Skip
        columns.append(g.rng.integers(-shape[dim] if g.chance(0.3) else 0, shape[dim], tuple(head)))
    index = g.give(np.stack(columns, -1).astype(I64) if columns else np.zeros((*head, 0), I64), pickable=False)
    return g.node(op, [x, index], batch_dims=batch if batch else None)


@spec("OneHot")
def one_hot(g, op):
    x = g.operand(op, dtypes={I64, I32} & g.dtypes(op), high=3)
    depth = g.r.randint(1, 6)
    kind = g.r.choice([each for each in (g.float_type, I64, I32) if each in g.dtypes(op, 2)] or [I64])
    values = random_array(g.rng, (2,), np.dtype(kind))
    depth_value = g.steer(depth if g.chance(0.5) else [depth])
    return g.node(op, [x, depth_value, g.give(values, pickable=False)],
                  axis=g.r.randint(-g.rank(x) - 1, g.rank(x)) if g.chance(0.7) else None)


def may_overflow(array, axis):
    """Whether a product along the axis, taken in some order, leaves the range of its type."""
    if not is_float(array.dtype):
        return False
    size = np.abs(array.astype(np.float64))
    digits = np.abs(np.log2(np.where(np.isfinite(size) & (size > 0), size, 1)))
    return bool((digits.sum(axis) > (13 if array.dtype == F16 else 120)).any())


@spec("CumSum", "CumProd", train=True)
def cumulative(g, op):
    x = g.operand(op, low=1, dtypes=g.dtypes(op) & {*FLOATS, I32, I64})
    along = g.r.randrange(-g.rank(x), g.rank(x))
    if op == "CumProd" and may_overflow(g.array(x), along):
        kind = "initializer" if g.training else None  # kerf draws a training's inputs, of any size
        x = g.source(g.shape(x), g.dtype(x), 0.8, 1.25, kind, specials=False)
    axis = g.steer(along, g.r.choice((I64, I32)))
    return g.node(op, [x, axis], exclusive=g.r.choice((None, 0, 1)), reverse=g.r.choice((None, 0, 1)))


def distinct(g, count, size, negative):
    """Numbers below `size` that differ also where negative ones count from the end."""
    if count > size:
        raise Skip
    rows = g.rng.permutation(size)[:count]
    return np.where(g.rng.random(count) < (0.3 if negative else 0), rows - size, rows)


@spec("ScatterElements", "Scatter", train=True)
def scatter_elements(g, op):
    x = g.operand(op, low=1, dtypes=g.dtypes(op) & {*FLOATS, I32, I64, np.dtype(np.bool_)})
    axis = g.r.randrange(g.rank(x))
    data = g.shape(x)
    if 0 in data:
        raise Skip
    shape = [g.r.randint(1, size) if g.chance(0.3) else size for size in data]
    reduction = None
    if op == "ScatterElements" and g.opset >= 16 and g.chance(0.6) and g.dtype(x) != np.bool_:
        kinds = ("none", "add") if g.training else ("none", "add", "mul") + (("max", "min") if g.opset >= 18 else ())
        reduction = g.r.choice(kinds)
    if reduction in (None, "none"):  # of several updates to one element ONNX does not say which stays
        shape[axis] = g.r.randint(1, data[axis])
        index = np.zeros(shape, I64)
        rows = np.moveaxis(index, axis, -1)
        for place in np.ndindex(rows.shape[:-1]):
            rows[place] = distinct(g, rows.shape[-1], data[axis], op == "ScatterElements")
        index = g.give(index.astype(g.r.choice((I64, I64, I32))), pickable=False)
    else:
        shape[axis] = g.r.randint(1, 4)
        if reduction == "mul" and is_float(g.dtype(x)) and may_overflow(g.array(x), axis):
            raise Skip
        index = indices(g, shape, data[axis], True)
    updates = g.source(shape, g.dtype(x), pickable=False)
    return g.node(op, [x, index, updates], axis=axis - g.rank(x) if op == "ScatterElements" and g.chance(0.3) else axis,
                  reduction=reduction)


@spec("ScatterND", train=True)
def scatter_nd(g, op):
    x = g.operand(op, low=1, dtypes=g.dtypes(op) & {*FLOATS, I32, I64, np.dtype(np.bool_)})
    data, rank = g.shape(x), g.rank(x)
    if 0 in data:
        raise Skip
    depth = g.r.randint(1, rank)
    places = int(np.prod(data[:depth]))
    count = g.r.randint(1, min(places, 6))
    reduction = None
    if g.opset >= 16 and g.chance(0.6) and g.dtype(x) != np.bool_:
        kinds = ("none", "add") if g.training else ("none", "add", "mul") + (("max", "min") if g.opset >= 18 else ())
        reduction = g.r.choice(kinds)
    linear = distinct(g, count, places, False)
    if reduction not in (None, "none"):
        linear = g.rng.integers(0, places, count)
    columns = np.stack(np.unravel_index(linear, data[:depth]), -1)
    columns = np.where(g.rng.random(columns.shape) < 0.3, columns - np.array(data[:depth]), columns)
    head = [count] if g.chance(0.7) else [1, count]
    index = g.give(columns.reshape(*head, depth).astype(I64), pickable=False)
    return g.node(op, [x, index, g.source([*head, *data[depth:]], g.dtype(x), pickable=False)], reduction=reduction)


@spec("TopK", train=True)
def top_k(g, op):
    # Equal elements are taken in the order of their indices; NaN has no place.
    x = g.operand(op, low=1, dtypes=g.dtypes(op) & {*FLOATS, I32, I64},
                  where=lambda array: array.size and not (is_float(array.dtype) and np.isnan(array).any()))
    if not g.array(x).size or np.isnan(g.array(x).astype(np.float64)).any():
        raise Skip
    axis = g.r.randrange(-g.rank(x) if g.opset >= 11 else 0, g.rank(x))
    k = g.r.randint(1, g.shape(x)[axis])
    written = axis if axis != -1 or g.chance(0.5) else None
    # What stands at which place is decided by rounding, where two elements are nearly the same.
    wanted = [True, True] if x in g.case.given else [True, False]
    if g.opset < 10:
        return g.node(op, [x], wanted, axis=written, k=k)[0]
    largest = g.r.choice((None, 0, 1)) if g.opset >= 11 else None
    return g.node(op, [x, g.steer([k])], wanted, axis=written, largest=largest)[0]


@spec("TensorScatter", train=True)
def tensor_scatter(g, op):
    x = g.operand(op, low=2, dtypes=g.dtypes(op) & {*FLOATS, I64})
    rank, shape = g.rank(x), list(g.shape(x))
    if 0 in shape:
        raise Skip
    axis = g.r.randrange(1, rank)
    count = g.r.randint(1, shape[axis])
    mode = g.r.choice((None, "linear", "circular"))
    last = shape[axis] if mode == "circular" else shape[axis] - count + 1
    first = indices(g, shape[:1], last, False) if g.chance(0.8) else None
    if first and g.dtype(first) != I64:
        raise Skip
    updates = g.source([*shape[:axis], count, *shape[axis + 1:]], g.dtype(x), pickable=False)
    return g.node(op, [x, updates, first], axis=axis - rank if g.chance(0.5) else axis, mode=mode)


@spec("Hardmax")
def hardmax(g, op):
    # Where two elements are nearly the same rounding decides.
    x = g.source([max(1, size) for size in g.sizes(low=1, high=4)], g.any_of(g.dtypes(op) & set(FLOATS)), specials=False)
    rank = g.rank(x)
    axis = g.r.randrange(0 if g.opset < 11 else -rank, rank) if g.chance(0.7) else None
    if axis is None and g.opset < 13 and rank < 2:
        axis = 0
    return g.node(op, [x], axis=axis)


@spec("ReverseSequence", train=True)
def reverse_sequence(g, op):
    x = g.operand(op, low=2, dtypes=g.dtypes(op) & {*FLOATS, I32, I64})
    if 0 in g.shape(x):
        raise Skip
    batch = g.r.choice((0, 1))
    lengths = g.rng.integers(1, g.shape(x)[1 - batch] + 1, g.shape(x)[batch])
    return g.node(op, [x, g.give(lengths.astype(I64), pickable=False)], batch_axis=batch, time_axis=1 - batch)
