# What is wrong with a node that writes or orders by index, or resamples, is an error at the node that says what was
# expected; an index that only a run can know is one of the run.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
node = helper.make_node
F, I = TensorProto.FLOAT, TensorProto.INT64


def model(name, made, opset, inputs, constants):
    graph = helper.make_graph(
        [made], name, [helper.make_tensor_value_info(key, *value) for key, value in inputs.items()],
        [helper.make_tensor_value_info("y", F, None)], [numpy_helper.from_array(value, key) for key, value in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), OUT / f"{name}.onnx")
    return OUT / f"{name}.onnx"


def ints(*values):
    return np.array(values, np.int64)


def floats(*values):
    return np.array(values, np.float32)


X, U = {"x": (F, [4, 6])}, {"x": (F, [4, 6]), "u": (F, [4, 2])}
IMAGE = {"x": (F, [1, 3, 8, 8])}
ROWS = ints(0, 1, 2, 3, 0, 1, 2, 3).reshape(4, 2)
for name, made, opset, inputs, constants, said in (
        ("rank", node("ScatterElements", ["x", "i", "u"], ["y"]), 18, U, {"i": ints(0)}, "indices have rank 1, expected 2"),
        ("outside", node("ScatterElements", ["x", "i", "u"], ["y"], axis=1), 18, U, {"i": ROWS + 3}, "index 6 is outside size 6"),
        ("updates", node("ScatterElements", ["x", "i", "u"], ["y"], axis=0), 18, {**X, "u": (F, [4, 3])}, {"i": ROWS},
         "updates are f32 4x3, expected f32 4x2"),
        ("larger", node("ScatterElements", ["x", "i", "u"], ["y"], axis=1), 18, {**X, "u": (F, [5, 1])}, {"i": ints(*[0] * 5).reshape(5, 1)},
         "indices are larger than data in dimension 0"),
        ("reduction", node("ScatterElements", ["x", "i", "u"], ["y"], axis=1, reduction="mean"), 18, U, {"i": ROWS},
         'reduction is "mean", expected none, add, mul, min or max'),
        ("axis", node("ScatterElements", ["x", "i", "u"], ["y"], axis=2), 18, U, {"i": ROWS}, "axis"),
        ("floats", node("ScatterND", ["x", "i", "u"], ["y"]), 18, U, {"i": floats(1)}, "indices are not integers"),
        ("depth", node("ScatterND", ["x", "i", "u"], ["y"]), 18, U, {"i": ints(0, 0, 0)}, "must be 1 to 2, the rank of data"),
        ("nd", node("ScatterND", ["x", "i", "u"], ["y"]), 18, {**X, "u": (F, [1, 6])}, {"i": ints(-5).reshape(1, 1)}, "index -5 is outside size 4"),
        ("nd-updates", node("ScatterND", ["x", "i", "u"], ["y"]), 18, {**X, "u": (F, [6])}, {"i": ints(0).reshape(1, 1)}, "expected f32 1x6"),
        ("cache", node("TensorScatter", ["x", "u"], ["y"], axis=0), 24, {**X, "u": (F, [1, 6])}, {}, "axis must be behind the batch"),
        ("mode", node("TensorScatter", ["x", "u"], ["y"], axis=1, mode="ring"), 24, U, {}, 'mode is "ring"'),
        ("long", node("TensorScatter", ["x", "u"], ["y"], axis=1), 24, {**X, "u": (F, [4, 7])}, {}, "7 positions, the cache 6"),
        ("k", node("TopK", ["x", "k"], ["y", ""]), 18, X, {"k": ints(7)}, "k is 7, expected 1 to 6"),
        ("k-shape", node("TopK", ["x", "k"], ["y", ""]), 18, X, {"k": ints(1, 2)}, "k must be one number"),
        ("k-input", node("TopK", ["x", "k"], ["y", ""]), 18, {**X, "k": (I, [1])}, {}, "k"),
        ("scales", node("Resize", ["x", "", "s"], ["y"]), 18, IMAGE, {"s": floats(1, 1, 2)}, "3 scales for 4 axes"),
        ("negative", node("Resize", ["x", "", "s"], ["y"]), 18, IMAGE, {"s": floats(1, 1, -2, 1)}, "scales must be positive"),
        ("none", node("Resize", ["x"], ["y"]), 18, IMAGE, {}, "either scales or sizes"),
        ("sizes", node("Resize", ["x", "", "", "s"], ["y"]), 18, IMAGE, {"s": ints(1, 3, 0, 8)}, "size 8 cannot become 0"),
        ("huge", node("Resize", ["x", "", "", "s"], ["y"]), 18, IMAGE, {"s": ints(1, 3, 1 << 40, 8)}, "cannot become"),
        ("how", node("Resize", ["x", "", "s"], ["y"], mode="lanczos"), 18, IMAGE, {"s": floats(1, 1, 2, 2)},
         'mode is "lanczos", expected nearest, linear, cubic'),
        ("dynamic", node("Resize", ["x", "", "s"], ["y"]), 18, {**IMAGE, "s": (F, [4])}, {}, "steers a shape and must be known.*--constant s="),
        ("roi", node("Resize", ["x", "", "s"], ["y"], coordinate_transformation_mode="tf_crop_and_resize"), 18, IMAGE,
         {"s": floats(1, 1, 2, 2)}, "roi must have a start and an end"),
        ("groups", node("ConvTranspose", ["x", "w"], ["y"], group=2), 18, IMAGE, {"w": np.ones((3, 2, 2, 2), np.float32)}, "do not fit group 2"),
        ("channels", node("ConvTranspose", ["x", "w"], ["y"]), 18, IMAGE, {"w": np.ones((4, 2, 2, 2), np.float32)}, "weights 4"),
        ("pads", node("ConvTranspose", ["x", "w"], ["y"], pads=[0, 0, -1, 0]), 18, IMAGE, {"w": np.ones((3, 2, 2, 2), np.float32)}, "negative pads"),
        ("empty", node("ConvTranspose", ["x", "w"], ["y"], pads=[9, 9, 9, 9]), 18, IMAGE, {"w": np.ones((3, 2, 2, 2), np.float32)}, "size 8 becomes -9"),
        ("shape", node("ConvTranspose", ["x", "w"], ["y"], output_shape=[1]), 18, IMAGE, {"w": np.ones((3, 2, 2, 2), np.float32)},
         "output_shape has 1 entries, expected 2"),
        ("strides", node("ConvTranspose", ["x", "w"], ["y"], strides=[1 << 31, 1]), 18, {"x": (F, [1, 3, 1 << 20, 1])}, {"w": np.ones((3, 2, 2, 2), np.float32)},
         "the result is too large: size 1048576 with stride 2147483648"),
        ("auto", node("ConvTranspose", ["x", "w"], ["y"], auto_pad="SAME"), 18, IMAGE, {"w": np.ones((3, 2, 2, 2), np.float32)},
         'auto_pad is "SAME", expected NOTSET, SAME_UPPER, SAME_LOWER or VALID')):
    made.name = "here"
    expect_error(checks, name, ["plan", model(name, made, opset, inputs, constants)], 2 if name in ("k-input", "dynamic") else 3, [f"here: .*{said}|{said}"])
