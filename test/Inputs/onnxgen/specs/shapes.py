"""Operators that move elements: reshape, transpose, slice, concatenate, pad and the like."""
import numpy as np

from ..arrays import FLOATS, I32, I64, is_float
from ..graph import Skip
from . import spec


def factors(g, count):
    """A random shape of `count` elements."""
    shape, rest = [], count
    while rest > 1 and len(shape) < 5:
        divisors = [each for each in range(2, rest + 1) if rest % each == 0]
        part = g.r.choice(divisors)
        shape.append(part)
        rest //= part
    if rest != 1:
        shape.append(rest)
    while len(shape) < 5 and g.chance(0.2):
        shape.insert(g.r.randint(0, len(shape)), 1)
    g.r.shuffle(shape)
    return shape


def merged_or_split(g, shape):
    """What exporters write: neighbouring dimensions merged, or one taken apart."""
    shape = list(shape)
    if len(shape) >= 2 and g.chance(0.5):
        at = g.r.randrange(len(shape) - 1)
        shape[at:at + 2] = [shape[at] * shape[at + 1]]
    elif shape and len(shape) < 5:
        at = g.r.randrange(len(shape))
        parts = [each for each in range(1, shape[at] + 1) if shape[at] % each == 0] or [1]
        part = g.r.choice(parts)
        shape[at:at + 1] = [part, shape[at] // part]
    return shape


@spec("Reshape", train=True)
def reshape(g, op):
    x = g.operand(op)
    old, count = g.shape(x), g.array(x).size
    if count == 0:
        shape = list(old)
    else:
        shape = factors(g, count) if g.chance(0.4) else merged_or_split(g, old)
    given = list(shape)
    if count:
        for dim in range(min(len(shape), len(old))):
            if shape[dim] == old[dim] and g.chance(0.2):
                given[dim] = 0
        if given and g.chance(0.4):
            given[g.r.randrange(len(given))] = -1
    elif any(size == 0 for size in shape):
        given = [0 if size == 0 else size for size in shape]  # 0 copies the 0 of the same dimension
    allow = 1 if g.opset >= 14 and 0 not in given and -1 not in given and g.chance(0.1) else None
    if g.opset >= 13 and g.chance(0.15) and g.rank(x):
        target = computed_shape(g, x)
        return g.node(op, [x, target])
    return g.node(op, [x, g.steer(given)], allowzero=allow)


def computed_shape(g, x):
    """The shape of x, taken apart and put together again, as exporters with dynamic dimensions write it."""
    shape = g.node("Shape", [x], pickable=False)
    rank = g.rank(x)
    if g.chance(0.5):
        keep = g.r.randrange(rank)
        first = g.node("Gather", [shape, g.steer(keep)], pickable=False)
        first = g.node("Unsqueeze", [first, g.steer([0])], pickable=False)
        return g.node("Concat", [first, g.steer([-1])], pickable=False, axis=0)
    keep = g.r.randrange(rank)
    head = g.node("Slice", [shape, g.steer([0]), g.steer([keep])], pickable=False)
    return g.node("Concat", [head, g.steer([-1])], pickable=False, axis=0)


@spec("Flatten", train=True)
def flatten(g, op):
    x = g.operand(op)
    rank = g.rank(x)
    axis = g.r.randint(0 if g.opset < 11 else -rank, rank)
    return g.node(op, [x], axis=axis if g.chance(0.7) or rank == 0 else None)


def with_axes(g, op, x, axes):
    if g.opset < 13:
        return g.node(op, [x], axes=axes)
    return g.node(op, [x, g.steer(axes) if axes is not None else None])


@spec("Squeeze", train=True)
def squeeze(g, op):
    x = g.operand(op, low=1, where=lambda array: 1 in array.shape,
                  make=lambda dtype: g.source([1, *g.sizes(low=0, high=3)], dtype))
    ones = [dim for dim, size in enumerate(g.shape(x)) if size == 1]
    if not ones:
        raise Skip
    if g.chance(0.2):
        return with_axes(g, op, x, None)
    axes = g.r.sample(ones, g.r.randint(1, len(ones)))
    return with_axes(g, op, x, [axis - g.rank(x) if g.opset >= 11 and g.chance(0.3) else axis for axis in axes])


@spec("Unsqueeze", train=True)
def unsqueeze(g, op):
    x = g.operand(op, high=4)
    count = g.r.randint(1, min(2, 5 - g.rank(x)))
    rank = g.rank(x) + count
    axes = g.r.sample(range(rank), count)
    return with_axes(g, op, x, [axis - rank if g.opset >= 11 and g.chance(0.3) else axis for axis in axes])


@spec("Transpose", train=True)
def transpose(g, op):
    x = g.operand(op)
    if g.chance(0.15):
        return g.node(op, [x])
    perm = list(range(g.rank(x)))
    if g.chance(0.3) and len(perm) > 2:  # channels first and last
        perm = [0, *perm[2:], 1] if g.chance(0.5) else [0, perm[-1], *perm[1:-1]]
    elif g.chance(0.3) and len(perm) > 1:
        perm[-1], perm[-2] = perm[-2], perm[-1]
    else:
        g.r.shuffle(perm)
    return g.node(op, [x], perm=perm)


@spec("Concat", train=True)
def concat(g, op):
    x = g.operand(op, low=1)
    axis = g.r.randrange(g.rank(x))
    inputs = [x]
    for _ in range(g.r.choice((0, 1, 1, 2))):
        shape = list(g.shape(x))
        other = g.find(lambda array: array.dtype == g.dtype(x) and array.ndim == len(shape) and all(
            size == shape[dim] for dim, size in enumerate(array.shape) if dim != axis))
        if not other:
            shape[axis] = g.size()
            if np.prod(shape) > g.most_elements:
                raise Skip
            other = g.source(shape, g.dtype(x))
        inputs.append(other)
    g.r.shuffle(inputs)
    return g.node(op, inputs, axis=axis - g.rank(x) if g.opset >= 11 and g.chance(0.3) else axis)


@spec("Split", train=True)
def split(g, op):
    x = g.operand(op, low=1)
    axis = g.r.randrange(g.rank(x))
    size = g.shape(x)[axis]
    parts = g.r.randint(1, min(4, max(1, size)))
    cuts = sorted(g.r.randint(0 if g.chance(0.03) else min(1, size), size) for _ in range(parts - 1))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size])]
    if 0 in sizes and size and not g.chance(0.1):
        sizes = [size]
    even = size % parts == 0
    outputs = [True] * len(sizes)
    axis = None if axis == 0 and g.chance(0.5) else axis - g.rank(x) if g.opset >= 11 and g.chance(0.3) else axis
    if even and g.chance(0.4) or g.opset >= 18 and g.chance(0.2):
        each = -(-size // parts)
        if not even and each * (parts - 1) > size:
            raise Skip
        return g.node(op, [x], [True] * parts, axis=axis, num_outputs=parts if g.opset >= 18 else None)
    if g.opset < 13:
        return g.node(op, [x], outputs, axis=axis, split=sizes)
    return g.node(op, [x, g.steer(sizes)], outputs, axis=axis)


@spec("Slice", train=True)
def slicing(g, op):
    x = g.operand(op, low=1)
    rank = g.rank(x)
    axes = g.r.sample(range(rank), g.r.choice([1, 1, min(2, rank), rank]))
    starts, ends, steps = [], [], []
    for axis in axes:
        size = g.shape(x)[axis]
        start, end = sorted((g.r.randint(0, size), g.r.randint(0, size)))
        if start == end and size:
            start, end = (0, size) if g.chance(0.9) else (start, end)
        step = g.r.choice((1, 1, 1, 2, 3)) if g.opset >= 10 else 1
        if g.opset >= 10 and g.chance(0.15):
            start, end, step = (end - 1, start - 1 if start else -size - 1, -step) if end else (start, end, step)
        elif g.chance(0.25):
            start = start - size if size and start < size else start
            end = end if end < size else g.r.choice((end, 2**31 - 1))
        starts.append(start)
        ends.append(end)
        steps.append(step)
    kind = g.r.choice((I64, I32))
    largest = np.iinfo(kind).max
    for at, step in enumerate(steps):  # ends beyond the tensor mean its end
        if g.chance(0.15) and step > 0 and starts[at] <= 0:
            starts[at] = g.r.choice((starts[at], -100, -largest)) if starts[at] == 0 else starts[at]
            ends[at] = g.r.choice((ends[at], 100, largest))
        elif g.chance(0.15) and step < 0:
            ends[at] = g.r.choice((ends[at], -largest)) if ends[at] < -g.shape(x)[axes[at]] else ends[at]
    default = axes == list(range(len(axes))) and g.chance(0.5)
    axes = [axis - rank if g.opset >= 11 and g.chance(0.2) else axis for axis in axes]
    if g.opset < 10:
        return g.node(op, [x], starts=starts, ends=ends, axes=None if default else axes)
    step = g.steer(steps, kind) if any(each != 1 for each in steps) or g.chance(0.3) else None
    return g.node(op, [x, g.steer(starts, kind), g.steer(ends, kind), None if default else g.steer(axes, kind), step])


@spec("Expand", train=True)
def expand(g, op):
    x = g.operand(op)
    shape = [g.size() if size == 1 and g.chance(0.6) else size if g.chance(0.6) else 1 for size in g.shape(x)]
    shape = shape[g.r.randint(0, len(shape)) if g.chance(0.1) else 0:]
    while len(shape) < 5 and len(shape) >= g.rank(x) and g.chance(0.3):
        shape.insert(0, g.size())
    return g.node(op, [x, g.steer(shape)])


@spec("Tile", train=True)
def tile(g, op):
    x = g.operand(op)
    repeats = [g.r.choice((1, 1, 2, 3)) for _ in range(g.rank(x))]
    if g.array(x).size * int(np.prod(repeats)) > g.most_elements:
        raise Skip
    return g.node(op, [x, g.steer(repeats)])


@spec("Trilu", train=True)
def trilu(g, op):
    x = g.operand(op, low=2)
    k = g.steer(g.r.randint(-3, 4)) if g.chance(0.6) else None
    return g.node(op, [x, k], upper=g.r.choice((None, 0, 1)))


@spec("Pad", train=True)
def pad(g, op):
    dtypes = g.dtypes(op)
    x = g.operand(op, low=1, dtypes=dtypes if g.opset >= 11 else dtypes & set(FLOATS))
    rank, shape = g.rank(x), g.shape(x)
    mode = g.r.choice((None, "constant", "constant", "reflect", "edge", *(["wrap"] if g.opset >= 19 else [])))
    axes = list(range(rank))
    if g.opset >= 18 and g.chance(0.3):
        axes = g.r.sample(axes, g.r.randint(1, rank))

    def amount(axis):
        if g.chance(0.1) and shape[axis] > 2:
            return -1
        most = 3 if mode in (None, "constant") else min(3, shape[axis] - (1 if mode == "reflect" else 0))
        return g.r.randint(0, max(0, most)) if g.chance(0.6) else 0

    pads = [amount(axis) for axis in axes * 2]
    if mode not in (None, "constant") and any(each < 0 for each in pads):
        pads = [max(0, each) for each in pads]
    if g.opset < 11:
        return g.node(op, [x], pads=pads, mode=mode, value=g.r.choice((None, 1.5, -2.0)))
    value = None
    if mode in (None, "constant") and g.chance(0.5):
        number = g.r.choice((0, 1, 2.5, -1.0, -np.inf)) if is_float(g.dtype(x)) else 1
        value = g.give(np.array(number, g.dtype(x)), g.r.choice(("initializer", "constant")), pickable=False)
    which = None
    if axes != list(range(rank)) or g.opset >= 18 and g.chance(0.2):
        which = g.steer([axis - rank if g.chance(0.3) else axis for axis in axes], g.r.choice((I64, I32)))
    return g.node(op, [x, g.steer(pads), value, which], mode=mode)


@spec("SpaceToDepth", "DepthToSpace", train=True)
def depth_and_space(g, op):
    block = g.r.choice((1, 2, 2, 3))
    image = op == "SpaceToDepth"

    def fits(array):
        shape = array.shape
        return shape[2] % block == 0 and shape[3] % block == 0 if image else shape[1] % block**2 == 0

    def make(dtype):
        b, c, h, w = g.r.choice((1, 2, 3)), g.r.randint(1, 3), g.r.randint(1, 4), g.r.randint(1, 4)
        return g.source([b, c, h * block, w * block] if image else [b, c * block**2, h, w], dtype)

    x = g.operand(op, low=4, high=4, where=fits, make=make)
    mode = g.r.choice((None, "DCR", "CRD")) if not image and g.opset >= 11 else None
    return g.node(op, [x], blocksize=block, mode=mode)
