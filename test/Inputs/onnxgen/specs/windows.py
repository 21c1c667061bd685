"""Convolutions, pools, batch normalization, LRN: images of one to three dimensions, channels first."""
import numpy as np

from ..arrays import F32, FLOATS
from ..graph import Skip
from . import spec


def image(g, op, dtypes=None):
    """A value of rank 3 to 5, or a new image."""
    def make(dtype):
        spatial = g.r.choice((1, 2, 2, 2, 3))
        side = {1: 12, 2: 7, 3: 4}[spatial]
        return g.source([g.r.choice((1, 1, 2, 3, 4)), g.r.choice((1, 2, 3, 4, 6, 8)),
                         *[g.r.randint(1, side) for _ in range(spatial)]], dtype)

    x = g.operand(op, dtypes=dtypes or g.dtypes(op) & set(FLOATS), low=3, high=5, make=make)
    if 0 in g.shape(x)[1:]:
        raise Skip
    return x


def window(g, sizes, kernel, dilated, pool):
    """Attributes of a window that fits: pads or auto_pad, strides, dilations."""
    attributes = {}
    rank = len(sizes)
    dilations = [1] * rank
    if dilated and g.chance(0.25):
        dilations = [g.r.choice((1, 2)) for _ in range(rank)]
        attributes["dilations"] = dilations
    if g.chance(0.45):
        attributes["strides"] = [g.r.choice((1, 2, 2, 3)) for _ in range(rank)]
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
    form = g.r.random()
    if form < 0.25:
        attributes["auto_pad"] = g.r.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
        if attributes["auto_pad"] != "VALID":
            # The formula's pads become negative where a stride skips elements; libraries disagree on them.
            if any(each != 1 for each in dilations) or any(
                    stride > k for stride, k in zip(attributes.get("strides", ()), kernel)):
                raise Skip
            return attributes
        pads = [0] * (2 * rank)
    elif form < 0.7:
        most = [min(k - 1, 2) if pool else 2 for k in kernel] * 2
        pads = [g.r.randint(0, each) for each in most]
        if g.chance(0.5):
            pads[rank:] = pads[:rank]
        attributes["pads"] = pads
    else:
        pads = [0] * (2 * rank)
    if any(size + pads[dim] + pads[dim + rank] < span for dim, (size, span) in enumerate(zip(sizes, spans))):
        raise Skip
    return attributes


