# Values that lie so close to a border of HardSwish that rounding decides on which side they are: the gradient has a jump
# there, `kerf verify --train` counts the elements and calls nothing wrong; with a fault it still does.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
rng = np.random.default_rng(1)
ROWS, INNER, COLUMNS = 8, 257, 4
x = rng.standard_normal((ROWS, INNER)).astype(np.float32)
w = rng.standard_normal((INNER, COLUMNS)).astype(np.float32)
# x @ w + b + a is 3, the border, but for rounding: b brings it near, a to the nearest number.
b = (3 - x.astype(np.float64) @ w.astype(np.float64)).astype(np.float32)
a = (3 - (x.astype(np.float64) @ w.astype(np.float64) + b)).astype(np.float32)
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "w"], ["product"], name="product"), helper.make_node("Add", ["product", "b"], ["near"]),
     helper.make_node("Add", ["near", "a"], ["border"]), helper.make_node("HardSwish", ["border"], ["y"])],
    "border", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, INNER])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [ROWS, COLUMNS])],
    [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b"), numpy_helper.from_array(a, "a")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / "model.onnx")
np.save(OUT / "x.npy", x)
flags = ["verify", OUT / "model.onnx", "--train", "--loss=mse(y,t)", "--optimizer=sgd,lr=0.1", "--trainable=w", f"--input=x=@{OUT / 'x.npy'}",
         "--steps=1"]
for mesh in ([], ["--devices=2", "--mesh=tp=2"]):
    result = kerf(*flags, *mesh)
    checks.expect(f"{mesh}: rounding decides", result.returncode == 0 and "that rounding alone decides" in result.stdout, result.stdout + result.stderr)
    result = kerf(*flags, *mesh, "--damage=product")
    checks.expect(f"{mesh}: a fault is none of that", result.returncode == 1 and "NOT equal" in result.stdout, result.stdout + result.stderr)
checks.finish()
