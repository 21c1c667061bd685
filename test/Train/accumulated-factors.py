# Gradients that are accumulated over micro-batches pass through what a parameter makes of them: a weight that is
# divided by its norm (weight_norm), a factor -exp(a), what is clamped or goes through relu. Each micro-batch's gradient
# does, as in any framework, so the step is NumPy's on every mesh. Sums of parts on devices may not pass there (test/Plan/partial-sums.mlir).
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
INPUT, CLASSES, SAMPLES, STEPS, RATE = 6, 4, 12, 5, 0.3
random = np.random.default_rng(7)
start = {"v": random.standard_normal((INPUT, CLASSES)), "g": random.standard_normal((1, CLASSES)), "a": random.standard_normal(CLASSES),
         "r": np.array([0.1, 0.3, -0.5, 0.6]), "q": np.array([0.5, -0.5, 0.4, -0.1]), "l": np.array([-0.3, 0.4, -0.5, 0.2])}
nodes = [helper.make_node("ReduceL2", ["v", "rows"], ["norm"], keepdims=1), helper.make_node("Div", ["g", "norm"], ["scale"]),
         helper.make_node("Mul", ["v", "scale"], ["w"]), helper.make_node("MatMul", ["x", "w"], ["y"]),
         helper.make_node("Exp", ["a"], ["e"]), helper.make_node("Neg", ["e"], ["bias"]),
         helper.make_node("Add", ["y", "bias"], ["sum"]), helper.make_node("Min", ["r", "most"], ["low"]),
         helper.make_node("Relu", ["q"], ["positive"]), helper.make_node("LeakyRelu", ["l"], ["leaky"], alpha=0.1),
         helper.make_node("Sum", ["sum", "low", "positive", "leaky"], ["logits"])]
graph = helper.make_graph(
    nodes, "weight_norm", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [SAMPLES, INPUT])],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [SAMPLES, CLASSES])],
    [*(numpy_helper.from_array(value.astype(np.float32), name) for name, value in start.items()),
     numpy_helper.from_array(np.array([0]), "rows"), numpy_helper.from_array(np.array(0.2, np.float32), "most")])
MODEL = OUT / "model.onnx"
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), MODEL)
x, labels = random.standard_normal((SAMPLES, INPUT)), random.integers(0, CLASSES, SAMPLES)
np.savez(OUT / "data.npz", x=x.astype(np.float32), labels=labels)
LOSS = ["--loss=cross_entropy(logits,labels)", f"--optimizer=sgd,lr={RATE}"]


def by_numpy():
    """Losses and the last parameters, by the chain rule written out."""
    v, g, a, r, q, l = (value.astype(np.float32).astype(float) for value in start.values())
    losses = []
    for _ in range(STEPS):
        norm = np.sqrt((v * v).sum(0, keepdims=True))
        logits = x @ (v * (g / norm)) - np.exp(a) + np.minimum(r, 0.2) + np.maximum(q, 0) + np.where(l > 0, l, 0.1 * l)
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        losses.append(-np.log(p[np.arange(SAMPLES), labels]).mean())
        p[np.arange(SAMPLES), labels] -= 1
        p /= SAMPLES
        dw = x.T @ p
        along = (dw * v).sum(0, keepdims=True)
        r, q, l = (each - RATE * p.sum(0) * slope for each, slope in ((r, r < 0.2), (q, q > 0), (l, np.where(l > 0, 1, 0.1))))
        v, g, a = (v - RATE * (g / norm * dw - g * v * along / norm**3), g - RATE * along / norm,
                   a + RATE * p.sum(0) * np.exp(a))
    return losses, {"v": v, "g": g, "a": a, "r": r, "q": q, "l": l}


checks = Checks()
expected, last = by_numpy()
for mesh in ([], ["--accumulate=3"], ["--accumulate=12"], ["--devices=cpu:2", "--mesh=dp=2", "--accumulate=3"],
             ["--devices=cpu:2", "--mesh=tp=2", "--accumulate=2"], ["--devices=cpu:2", "--mesh=pp=2", "--micro-batches=4"],
             ["--devices=cpu:4", "--mesh=dp=2,pp=2", "--micro-batches=2"]):
    name, log, trained = " ".join(mesh) or "one rank", OUT / "log.jsonl", OUT / "trained.onnx"
    log.unlink(missing_ok=True)
    result = kerf("train", MODEL, *LOSS, f"--batch-size={SAMPLES}", "--shuffle=off", f"--epochs={STEPS}",
                  f"--data={OUT / 'data.npz'}", f"--log={log}", "--threads=1", "-o", trained, *mesh)
    checks.expect(f"{name} runs", result.returncode == 0, result.stderr)
    losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()] if log.exists() else []
    checks.expect(name, len(losses) == STEPS and np.allclose(losses, expected, rtol=1e-5), f"  {losses}\n  {expected}")
    if result.returncode == 0:
        found = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(trained).graph.initializer}
        for parameter, value in last.items():
            checks.expect(f"{name}: {parameter}", np.allclose(found[parameter], value, atol=2e-6),
                          f"  {abs(found[parameter] - value).max()}")

verified = kerf("verify", MODEL, "--train", *LOSS, "--devices=cpu:2", "--mesh=dp=2", "--accumulate=3")
checks.expect("verify", verified.returncode == 0 and "verified" in verified.stdout, verified.stdout + verified.stderr)
checks.finish()
