# A model whose output is f64 (a buffer of NumPy's makes it so) trains as others do: losses are of f32, what the output is
# compared with may be f64. Held against the same steps in NumPy's doubles.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
random = np.random.default_rng(3)
SAMPLES, INPUTS, OUTPUTS, RATE, STEPS, BATCH = 64, 6, 3, 0.05, 4, 16
weight = random.standard_normal((INPUTS, OUTPUTS)).astype(np.float32)
scale = np.array([0.5, 2, 1.25])
x = random.standard_normal((SAMPLES, INPUTS)).astype(np.float32)
targets = random.standard_normal((SAMPLES, OUTPUTS))
labels = random.integers(0, OUTPUTS, SAMPLES)
np.savez(OUT / "data.npz", x=x, t=targets, c=labels)

nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Cast", ["h"], ["d"], to=TensorProto.DOUBLE),
         helper.make_node("Mul", ["d", "scale"], ["y"])]
graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", INPUTS])],
                          [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["batch", OUTPUTS])],
                          [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(scale, "scale")])
onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]), OUT / "wide.onnx")


def mse(y, rows):
    error = y - targets[rows]
    return np.mean(error ** 2), 2 * error / error.size


def cross_entropy(y, rows):
    p = np.exp(y - y.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    hot = np.eye(OUTPUTS)[labels[rows]]
    return -np.mean(np.log((p * hot).sum(1))), (p - hot) / len(rows)


for loss, rule in (("mse(y,t)", mse), ("cross_entropy(y,c)", cross_entropy)):
    w, expected = weight.astype(float), []
    for step in range(STEPS):
        rows = np.arange(step * BATCH, (step + 1) * BATCH) % SAMPLES
        value, slope = rule(x[rows] @ w * scale, rows)
        expected.append(value)
        w -= RATE * x[rows].T @ (slope * scale)
    for mesh in ("dp=1", "dp=2", "pp=2"):
        name = f"{loss} on {mesh}"
        result = kerf("train", OUT / "wide.onnx", f"--loss={loss}", f"--optimizer=sgd,lr={RATE}", f"--data={OUT / 'data.npz'}", f"--batch-size={BATCH}",
                      f"--steps={STEPS}", "--shuffle=off", "--trainable=w", f"--devices=cpu:{mesh[-1]}", f"--mesh={mesh}", f"--log={OUT / 'log.jsonl'}", "-o", OUT / "trained.onnx", "-q")
        checks.expect(name, result.returncode == 0, result.stderr)
        if result.returncode:
            continue
        losses = [json.loads(line)["loss"] for line in (OUT / "log.jsonl").read_text().splitlines()]
        checks.expect(f"{name}: losses", np.allclose(losses, expected, rtol=1e-5), (losses, expected))
        trained = {t.name: numpy_helper.to_array(t) for t in onnx.load(OUT / "trained.onnx").graph.initializer}
        checks.expect(f"{name}: weights", np.allclose(trained["w"], w, rtol=1e-4, atol=1e-6), np.abs(trained["w"] - w).max())
        for each in ("log.jsonl", "trained.onnx"):
            pathlib.Path(OUT / each).unlink()
checks.finish()