@spec("Conv", train=True)
def conv(g, op):
    x = image(g, op)
    channels, sizes = g.shape(x)[1], g.shape(x)[2:]
    groups = 1
    if g.chance(0.3):
        groups = g.r.choice([each for each in range(1, channels + 1) if channels % each == 0])
    out = groups * g.r.choice((1, 1, 2, 3, 4) if groups > 1 else (1, 2, 3, 4, 5, 8))
    kernel = [g.r.randint(1, max(1, min(3, size + 1))) for size in sizes]
    w = g.weight([out, channels // groups, *kernel], g.dtype(x)) if g.chance(0.9) else g.source(
        [out, channels // groups, *kernel], g.dtype(x))
    bias = g.weight([out], g.dtype(x)) if g.chance(0.6) else None
    attributes = window(g, sizes, kernel, dilated=True, pool=False)
    y = g.node(op, [x, w, bias], group=groups if groups > 1 or g.chance(0.3) else None,
               kernel_shape=kernel if g.chance(0.5) else None, **attributes)
    if g.chance(0.25):  # as speech encoders and channels-last models go on
        rank = g.rank(y)
        y = g.node("Transpose", [y], perm=[0, *range(2, rank), 1])
        other = g.weight(g.shape(y)[g.r.randint(0, rank):], g.dtype(y))
        y = g.node(g.r.choice(("Add", "Mul", "Sub")), [y, other] if g.chance(0.6) else [other, y])
    return y


@spec("ConvTranspose", train=True)
def conv_transpose(g, op):
    x = image(g, op, g.dtypes(op) & {F32})
    channels, sizes = g.shape(x)[1], g.shape(x)[2:]
    groups = 1
    if g.chance(0.3):
        groups = g.r.choice([each for each in range(1, channels + 1) if channels % each == 0])
    rank = len(sizes)
    out = g.r.choice((1, 2, 3))
    kernel = [g.r.randint(1, 3) for _ in sizes]
    strides = [g.r.choice((1, 1, 2, 3)) for _ in sizes]
    dilations = [g.r.choice((1, 1, 1, 2)) for _ in sizes]
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
    attributes = {}
    form = g.r.random()
    if form < 0.5:
        pads = [g.r.randint(0, min(2, span - 1)) for span in spans] * 2
        if g.chance(0.4):
            pads[rank:] = [g.r.randint(0, min(2, span - 1)) for span in spans]
        attributes["pads"] = pads
    elif form < 0.6:
        attributes["auto_pad"] = "VALID"
    elif form < 0.75 and all(span >= stride for span, stride in zip(spans, strides)):
        attributes["auto_pad"] = g.r.choice(("SAME_UPPER", "SAME_LOWER"))
    if "auto_pad" not in attributes and g.chance(0.3):
        attributes["output_padding"] = [g.r.randint(0, max(stride, dilation) - 1)
                                        for stride, dilation in zip(strides, dilations)]
    w = g.weight([channels, out, *kernel], g.dtype(x))
    bias = g.weight([out * groups], g.dtype(x)) if g.chance(0.5) else None
    return g.node(op, [x, w, bias], group=groups if groups > 1 or g.chance(0.3) else None,
                  strides=strides if set(strides) != {1} or g.chance(0.3) else None,
                  dilations=dilations if set(dilations) != {1} or g.chance(0.3) else None,
                  kernel_shape=kernel if g.chance(0.5) else None, **attributes)


def resized(g, sizes):
    """New sizes, and the scales that give them exactly."""
    scales = [g.r.choice((1, 1, 2, 2, 3, 0.5, 1.5)) for _ in sizes]
    return scales, [int(size * scale) for size, scale in zip(sizes, scales)]


@spec("Upsample", train=True)
def upsample(g, op):
    x = image(g, op, g.dtypes(op) & {F32})
    scales = [1.0, 1.0, *[float(g.r.choice((1, 2, 3))) for _ in g.shape(x)[2:]]]
    mode = g.r.choice(("nearest", "linear" if g.rank(x) == 4 else "nearest"))
    if g.opset < 9:
        return g.node(op, [x], mode=mode, scales=scales)
    return g.node(op, [x, g.give(np.array(scales, F32), "initializer", "s", pickable=False)], mode=mode)


@spec("Resize", train=True)
def resize(g, op):
    x = image(g, op, g.dtypes(op) & {F32})
    sizes = g.shape(x)[2:]
    scales, to = resized(g, sizes)
    mode = g.r.choice(("nearest", "linear", *(["cubic"] if g.rank(x) == 4 and g.opset >= 11 else [])))
    if 0 in to or (mode == "linear" and g.rank(x) == 3):
        raise Skip
    given = g.give(np.array([1, 1, *scales], F32), "initializer", "s", pickable=False)
    if g.opset < 11:
        return g.node(op, [x, given], mode=mode)
    coordinates = g.r.choice((None, "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"))
    # Positions half way between two elements are decided by how scales are rounded.
    nearest = g.r.choice((None, "floor", "ceil", "round_prefer_ceil")) if mode == "nearest" else None
    if mode == "nearest" and (coordinates == "align_corners" or any(scale == 1.5 for scale in scales)):
        raise Skip
    if g.chance(0.5):
        given, sizes_given = "", g.steer([*g.shape(x)[:2], *to])
    else:
        sizes_given = None
    return g.node(op, [x, None, given or None, sizes_given], mode=mode, coordinate_transformation_mode=coordinates,
                  nearest_mode=nearest, cubic_coeff_a=-0.5 if mode == "cubic" and g.chance(0.3) else None)


@spec("CenterCropPad", train=True)
def center_crop_pad(g, op):
    x = g.operand(op, low=1, dtypes=g.dtypes(op) & set(FLOATS))
    rank = g.rank(x)
    if 0 in g.shape(x) or g.array(x).size > 400:
        raise Skip
    axes = g.r.sample(range(rank), g.r.randint(1, rank))
    sizes = [max(1, g.shape(x)[axis] + g.r.randint(-3, 2)) for axis in axes]
    if len(axes) == rank and g.chance(0.4):
        order = sorted(range(rank), key=lambda at: axes[at])
        return g.node(op, [x, g.steer([sizes[at] for at in order])])
    return g.node(op, [x, g.steer(sizes)], axes=axes)


@spec("GridSample", train=True)
def grid_sample(g, op):
    x = image(g, op, g.dtypes(op) & {F32})
    spatial = g.rank(x) - 2
    if spatial == 1 or (spatial == 3 and g.opset < 20):
        raise Skip
    positions = g.source([g.shape(x)[0], *[g.r.randint(1, 4) for _ in range(spatial)], spatial], F32, -1.3, 1.3, specials=False,
                         pickable=False)
    modes = ("bilinear", "bicubic") if g.opset < 20 else ("linear", "cubic") if spatial == 2 else ("linear",)
    return g.node(op, [x, positions], mode=g.r.choice(modes), padding_mode=g.r.choice(("zeros", "border", "reflection")),
                  align_corners=g.r.choice((None, 0, 1)))


@spec("AffineGrid", train=True)
def affine_grid(g, op):
    spatial = g.r.choice((2, 3))
    batch = g.r.choice((1, 2))
    theta = g.source([batch, spatial, spatial + 1], F32)
    return g.node(op, [theta, g.steer([batch, 3, *[g.r.randint(2, 5) for _ in range(spatial)]])],
                  align_corners=g.r.choice((None, 0, 1)))


@spec("MaxUnpool", train=True)
def max_unpool(g, op):
    x = g.source([g.r.choice((1, 2)), g.r.choice((1, 3)), *[g.r.randint(1, 4) for _ in range(g.r.choice((1, 2, 2, 3)))]], F32)
    shape = g.shape(x)
    kernel = [2] * (len(shape) - 2)
    made = [*shape[:2], *[2 * size for size in shape[2:]]]
    places = g.rng.permutation(int(np.prod(made)))[:int(np.prod(shape))].reshape(shape)
    return g.node(op, [x, g.give(places.astype(np.int64), pickable=False)], kernel_shape=kernel, strides=kernel)


@spec("Col2Im", train=True)
def col2im(g, op):
    rank = g.r.choice((1, 2, 2))
    sizes = [g.r.randint(3, 6) for _ in range(rank)]
    block = [g.r.randint(1, 3) for _ in range(rank)]
    strides = [g.r.choice((1, 2)) for _ in range(rank)]
    pads = [g.r.choice((0, 1)) for _ in range(rank)] * 2
    count = [(size + 2 * pad - k) // stride + 1 for size, pad, k, stride in zip(sizes, pads, block, strides)]
    x = g.source([g.r.choice((1, 2)), g.r.choice((1, 2, 3)) * int(np.prod(block)), int(np.prod(count))], F32)
    return g.node(op, [x, g.steer(sizes), g.steer(block)], strides=strides, pads=pads, dilations=[1] * rank)


@spec("MaxPool", "AveragePool", train=True)
def pool(g, op):
    largest = op == "MaxPool"
    x = image(g, op)
    sizes = g.shape(x)[2:]
    kernel = [g.r.randint(1, max(1, min(3, size + 1))) for size in sizes]
    attributes = window(g, sizes, kernel, dilated=g.opset >= (10 if largest else 19), pool=True)
    if g.opset >= 10 and g.chance(0.3):
        attributes["ceil_mode"] = g.r.choice((0, 1))
    if largest and g.opset >= 8 and g.chance(0.1):
        attributes["storage_order"] = 1
    if not largest and g.opset >= 7 and g.chance(0.4):
        attributes["count_include_pad"] = g.r.choice((0, 1))
    return g.node(op, [x], kernel_shape=kernel, **attributes)


@spec("GlobalAveragePool", "GlobalMaxPool", train=True)
def global_pool(g, op):
    return g.node(op, [image(g, op)])


@spec("BatchNormalization", train=True)
def batch_norm(g, op):
    x = g.operand(op, low=2, dtypes=g.dtypes(op) & set(FLOATS))
    channels, dtype = g.shape(x)[1], g.dtype(x)
    vectors = [g.weight([channels], dtype), g.weight([channels], dtype), g.weight([channels], dtype),
               g.weight([channels], dtype, low=0.3, high=2.0, specials=False)]
    return g.node(op, [x, *vectors], epsilon=g.r.choice((None, 1e-3)), momentum=g.r.choice((None, 0.8)))


@spec("LRN", train=True)
def lrn(g, op):
    x = image(g, op)
    return g.node(op, [x], size=g.r.choice((1, 3, 3, 5)), alpha=g.r.choice((None, 0.1, 0.5)),
                  beta=g.r.choice((None, 0.5, 1.0)), bias=g.r.choice((None, 2.0)))
