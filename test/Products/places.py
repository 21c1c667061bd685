# Images read at computed places, places of maxima, determinants, diagonals, what constants select, n-grams, products of
# bytes as convolutions: against ONNX Runtime, on one rank and, every fourth model, cut at random. Of three products of
# values every pair of two; `--full` (full.test) has the whole products and cuts every model.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import itertools
import sys

import numpy as np

sys.path.insert(0, sys.argv.pop(2))
from onnx_cases import Suite, covering

suite = Suite("places", sys.argv, pack=12, opset=21, spread=4)
random = np.random.default_rng(11)

# Regions: within, over the border, far outside, turned round, of no size.
REGIONS = np.array([[0.3, 1.2, 7.1, 5.8], [-3, -2, 4, 20], [30, 40, 50, 60], [5, 5, 2, 1], [3, 3, 3, 3], [0, 0, 9, 7]], np.float32)
IMAGES = np.array([0, 1, 1, 0, 1, 0], np.int64)
def product(*factors):
    return itertools.product(*factors) if suite.full else covering(factors)


for mode, frame, size, ratio, scale in product(("avg", "max"), ("half_pixel", "output_half_pixel"), ((1, 1), (3, 2)), (1, 3), (1.0, 0.5)):
    suite.case(f"regions {mode} {frame} {size} {ratio} {scale}", lambda g, m=mode, f=frame, s=size, r=ratio, c=scale: g.op(
        "RoiAlign", g.x(2, 3, 8, 10), g.given(REGIONS), g.const(IMAGES), mode=m, coordinate_transformation_mode=f,
        output_height=s[0], output_width=s[1], sampling_ratio=r, spatial_scale=c))

# Bags of rows, reduced one after the other, as PyTorch's exporter writes EmbeddingBag; the last mean is a division.
def bags(g, how):
    x, parts = g.x(12, 5), []
    for i in range(4):
        rows = g.op("Slice", x, g.ints(3 * i), g.ints(3 * i + 3), g.ints(0))
        last = how == "ReduceMean" and i == 3
        row = g.op("ReduceSum" if last else how, rows, g.ints(0), keepdims=1)
        parts.append(g.op("Div", row, g.const(3.0)) if last else row)
    return g.MatMul(g.op("Concat", *parts, axis=0), g.c(5, 4))


for how in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"):
    suite.case(f"bags {how}", lambda g, h=how: bags(g, h))

