# Resize and Upsample (every mode, coordinates, rounding, factors up and down, policies), transposed convolutions
# (strides, dilations, groups, pads of either side, output_padding, output_shape, automatic pads), in one, two and three
# dimensions, and images that are read and written at computed places. Against ONNX Runtime, on one rank and, every sixth
# model (with --full each), cut at random.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import itertools
import sys
import zlib

import numpy as np

sys.path.insert(0, sys.argv.pop(2))
from onnx_cases import Suite

suite = Suite("resampling", sys.argv, spread=6, pack=32)


def take(*key, of=4):
    return suite.full or zlib.crc32(repr(key).encode()) % of == 0


COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
SIZES = {"up": (2.0, 3.0), "down": (0.5, 0.25), "both": (0.5, 2.0), "odd": (1.5, 0.75), "one": (1.0, 2.0), "least": (0.125, 0.2)}
SHAPE = (2, 3, 8, 12)


def by(g, factors, sized):
    """Scales or sizes of an image."""
    if sized:
        return "", "", g.ints(*SHAPE[:2], *(max(1, int(size * f)) for size, f in zip(SHAPE[2:], factors)))
    return "", g.const(np.array([1, 1, *factors], np.float32))


for (name, factors), mode, coordinates, sized in itertools.product(SIZES.items(), ("linear", "cubic"), COORDINATES, (0, 1)):
    # Where a scale does not give a whole size ONNX's own tests and ONNX Runtime differ.
    if name == "least" and not sized:
        continue
    exclude = mode == "cubic" and zlib.crc32(repr((name, coordinates, sized)).encode()) % 2

    def interpolated(g, factors=factors, mode=mode, coordinates=coordinates, sized=sized, exclude=exclude):
        x = g.Conv(g.x(*SHAPE), g.c(3, 3, 1, 1))
        return g.Relu(g.Resize(x, *by(g, factors, sized), mode=mode, coordinate_transformation_mode=coordinates,
                               exclude_outside=exclude))
    suite.case(f"Resize {name} {mode} {coordinates} {sized} {exclude}", interpolated)


def infinite(g, *shape):
    """A half of the elements are infinite."""
    return g.Div(g.x(*shape), g.Relu(g.x(*shape)))


