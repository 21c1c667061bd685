# What operators give at the corners of their definitions, against NumPy, and what is no such operator: NaN
# under a pool, thresholds with a fraction or out of range, scalars, floats of 8 bits in products, shapes of scales and zero
# points that would only broadcast.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
node, F, I64, F8 = helper.make_node, TensorProto.FLOAT, TensorProto.INT64, TensorProto.FLOAT8E4M3FN


def model(name, nodes, inputs, outputs, constants=()):
    """`inputs`: name -> (type, shape), `outputs`: name -> type, `constants`: name -> array or tensor."""
    made = [value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(value, key) for key, value in dict(constants).items()]
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info(key, *value) for key, value in inputs.items()],
                              [helper.make_tensor_value_info(key, value, None) for key, value in outputs.items()], made)
    path = OUT / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("ai.onnx.preview", 1)], ir_version=10), path)
    return path


def run(path, **inputs):
    """The outputs by name, or what was said instead."""
    folder = OUT / f"{path.stem}.out"
    given = []
    for key, value in inputs.items():
        np.save(OUT / f"{key}.npy", value)
        given.append(f"--input={key}=@{OUT / key}.npy")
    result = kerf("run", path, *given, "-q", f"--output-dir={folder}")
    return {file.stem: np.load(file) for file in folder.glob("*.npy")} if result.returncode == 0 else result.stderr


def same(name, found, expected):
    checks.expect(name, not isinstance(found, str) and found.dtype == expected.dtype and np.array_equal(found, expected, equal_nan=found.dtype.kind == "f"),
                  [found, expected])


