# Layers that keep the sequence in front of the batch, as PyTorch's attention does: a step can be cut along its samples
# all the same. One rank without micro-batches is NumPy's step; every mesh is one rank's; data parallel ranks send
# gradients and the loss, no activations.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
SEQUENCE, HEADS, WIDTH, HIDDEN, CLASSES, SAMPLES = 5, 2, 6, 10, 3, 12
random = np.random.default_rng(4)
weights = {"w1": random.standard_normal((WIDTH, HIDDEN)), "w2": random.standard_normal((HIDDEN, WIDTH)),
           "w3": random.standard_normal((HEADS * WIDTH, CLASSES))}
nodes = [helper.make_node("Transpose", ["x"], ["sbk"], perm=[1, 0, 2]), helper.make_node("Reshape", ["sbk", "heads"], ["split"]),
         helper.make_node("MatMul", ["split", "w1"], ["h"]), helper.make_node("Tanh", ["h"], ["t"]),
         helper.make_node("MatMul", ["t", "w2"], ["y"]), helper.make_node("Reshape", ["y", "whole"], ["joined"]),
         helper.make_node("ReduceMean", ["joined", "first"], ["mean"], keepdims=0),
         helper.make_node("MatMul", ["mean", "w3"], ["logits"])]
shapes = {"heads": [SEQUENCE, HEADS * SAMPLES, WIDTH], "whole": [SEQUENCE, SAMPLES, HEADS * WIDTH], "first": [0]}
graph = helper.make_graph(
    nodes, "sequence_first", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [SAMPLES, SEQUENCE, HEADS * WIDTH])],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [SAMPLES, CLASSES])],
    [*(numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()),
     *(numpy_helper.from_array(np.array(value), name) for name, value in shapes.items())])
MODEL = OUT / "model.onnx"
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), MODEL)
x, labels = random.standard_normal((SAMPLES, SEQUENCE, HEADS * WIDTH)), random.integers(0, CLASSES, SAMPLES)
np.savez(OUT / "data.npz", x=x.astype(np.float32), labels=labels)
LOSS = ["--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.2"]


def by_numpy(steps):
    """Losses, by the chain rule written out."""
    w1, w2, w3 = (weights[name].copy() for name in ("w1", "w2", "w3"))
    split = x.reshape(SAMPLES, SEQUENCE, HEADS, WIDTH)
    for _ in range(steps):
        t = np.tanh(split @ w1)
        mean = (t @ w2).mean(1).reshape(SAMPLES, -1)
        logits = mean @ w3
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        yield -np.log(p[np.arange(SAMPLES), labels]).mean()
        d = p.copy()
        d[np.arange(SAMPLES), labels] -= 1
        d /= SAMPLES
        dy = np.repeat((d @ w3.T).reshape(SAMPLES, 1, HEADS, WIDTH) / SEQUENCE, SEQUENCE, 1)
        dh = (dy @ w2.T) * (1 - t * t)
        w3 -= 0.2 * mean.T @ d
        w2 -= 0.2 * np.einsum("bsnh,bsnk->hk", t, dy)
        w1 -= 0.2 * np.einsum("bsnk,bsnh->kh", split, dh)


checks = Checks()
expected = list(by_numpy(5))
for mesh in ([], ["--accumulate=3"], ["--devices=cpu:2", "--mesh=dp=2"], ["--devices=cpu:2", "--mesh=tp=2", "--accumulate=2"],
             ["--devices=cpu:2", "--mesh=pp=2", "--micro-batches=4"],
             ["--devices=cpu:4", "--mesh=dp=2,pp=2", "--micro-batches=2"]):
    name, log = " ".join(mesh) or "one rank", OUT / "log.jsonl"
    log.unlink(missing_ok=True)
    result = kerf("train", MODEL, *LOSS, f"--batch-size={SAMPLES}", "--shuffle=off", "--epochs=5", f"--data={OUT / 'data.npz'}",
                  f"--log={log}", "--threads=1", "--no-output", *mesh)
    checks.expect(f"{name} runs", result.returncode == 0, result.stderr)
    losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()] if log.exists() else []
    checks.expect(name, len(losses) == 5 and np.allclose(losses, expected, rtol=1e-5), f"  {losses}\n  {expected}")

# A product of joined rows with themselves, which is no sum over samples: one rank has it.
gram = helper.make_graph(
    [*nodes[:4], helper.make_node("Reshape", ["t", "rows"], ["r"]), helper.make_node("Gemm", ["r", "r"], ["gram"], transA=1),
     helper.make_node("ReduceMean", ["gram"], ["loss"], keepdims=0)],
    "gram", graph.input, [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
    [*graph.initializer, numpy_helper.from_array(np.array([-1, HIDDEN]), "rows")])
onnx.save(helper.make_model(gram, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / "gram.onnx")
result = kerf("train", OUT / "gram.onnx", "--loss=loss", "--optimizer=sgd,lr=0.1", f"--batch-size={SAMPLES}", "--epochs=1",
              f"--data={OUT / 'data.npz'}", f"--log={OUT / 'gram.jsonl'}", "--threads=1", "--no-output")
r = np.tanh(x.reshape(SAMPLES, SEQUENCE, HEADS, WIDTH) @ weights["w1"]).reshape(-1, HIDDEN)
checks.expect("gram runs", result.returncode == 0, result.stderr)
checks.expect("gram", result.returncode == 0 and np.isclose(
    json.loads((OUT / "gram.jsonl").read_text().splitlines()[0])["loss"], (r.T @ r).mean(), rtol=1e-5))

# 3 weights, all-reduced by two ranks: each sends their bytes once.
result = kerf("plan", MODEL, "--train", *LOSS, "--devices=2", "--mesh=dp=2", "--objective=volume", "--json")
sent = json.loads(result.stdout)["communication"]
gradients = 4 * sum(value.size for value in weights.values())
checks.expect("bytes of gradients", sent["by_purpose"].get("gradient") == gradients, f"  {sent['by_purpose']}, expected {gradients}")
checks.expect("nothing else", set(sent["by_purpose"]) <= {"gradient", "statistics"}, str(sent["by_purpose"]))
checks.finish()