# Infinities stay where they are: what has no part in a sum is not multiplied by 0.
suite.case("Col2Im of infinities", lambda g: g.Col2Im(infinite(g, 2, 12, 25), g.ints(6, 6), g.ints(2, 2)))
for (name, factors), coordinates, nearest in itertools.product(
        SIZES.items(), COORDINATES, ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")):
    # Positions half way between two elements depend on how a quotient is rounded.
    if name in ("odd", "least") or not take(name, coordinates, nearest, of=2):
        continue

    def nearest_to(g, factors=factors, coordinates=coordinates, nearest=nearest):
        return g.Resize(g.x(*SHAPE), *by(g, factors, False), mode="nearest", coordinate_transformation_mode=coordinates,
                        nearest_mode=nearest)
    suite.case(f"Resize {name} nearest {coordinates} {nearest}", nearest_to)
for mode, policy, axes in itertools.product(("nearest", "linear"), ("not_larger", "not_smaller"), ((2, 3), (3, 2))):
    def kept(g, mode=mode, policy=policy, axes=axes):
        return g.Resize(g.x(*SHAPE), "", "", g.ints(7, 9), mode=mode, axes=list(axes), keep_aspect_ratio_policy=policy)
    suite.case(f"Resize {mode} {policy} {axes}", kept)
for mode, roi in itertools.product(("linear", "nearest", "cubic"), ((0.2, 0.1, 0.8, 0.9), (-0.4, 0.1, 1.3, 0.9))):
    def cropped(g, mode=mode, roi=roi):
        return g.Resize(g.x(*SHAPE), g.const(np.array([0, 0, *roi[:2], 1, 1, *roi[2:]], np.float32)), "", g.ints(2, 3, 5, 6),
                        mode=mode, coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.0)
    suite.case(f"Resize crop {mode} {roi}", cropped)
for shape, sizes in (((2, 3, 7), (2, 3, 11)), ((2, 3, 4, 5, 6), (2, 3, 7, 10, 3))):
    def any_rank(g, shape=shape, sizes=sizes):
        return g.Resize(g.x(*shape), "", "", g.ints(*sizes), mode="linear")
    suite.case(f"Resize linear {shape}", any_rank)
    def nearest_of(g, shape=shape, sizes=sizes):
        return g.Resize(g.x(*shape), "", "", g.ints(*sizes), mode="nearest", coordinate_transformation_mode="asymmetric",
                        nearest_mode="floor")
    suite.case(f"Resize nearest {shape}", nearest_of)

IMAGES = {1: (7,), 2: (5, 4), 3: (3, 4, 2)}
KERNELS = {1: ((1,), (3,), (4,)), 2: ((1, 1), (2, 2), (3, 2), (4, 4)), 3: ((2, 2, 2), (1, 3, 2))}
GROUPS = {"plain": (3, 4, 1), "two groups": (4, 3, 2), "depthwise": (6, 1, 6), "to one": (5, 1, 1)}
for rank in IMAGES:
    for kernel, stride, dilation, pad, more, group in itertools.product(
            KERNELS[rank], (1, 2, 3), (1, 2), ("none", "same", "low", "VALID", "SAME_UPPER", "SAME_LOWER", "shape"), (0, 1), GROUPS):
        if not take(rank, kernel, stride, dilation, pad, more, group, of=12) or (more and stride == 1):
            continue
        spans = [dilation * (k - 1) + 1 for k in kernel]
        if pad in ("same", "low") and min(spans) < 2 or (pad in ("SAME_UPPER", "SAME_LOWER", "shape", "VALID") and more):
            continue
        if pad.startswith("SAME") and min(spans) < stride:
            continue

        def transposed(g, rank=rank, kernel=kernel, stride=stride, dilation=dilation, pad=pad, more=more, group=group,
                       spans=spans):
            channels, out, groups = GROUPS[group]
            attributes = dict(strides=[stride] * rank, dilations=[dilation] * rank, group=groups)
            if pad in ("same", "low"):
                attributes["pads"] = [1] * rank + [1 if pad == "same" else 0] * rank
            elif pad == "shape":
                attributes["output_shape"] = [stride * (size - 1) + span - (span > 2)
                                              for size, span in zip(IMAGES[rank], spans)]
            elif pad != "none":
                attributes["auto_pad"] = pad
            if more:
                attributes["output_padding"] = [1] * rank
            x = g.Relu(g.x(2, channels, *IMAGES[rank]))
            return g.Relu(g.ConvTranspose(x, g.c(channels, out, *kernel), g.c(out * groups), **attributes))
        suite.case(f"ConvTranspose{rank} {kernel} stride {stride} dilation {dilation} {pad} {more} {group}", transposed)

for mode, padding, align, image in itertools.product(
        ("nearest", "linear", "cubic"), ("zeros", "border", "reflection"), (0, 1), ((5, 7), (1, 4), (3, 4, 2))):
    if mode == "cubic" and len(image) == 3:
        continue

    def sampled(g, mode=mode, padding=padding, align=align, image=image):
        positions = g.x(2, *[4] * len(image), len(image))
        return g.GridSample(g.Relu(g.x(2, 3, *image)), g.Mul(positions, g.const(0.8)), mode=mode, padding_mode=padding,
                            align_corners=align)
    suite.case(f"GridSample {mode} {padding} {align} {image}", sampled)
for align, sizes in itertools.product((0, 1), ((2, 3, 4, 5), (2, 3, 3, 4, 2))):
    def affine(g, align=align, sizes=sizes):
        return g.AffineGrid(g.x(2, len(sizes) - 2, len(sizes) - 1), g.ints(*sizes), align_corners=align)
    suite.case(f"AffineGrid {align} {sizes}", affine)
for kernel, strides, pads, dilations in (((2, 3), (1, 1), (0, 0), (1, 1)), ((3, 2), (2, 1), (1, 0), (1, 1)), ((2, 2), (1, 2), (0, 1), (2, 1))):
    def columns(g, kernel=kernel, strides=strides, pads=pads, dilations=dilations):
        count = [(6 + 2 * pad - (k - 1) * dilation - 1) // stride + 1
                 for k, stride, pad, dilation in zip(kernel, strides, pads, dilations)]
        x = g.x(2, 3 * kernel[0] * kernel[1], count[0] * count[1])
        return g.Col2Im(x, g.ints(6, 6), g.ints(*kernel), strides=list(strides), pads=[*pads, *pads], dilations=list(dilations))
    suite.case(f"Col2Im {kernel} {strides} {pads} {dilations}", columns)
for sizes, axes in (((2, 3, 5, 20), None), ((11, 5), (3, 2)), ((2,), (-2,))):
    def centred(g, sizes=sizes, axes=axes):
        return g.CenterCropPad(g.x(*SHAPE), g.ints(*sizes), **(dict(axes=list(axes)) if axes else {}))
    suite.case(f"CenterCropPad {sizes} {axes}", centred)


def unpooled(g):
    x = g.Relu(g.x(2, 3, 2, 4))
    places = np.random.default_rng(3).permutation(2 * 3 * 4 * 8)[:48].reshape(2, 3, 2, 4)
    return g.MaxUnpool(x, g.const(places, np.int64), kernel_shape=[2, 2], strides=[2, 2])


suite.case("MaxUnpool", unpooled)
suite.finish()
