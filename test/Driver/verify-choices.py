# Indices and bools are choices between numbers; where these differ by no more than rounding leaves of them, another correct
# program chooses otherwise. `kerf verify` counts such elements and calls nothing wrong; with a fault it still does.
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
rng = np.random.default_rng(0)
ROWS, CLASSES = 800, 50
node = helper.make_node
CHOICES = {  # the nodes behind the scores, and the type and shape of what they choose
    "largest": ([node("ArgMax", ["scores"], ["y"], axis=1, keepdims=0)], TensorProto.INT64, ["batch"]),
    "best": ([node("TopK", ["scores", "three"], ["values", "y"], "choice", axis=1)], TensorProto.INT64, ["batch", 3]),
    "border": ([node("Greater", ["scores", "limit"], ["y"])], TensorProto.BOOL, ["batch", CLASSES]),
    "whole": ([node("Mul", ["scores", "many"], ["scaled"]), node("Round", ["scaled"], ["rounded"]),
               node("Cast", ["rounded"], ["y"], to=TensorProto.INT32)], TensorProto.INT32, ["batch", CLASSES]),
}
CONSTANTS = {"first": rng.standard_normal((32, 64)) / 6, "second": rng.standard_normal((64, CLASSES)) / 400, "three": np.array([3]),
             "limit": np.array(0.01), "many": np.array(1000.0)}


def model(name):
    """Scores of a small perceptron, of which many are near to each other, and a choice between them."""
    nodes, kind, shape = CHOICES[name]
    nodes = [node("MatMul", ["x", "first"], ["sums"], "sums"), node("Relu", ["sums"], ["inner"]), node("MatMul", ["inner", "second"], ["scores"]),
             *nodes]
    used = {each for n in nodes for each in n.input}
    stored = [numpy_helper.from_array(array.astype(np.int64 if key == "three" else np.float32), key)
              for key, array in CONSTANTS.items() if key in used]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 32])],
                              [helper.make_tensor_value_info("y", kind, shape)], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / f"{name}.onnx")
    return OUT / f"{name}.onnx"


SAID = "that rounding alone decides (a choice between numbers that differ by no more); all others within atol 0 + rtol 0"
for name in CHOICES:
    command = ["verify", model(name), f"--dim=batch={ROWS}", "--devices=2", "--precision=bf16"]
    # Few of them: what is chosen is judged.
    result = kerf(*command, "--json")
    row = json.loads(result.stdout)["outputs"][0]
    checks.expect(f"{name}: rounding decides a few", result.returncode == 0 and 0 < row["decided_by_rounding"] < 0.03 * row["elements"]
                  and row["wrong"] == 0, result.stdout + result.stderr)
    result = kerf(*command, "--damage=sums")
    checks.expect(f"{name}: a fault is none of that", result.returncode == 1 and "NOT equal" in result.stdout, result.stdout + result.stderr)
# It is said, also where some samples alone are compared.
for flags in ([], ["--reference-seconds=1e-3"]):
    result = kerf("verify", OUT / "whole.onnx", f"--dim=batch={ROWS}", "--devices=2", "--precision=bf16", *flags)
    checks.expect(f"said {flags}", result.returncode == 0 and SAID in result.stdout and ("compared: samples" in result.stdout) == bool(flags),
                  result.stdout + result.stderr)
# What is said of numbers of inference knows no gradient, and of a step it does.
INPUTS = pathlib.Path(__file__).resolve().parents[1] / "Inputs"
exactly = ["--dim=batch=8", "--devices=2", "--atol=0", "--rtol=0"]
result = kerf("verify", INPUTS / "models/mlp/model.onnx", *exactly)
checks.expect("inference", "rounding alone decides (last bits, what is left" in result.stdout and "gradient" not in result.stdout, result.stdout)
result = kerf("verify", INPUTS / "training/mlp/model.onnx", *exactly, "--train", "--optimizer=sgd,lr=0.1", "--loss=cross_entropy(logits,labels)")
checks.expect("a step", "rounding alone decides (a gradient that is 0 but for it" in result.stdout, result.stdout)
checks.finish()
