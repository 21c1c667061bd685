# What PyTorch's exporter takes a Dropout in place, those of channels and stochastic depth apart into (RandomUniformLike, Less, a cast,
# Div) is that Dropout: others are drawn in each step and with each seed, none in inference. Held against a Dropout node and, in
# inference, against NumPy. Other masks that are drawn are noted.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
random = np.random.default_rng(5)
SAMPLES, WIDTH, CLASSES, KEPT = 32, 12, 3, 0.75
first, second = (random.standard_normal(shape).astype(np.float32) for shape in ((6, WIDTH), (WIDTH, CLASSES)))
x, labels = random.standard_normal((SAMPLES, 6)).astype(np.float32), random.integers(0, CLASSES, SAMPLES)
np.savez(OUT / "data.npz", x=x, labels=labels)


def model(name, nodes, constants):
    tensors = [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second"),
               *(numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items())]
    body = [helper.make_node("MatMul", ["x", "first"], ["a"]), helper.make_node("Relu", ["a"], ["h"]), *nodes, helper.make_node("MatMul", ["m", "second"], ["y"])]
    graph = helper.make_graph(body, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", CLASSES])], tensors)
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]), OUT / name)
    return OUT / name


def drawn(by):
    """x times numbers below p, divided by another number, as the exporter writes it: p is cast to the type of what is drawn."""
    return [helper.make_node("RandomUniformLike", ["h"], ["r"], low=0.0, high=1.0), helper.make_node("Constant", [], ["p"], value_float=KEPT),
            helper.make_node("CastLike", ["p", "r"], ["q"]), helper.make_node("Less", ["r", "q"], ["l"]), helper.make_node("CastLike", ["l", "h"], ["b"]),
            helper.make_node("Div", ["b", by], ["d"]), helper.make_node("Mul", ["h", "d"], ["m"])]


def losses(path, seed, *flags):
    log = OUT / "log.jsonl"
    log.unlink(missing_ok=True)
    result = kerf("train", path, "--loss=cross_entropy(y,labels)", "--optimizer=sgd,lr=0.1", f"--data={OUT / 'data.npz'}", "--batch-size=16", "--steps=4",
                  "--shuffle=off", f"--seed={seed}", "--no-output", "--trainable=first|second", f"--log={log}", *flags)
    checks.expect(f"{path.name} {seed} {flags}", result.returncode == 0, result.stderr)
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [line["loss"] for line in lines if "loss" in line], [line["eval_loss"] for line in lines if "eval_loss" in line], result.stderr


node = model("node.onnx", [helper.make_node("Dropout", ["h", "ratio", "mode"], ["m"])], {"ratio": np.float32(1 - KEPT), "mode": True})
apart = model("apart.onnx", drawn("by"), {"by": np.float32(KEPT)})
other = model("other.onnx", drawn("by"), {"by": np.float32(0.5)})
for seed in (0, 7):
    for flags in ([], ["--devices=cpu:2", "--mesh=dp=2"]):
        expected, found = losses(node, seed, *flags)[0], losses(apart, seed, *flags)[0]
        checks.expect(f"as a Dropout, seed {seed}, {flags}", len(found) == 4 and np.allclose(found, expected, rtol=1e-6), (found, expected))
checks.expect("seeds differ", losses(apart, 0)[0] != losses(apart, 7)[0])

# In inference nothing is drawn.
logits = np.maximum(x @ first, 0) @ second
odds = logits - logits.max(1, keepdims=True)
plain = -np.mean((odds - np.log(np.exp(odds).sum(1, keepdims=True)))[np.arange(SAMPLES), labels])
np.save(OUT / "x.npy", x)
result = kerf("run", apart, f"--input={OUT / 'x.npy'}", "--as-inference", "-q", f"--output-dir={OUT / 'out'}")
checks.expect("as inference", result.returncode == 0 and np.allclose(np.load(OUT / "out/y.npy"), logits, atol=1e-5), result.stderr)
expect_error(checks, "run", ["run", apart, f"--input={OUT / 'x.npy'}"], 3, ["operator Dropout in training mode is not supported"])
still = kerf("train", apart, "--loss=cross_entropy(y,labels)", "--optimizer=sgd,lr=0", f"--data={OUT / 'data.npz'}", "--batch-size=16", "--steps=1", "--no-output",
             "--trainable=first|second", f"--eval-data={OUT / 'data.npz'}", "--json", "-q")
checks.expect("evaluation", still.returncode == 0 and np.isclose(json.loads(still.stdout)["eval_loss"], plain, rtol=1e-5), still.stdout + still.stderr)

# A node without a result is refused, as in any other place.
for kind in ("Less", "CastLike", "Div"):
    nodes = [node for node in drawn("by") if node.op_type != "Constant" and node.output[0] != "q"]
    broken = model("broken.onnx", nodes, {"by": np.float32(KEPT), "q": np.float32(KEPT)})
    damaged = onnx.load(broken)
    found = [node for node in damaged.graph.node if node.op_type == kind][-1]
    del found.output[:]
    broken.write_bytes(damaged.SerializeToString())
    expect_error(checks, f"{kind} without a result", ["inspect", broken, "--dim=batch=2"], 3, [f"{kind} has no outputs"])

# A mask of another kind is one of the graph, the same in every step: that is said.
checks.expect("another mask", "draws the same numbers in every step" in losses(other, 0)[2])
checks.finish()
