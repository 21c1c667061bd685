# Where gradients can and cannot go, from ONNX: what PyTorch does (torch 2.15, in
# comments), or everything that is missing at once, by name.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import re
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
random = np.random.default_rng(7)
WEIGHTS = {name: random.normal(size=(6, 6)).astype(np.float32) for name in ("first", "second")}
x = random.normal(size=(8, 6)).astype(np.float32)
np.savez(OUT / "data.npz", x=x, t=random.normal(size=(8, 6)).astype(np.float32))


def make(name, nodes, weights=("first", "second"), dtype=TensorProto.FLOAT):
    """Nodes are (operator, inputs, outputs, attributes)."""
    tensors = [numpy_helper.from_array(WEIGHTS[each].astype(helper.tensor_dtype_to_np_dtype(dtype)), each) for each in weights]
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, outputs, name=outputs[0] + "_node", **attributes)
         for kind, inputs, outputs, attributes in nodes],
        "g", [helper.make_tensor_value_info("x", dtype, ["batch", 6])],
        [helper.make_tensor_value_info("y", dtype, ["batch", 6])], tensors)
    path = OUT / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def product(first, second, result):
    return ("MatMul", [first, second], [result], {})


PLAN = ["--dim=batch=8", "--train", "--loss=mse(y,t)", "--optimizer=sgd,lr=0.1"]

# PyTorch: gradients of zero, so steps of SGD change nothing in front; Kerf keeps it, and says so.
for kind in ("Floor", "Ceil", "Round", "Sign"):
    model = make(f"only-{kind.lower()}", [product("x", "first", "h"), (kind, ["h"], ["i"], {}), product("i", "second", "y")])
    result = kerf("plan", model, *PLAN, "-v")
    checks.expect(f"{kind}: what is behind it trains, what is in front is kept",
                  result.returncode == 0 and "kept      1, read by the loss, which gives it no gradient: first" in result.stdout,
                  result.stdout + result.stderr)
    expect_error(checks, f"{kind}: nothing else", ["plan", model, *PLAN, "--trainable=first"], 2,
                 ["--trainable: 'first' trains nothing: 'first' is read by the loss, which gives it no gradient"])

# PyTorch: "element 0 of tensors does not require grad" (the way leads over integers).
integers = {
    "argmax": [("ArgMax", ["h"], ["k"], dict(axis=1, keepdims=1)), ("Cast", ["k"], ["f"], dict(to=TensorProto.FLOAT)),
               ("Mul", ["f", "x"], ["y"], {})],
    "cast": [("Cast", ["h"], ["k"], dict(to=TensorProto.INT64)), ("Cast", ["k"], ["y"], dict(to=TensorProto.FLOAT))],
    "greater": [("Greater", ["h", "x"], ["k"], {}), ("Cast", ["k"], ["y"], dict(to=TensorProto.FLOAT))],
}
for name, nodes in integers.items():
    model = make(f"only-{name}", [product("x", "first", "h"), *nodes], weights=("first",))
    expect_error(checks, f"{name} alone", ["plan", model, *PLAN], 2, ["nothing to train"])

# A condition has no gradient, what it chooses from has (torch.where); and indices choose rows.
model = make("where", [product("x", "first", "h"), product("x", "second", "g"), ("Greater", ["h", "x"], ["k"], {}),
                       ("Where", ["k", "g", "x"], ["y"], {})])
result = kerf("train", model, *PLAN[2:], "--batch-size=8", f"--data={OUT / 'data.npz'}", "--steps=3", "-o",
              OUT / "where-trained.onnx", "--threads=1")
checks.expect("where: trains", result.returncode == 0, result.stderr)
if result.returncode == 0:
    after = {each.name: numpy_helper.to_array(each) for each in onnx.load(OUT / "where-trained.onnx").graph.initializer}
    checks.expect("where: the condition's weight stays to the bit", (after["first"] == WEIGHTS["first"]).all())
    # Three steps of SGD on the mean of squares, as numpy has them (torch gives the same within 1e-7).
    weight, target = WEIGHTS["second"].astype(np.float64), np.load(OUT / "data.npz")["t"]
    chosen = x @ WEIGHTS["first"] > x
    for _ in range(3):
        error = np.where(chosen, x @ weight, x) - target
        weight = weight - 0.1 * x.T @ (np.where(chosen, error, 0) * 2 / error.size)
    far = np.abs(after["second"] - weight).max()
    checks.expect("where: the other is what numpy makes it", far < 1e-5, f"  off by {far}")

# What cannot be trained is said of every parameter at once, before anything is planned; so are ops without a gradient
# (test/Autodiff/errors.mlir: no op that can be imported is without one, unittests/NN/GradientTest.cpp).
model = make("doubles", [product("x", "first", "h"), ("Relu", ["h"], ["r"], {}), product("r", "second", "y")],
             dtype=TensorProto.DOUBLE)
expect_error(checks, "doubles: all at once", ["plan", model, *PLAN], 3,
             ["first: parameter is f64 6x6, expected f32 to train it; nor can second"])
result = kerf("plan", model, *PLAN, "--frozen=first")
checks.expect("doubles: one less", "second: parameter is f64" in result.stderr and "first" not in result.stderr,
              result.stderr)
model = make("halves", [product("x", "first", "h"), ("Relu", ["h"], ["r"], {}), product("r", "second", "y")], dtype=TensorProto.FLOAT16)
expect_error(checks, "halves: what to do", ["plan", model, *PLAN], 3,
             ["first: parameter is f16 6x6", "export the model in float32 and train it with --precision=f16"])
# Weights of classes are read by the loss, which gives them no gradient, in PyTorch neither.
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "w"], ["z"], "first"), helper.make_node("SoftmaxCrossEntropyLoss", ["z", "labels", "classes"], ["loss"], "loss"),
     helper.make_node("Mul", ["z", "apart"], ["other"], "aside")], "g",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6]), helper.make_tensor_value_info("labels", TensorProto.INT64, ["batch"])],
    [helper.make_tensor_value_info("loss", TensorProto.FLOAT, []), helper.make_tensor_value_info("other", TensorProto.FLOAT, ["batch", 4])],
    [numpy_helper.from_array(np.random.default_rng(3).random(shape, np.float32), name) for name, shape in (("w", (6, 4)), ("classes", (4,)), ("apart", (4,)))])
weighted = OUT / "weighted.onnx"
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), weighted)
step = ["plan", weighted, "--dim=batch=8", "--train", "--loss=loss", "--optimizer=sgd,lr=0.1"]
for flags in ([], ["--trainable=.*"], ["--frozen=classes"]):
    result = kerf(*step, "-v", *flags)
    checks.expect(f"weights of classes {flags}", result.returncode == 0 and "read by the loss, which gives it no gradient: classes" in result.stdout, result.stdout + result.stderr)
for text in ("+classes", "classes", "+cl.*"):
    expect_error(checks, f"weights of classes, --trainable={text}", [*step, f"--trainable={text}"], 2,
                 [re.escape(f"--trainable: '{text}' trains nothing: 'classes' is read by the loss, which gives it no gradient")])
expect_error(checks, "trainable and frozen", [*step, "--trainable=+w", "--frozen=w"], 2, ["'\\+w' trains nothing: 'w' is frozen"])
expect_error(checks, "two losses", ["plan", model, "--train", "--loss=mse(y,t)+mse(y,u)"], 2, ["is more than one loss", r"output\(OUTPUT\)"])
checks.finish()
