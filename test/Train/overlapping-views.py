# A parameter of which a model reads parts that overlap, or that it reads in two shapes, is one parameter, with the sum of
# their gradients: momentum's steps by NumPy in doubles, on one rank and on each kind of mesh; the trained model has all
# of it.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
rng = np.random.default_rng(3)
weight = (0.2 * rng.standard_normal((9, 4))).astype(np.float32)
data = {"x": rng.standard_normal((8, 4)).astype(np.float32), "t": rng.standard_normal((8, 4)).astype(np.float32)}
np.savez(OUT / "data.npz", **data)
# y = x (w[1:5] + w[3:7]) + the mean of w[7:9], which overlaps with neither, + the sums of
# the rows of w as [4, 9] times the sum of the first nine elements.
numbers = {"one": [1], "three": [3], "five": [5], "seven": [7], "nine": [9], "zero": [0], "one_dim": [-1], "shape": [4, 9]}
graph = helper.make_graph([
    helper.make_node("Slice", ["w", "one", "five", "zero"], ["a"]), helper.make_node("Slice", ["w", "three", "seven", "zero"], ["b"]),
    helper.make_node("Slice", ["w", "seven", "nine", "zero"], ["c"]), helper.make_node("Add", ["a", "b"], ["sum"]),
    helper.make_node("MatMul", ["x", "sum"], ["product"], name="product"),
    helper.make_node("ReduceMean", ["c", "zero"], ["mean"], keepdims=1), helper.make_node("Add", ["product", "mean"], ["biased"]),
    helper.make_node("Reshape", ["w", "shape"], ["reshaped"]), helper.make_node("ReduceSum", ["reshaped", "one"], ["rows"], keepdims=0),
    helper.make_node("Reshape", ["w", "one_dim"], ["flat"]), helper.make_node("Slice", ["flat", "zero", "nine", "zero"], ["head"]),
    helper.make_node("ReduceSum", ["head", "zero"], ["total"], keepdims=1),
    helper.make_node("Mul", ["rows", "total"], ["shift"]), helper.make_node("Add", ["biased", "shift"], ["y"]),
], "views", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
    [numpy_helper.from_array(weight, "w"), *(numpy_helper.from_array(np.int64(value), key) for key, value in numbers.items())])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / "model.onnx")

STEPS, RATE = 4, 0.01
w, momentum, losses = weight.astype(np.float64), 0, []
for step in range(STEPS):
    rows, total = w.reshape(4, 9).sum(axis=1), w.reshape(-1)[:9].sum()
    error = data["x"] @ (w[1:5] + w[3:7]) + w[7:9].mean(axis=0, keepdims=True) + rows * total - data["t"]
    losses.append(np.mean(error ** 2))
    slope = 2 * error / error.size
    gradient = np.zeros_like(w)
    gradient[1:5] += data["x"].T @ slope
    gradient[3:7] += data["x"].T @ slope
    gradient[7:9] += slope.sum(axis=0) / 2
    gradient += np.repeat(slope.sum(axis=0), 9).reshape(9, 4) * total
    gradient.reshape(-1)[:9] += (slope.sum(axis=0) * rows).sum()
    momentum = 0.9 * momentum + gradient
    w = w - RATE * momentum

for mesh in ([], ["--devices=2", "--mesh=dp=2"], ["--devices=2", "--mesh=tp=2"], ["--devices=2", "--mesh=pp=2", "--micro-batches=2"],
             ["--devices=3", "--solver=random", "--seed=5"]):
    name = " ".join(mesh) or "one rank"
    result = kerf("train", OUT / "model.onnx", "--loss=mse(y,t)", f"--optimizer=sgd,lr={RATE},momentum=0.9", f"--data={OUT / 'data.npz'}",
                  "--batch-size=8", f"--steps={STEPS}", "--shuffle=off", "-o", OUT / "trained.onnx", f"--log={OUT / 'log.jsonl'}",
                  "--threads=1", *mesh)
    checks.expect(f"{name}: runs", result.returncode == 0, result.stderr)
    if result.returncode:
        continue
    found = [line["loss"] for line in map(json.loads, (OUT / "log.jsonl").read_text().splitlines()) if "loss" in line]
    checks.expect(f"{name}: losses", np.allclose(found, losses, rtol=1e-5), f"{found}, expected {losses}")
    (trained,) = [numpy_helper.to_array(each) for each in onnx.load(OUT / "trained.onnx").graph.initializer if each.name == "w"]
    checks.expect(f"{name}: parameter", np.allclose(trained, w, atol=1e-5), str(np.abs(trained - w).max()))
    for path in ("trained.onnx", "log.jsonl"):
        (OUT / path).unlink()
checks.finish()