# Positions up to a size that --dim gives, in a table of constants: another size mends it.
table = helper.make_graph(
    [helper.make_node("Shape", ["ids"], ["shape"]), helper.make_node("Gather", ["shape", "one"], ["length"]),
     helper.make_node("Range", ["zero", "length", "one"], ["positions"]), helper.make_node("Gather", ["table", "positions"], ["y"], "here")],
    "table", [helper.make_tensor_value_info("ids", I, ["batch", "seq"])], [helper.make_tensor_value_info("y", F, ["seq", 8])],
    [numpy_helper.from_array(np.ones((128, 8), np.float32), "table"), numpy_helper.from_array(np.array(0), "zero"), numpy_helper.from_array(np.array(1), "one")])
onnx.save(helper.make_model(table, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / "table.onnx")
expect_error(checks, "a size", ["plan", OUT / "table.onnx", "--dim=batch=2,seq=200"], 2,
             ["here: index 128 is outside size 128, with the sizes batch=2, seq=200"])
checks.expect("a smaller size", kerf("plan", OUT / "table.onnx", "--dim=batch=2,seq=128").returncode == 0)
# Indices that are inputs: the run says which node, and which index.
path = model("run", node("ScatterElements", ["x", "i", "u"], ["y"], axis=1, name="here"), 18,
             {**U, "i": (I, [4, 2])}, {})
np.savez(OUT / "run.npz", x=np.ones((4, 6), np.float32), u=np.ones((4, 2), np.float32), i=ROWS + 4)
expect_error(checks, "run", ["run", path, f"--input=@{OUT}/run.npz"], 5, ["here.*index 6|index 6.*here"])
checks.finish()