for kernel, group, offsets, masked, more in product(((1, 1), (2, 3)), (1, 2), (1, 2), (False, True), ({}, {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]})):
    def deformed(g, kernel=kernel, group=group, offsets=offsets, masked=masked, more=more):
        sizes, taps = (7, 9), kernel[0] * kernel[1]
        stride, pads, dilation = more.get("strides", [1, 1]), more.get("pads", [0] * 4), more.get("dilations", [1, 1])
        out = [(sizes[d] + pads[d] + pads[d + 2] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1 for d in range(2)]
        offset = random.uniform(-3, 3, (2, offsets * taps * 2, *out)).astype(np.float32)
        mask = [g.given(random.uniform(0, 1, (2, offsets * taps, *out)).astype(np.float32))] if masked else []
        return g.op("DeformConv", g.x(2, 4, *sizes), g.const(random.standard_normal((6, 4 // group, *kernel)).astype(np.float32)),
                    g.given(offset), g.const(np.arange(6, dtype=np.float32)), *mask, group=group, offset_group=offsets, **more)
    suite.case(f"deformed {kernel} {group} {offsets} {masked} {bool(more)}", deformed)

for shape, more in (((2, 3, 9), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}), ((2, 3, 7, 8), {"kernel_shape": [2, 3]}),
                    ((2, 3, 7, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
                    ((1, 2, 7, 8), {"kernel_shape": [2, 2], "dilations": [2, 3]}),
                    ((2, 2, 7, 8), {"kernel_shape": [2, 3], "strides": [2, 2], "storage_order": 1}),
                    ((2, 2, 5, 6), {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1}),
                    ((1, 2, 4, 5, 6), {"kernel_shape": [2, 2, 3], "pads": [1, 0, 1, 0, 1, 1]})):
    suite.case(f"maxima {shape} {more}", lambda g, s=shape, m=more: g.op("MaxPool", g.x(*s), results=2, **m))
# Equal elements: the first.
suite.case("equal maxima", lambda g: g.op("MaxPool", g.given((np.arange(84).reshape(1, 2, 6, 7) % 3).astype(np.float32)), results=2,
                                          kernel_shape=[3, 3], pads=[1, 1, 1, 1]))

for shape in ((3, 3), (2, 5, 5), (2, 3, 1, 1), (4, 8, 8)):
    suite.case(f"determinants {shape}", lambda g, s=shape: g.op("Det", g.given(random.standard_normal(s).astype(np.float32))))
suite.case("singular", lambda g: g.op("Det", g.given(np.array([[[0, 1, 2], [0, 3, 4], [0, 5, 7]], [[0, 2, 1], [3, 0, 0], [0, 0, 4]]], np.float32))))

for equation, shape in (("ii->i", (4, 4)), ("ii->", (4, 4)), ("bii->bi", (3, 4, 4)), ("iji->j", (3, 5, 3)), ("iijj->ij", (3, 3, 2, 2)), ("iii->i", (3, 3, 3))):
    suite.case(f"diagonal {equation}", lambda g, e=equation, s=shape: g.op("Einsum", g.x(*s), equation=e))

CHOICE = np.array([True, False, True, True])
for axis in (None, 0, 1, -1):
    suite.case(f"chosen {axis}", lambda g, a=axis: g.op("Compress", g.x(4, 4, 3) if a != -1 else g.x(3, 3, 4), g.const(CHOICE),
                                                        **({} if a is None else {"axis": a})))
SMALL = (np.arange(24).reshape(2, 3, 4) * 7 % 5).astype(np.float32)
suite.case("not zero", lambda g: [g.op("NonZero", g.const(SMALL)), g.op("NonZero", g.const(SMALL > 2))])
ROWS = np.array([[[1, 0], [1, 0], [2, 3], [1, 0], [0, 9]], [[2, 2], [2, 2], [0, 1], [2, 2], [0, 1]]], np.float32)
for sorts, axis in itertools.product((0, 1), (None, 0, 1, -1)):
    suite.case(f"different {sorts} {axis}", lambda g, s=sorts, a=axis: g.op("Unique", g.const(ROWS), results=4, sorted=s,
                                                                            **({} if a is None else {"axis": a})))

for mode, lengths, skips in product(("TF", "IDF", "TFIDF"), ((1, 1), (2, 2), (1, 2)), (0, 2)):
    suite.case(f"n-grams {mode} {lengths} {skips}", lambda g, m=mode, n=lengths, s=skips: g.op(
        "TfIdfVectorizer", g.given(np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int64)), mode=m, min_gram_length=n[0],
        max_gram_length=n[1], max_skip_count=s, ngram_counts=[0, 4], ngram_indexes=[0, 1, 2, 3, 5, 4, 6],
        pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7], weights=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]))


def of_bytes(g, dtype, *shape, most=127):
    return g.given((np.arange(np.prod(shape)).reshape(shape) * 37 % most - (0 if dtype is np.uint8 else most // 2)).astype(dtype))


for group, more in ((1, {}), (2, {"strides": [2, 1], "pads": [1, 2, 0, 1]}), (4, {"dilations": [2, 1]}), (1, {"auto_pad": "SAME_UPPER"})):
    suite.case(f"convolution {group} {more}", lambda g, n=group, m=more: g.op(
        "ConvInteger", of_bytes(g, np.uint8, 2, 4, 6, 7), of_bytes(g, np.uint8, 8, 4 // n, 2, 3), g.const(np.uint8(30)), g.const(np.uint8(60)),
        group=n, **m))
    suite.case(f"convolution to bytes {group} {more}", lambda g, n=group, m=more: g.op(
        "QLinearConv", of_bytes(g, np.uint8, 2, 4, 6, 7), g.const(np.float32(0.5)), g.const(np.uint8(60)),
        g.const(np.resize(np.arange(-60, 60, 7), (8, 4 // n, 2, 3)).astype(np.int8)), g.const((2.0 ** -(np.arange(8) % 3)).astype(np.float32)),
        g.const(np.zeros(8, np.int8)), g.const(np.float32(32)), g.const(np.uint8(120)), g.const(np.arange(-400, 400, 100).astype(np.int32)),
        group=n, **m))
suite.finish()