# What is no number is the largest of its window, and it is that of which the index is asked for.
image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)[..., ::-1].copy()
image[0, 0, 2, 2] = image[0, 0, 3, 1] = np.nan
pool = model("pool", [node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], strides=[2, 2])], {"x": (F, [1, 1, 4, 4])}, {"y": F, "i": I64})
found = run(pool, x=image)
windows = image.reshape(2, 2, 2, 2).swapaxes(1, 2).reshape(4, 4)  # ONNX Runtime's maximum depends on where the NaN stands
first = np.argmax(windows, axis=1)  # of NumPy: the first NaN, else the first of the largest
same("NaN under a pool: y", found["y"], windows[range(4), first].reshape(1, 1, 2, 2))
same("NaN under a pool: i", found["i"], np.int64([8 * (n // 2) + 2 * (n % 2) + 4 * (k // 2) + k % 2 for n, k in enumerate(first)]).reshape(1, 1, 2, 2))
wide = model("wide", [node("MaxPool", ["x"], ["y", "i"], "here", kernel_shape=[2, 2], pads=[1 << 26, 0, 1 << 26, 0], strides=[1 << 27, 1])],
             {"x": (F, [1, 1, 2, 2])}, {"i": I64})
expect_error(checks, "pads of more than a window", ["plan", wide], 3, ["here.*pads less than the window are taken|pads less than the window"])

# Integers above a threshold that is none.
for kind, dtype in ((I64, np.int64), (TensorProto.INT32, np.int32), (F, np.float32)):
    numbers = np.array([-2, -1, 0, 1, 2], dtype)
    for threshold in (-0.5, 0.5, 1.0, 3e9, -1e30, 1e30):
        path = model("binarizer", [node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=threshold)], {"x": (kind, [5])}, {"y": kind})
        same(f"Binarizer {dtype.__name__} {threshold}", run(path, x=numbers)["y"], (numbers > np.float32(threshold)).astype(dtype))

same("NonZero of a scalar", run(model("scalar", [node("NonZero", ["c"], ["y"])], {}, {"y": I64}, {"c": np.float32(5)}))["y"], np.zeros((0, 1), np.int64))

# To integers of 4 and 2 bits ONNX rounds, to even where it is in the middle.
numbers = np.array([2.7, -2.7, 0.5, 1.5, 2.5, 3.5, -1.5, 6.6], np.float32)
for kind in (TensorProto.INT4, TensorProto.INT2):
    few = numbers if kind == TensorProto.INT4 else np.clip(numbers, -2, 1)
    path = model("cast", [node("Cast", ["x"], ["q"], to=kind), node("Cast", ["q"], ["y"], to=F)], {"x": (F, [8])}, {"y": F})
    same(f"Cast to type {kind}", run(path, x=few)["y"], np.rint(few) + 0)

# Products of floats of 8 bits keep fractions; those of integers take integers alone.
a, b = np.array([[0.5, 1.5], [2.5, -0.75]], np.float32), np.array([[1.5, 0.25], [-0.5, 3.0]], np.float32)
casts = [node("Cast", [name], [f"{name}8"], to=F8) for name in "ab"]
zero = helper.make_tensor("zero", F8, [], [0.0])
for scale in (1.0, 0.25):
    path = model("float8", [*casts, node("QLinearMatMul", ["a8", "one", "zero", "b8", "one", "zero", "scale", "zero"], ["y8"]), node("Cast", ["y8"], ["y"], to=F)],
                 {"a": (F, [2, 2]), "b": (F, [2, 2])}, {"y": F}, {"one": np.float32(1), "scale": np.float32(scale), "zero": zero})
    same(f"float8 product by {scale}", run(path, a=a, b=b)["y"], (a @ b / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float32))
for operator, inputs in (("MatMulInteger", ["a", "b"]), ("MatMulInteger", ["a8", "b8"])):
    path = model("no-integers", [*casts, node(operator, inputs, ["y"], "here")], {"a": (F, [2, 2]), "b": (F, [2, 2])}, {"y": TensorProto.INT32})
    expect_error(checks, f"{operator} of {inputs[0]}", ["plan", path], 3, ["here: input 0 is not of integers of 8 bits"])

# Scales and zero points have the shapes that ONNX names.
bytes_, U8 = np.ones((1, 1, 2, 2), np.uint8), TensorProto.UINT8
CONV = {"w": bytes_, "s": np.float32(1), "z": np.uint8(0), "bias": np.int32([1])}
for name, wrong, said in (("z", np.uint8([1, 2, 3, 4]), "input 2 is not one number"), ("s", np.ones((5, 1, 1, 1, 1), np.float32), "input 1 is not one number"),
                          ("bias", np.arange(7, dtype=np.int32), "input 8 is not one number"), ("wz", np.uint8([1, 2, 3]), "input 5 is not one number")):
    path = model("conv", [node("QLinearConv", ["x", "s", "z", "w", "one", "wz", "one", "yz", "bias"], ["y"], "here")], {"x": (U8, [1, 1, 4, 4])}, {"y": U8},
                 {**CONV, "one": np.float32(1), "wz": np.uint8(0), "yz": np.uint8(0), name: wrong})
    expect_error(checks, f"QLinearConv: {name}", ["plan", path], 3, [f"here: {said}"])
path = model("rows", [node("MatMulInteger", ["x", "y", "z"], ["p"], "here")], {"x": (U8, [3, 2]), "y": (U8, [2, 4])}, {"p": TensorProto.INT32}, {"z": np.uint8([1, 2])})
expect_error(checks, "MatMulInteger: zero points", ["plan", path], 3, ["here: input 2 is neither one number nor one for each of 3 rows"])

# Too much of a good thing, and types by numbers that only look like one.
grams = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 64, "max_skip_count": 64, "ngram_counts": [n * (n - 1) // 2 for n in range(1, 65)],
         "ngram_indexes": list(range(64)), "pool_int64s": list(range(64 * 65 // 2))}
path = model("grams", [node("TfIdfVectorizer", ["x"], ["y"], "here", **grams)], {"x": (I64, [5000])}, {"y": F})
expect_error(checks, "many n-grams", ["plan", path], 3, ["n-grams of operator TfIdfVectorizer", "lengths times skips of up to 2048"])
path = model("type", [node("QuantizeLinear", ["x", "s"], ["y"], "here", output_dtype=(1 << 32) + 3)], {"x": (F, [4])}, {"y": TensorProto.INT8}, {"s": np.float32(1)})
expect_error(checks, "a type beyond 32 bits", ["plan", path], 3, ["quantized type of operator QuantizeLinear"])
path = model("flex", [node("FlexAttention", ["q", "q", "q"], ["y"], "here", domain="ai.onnx.preview")], {"q": (I64, [1, 1, 4, 4])}, {"y": I64})
expect_error(checks, "attention of integers", ["plan", path], 3, ["here: query, key and value must be floats of one type"])
checks.finish()
