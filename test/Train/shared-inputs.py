# Inputs that have no samples: a matrix that mixes features and a single number are the same in every step. The data has
# one array of just their shape; samples are shuffled, cut over devices and into micro-batches without them. The step is
# NumPy's; evaluation takes them, too.
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
FEATURES, CLASSES, SAMPLES, BATCH, EPOCHS, RATE = 5, 3, 24, 12, 3, 0.4
random = np.random.default_rng(3)
start = random.standard_normal((FEATURES, CLASSES)).astype(np.float32)
nodes = [helper.make_node("MatMul", ["x", "mix"], ["m"]), helper.make_node("Mul", ["m", "factor"], ["f"]),
         helper.make_node("MatMul", ["f", "w"], ["logits"])]


def model(leading):
    graph = helper.make_graph(
        nodes, "shared", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [leading, FEATURES]),
                          helper.make_tensor_value_info("mix", TensorProto.FLOAT, [FEATURES, FEATURES]),
                          helper.make_tensor_value_info("factor", TensorProto.FLOAT, [])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [leading, CLASSES])], [numpy_helper.from_array(start, "w")])
    path = OUT / f"{leading}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


x, mix, labels = random.standard_normal((SAMPLES, FEATURES)), random.standard_normal((FEATURES, FEATURES)), random.integers(
    0, CLASSES, SAMPLES)
arrays = {"x": x.astype(np.float32), "mix": mix.astype(np.float32), "factor": np.float32(0.5), "labels": labels}
DATA = OUT / "data.npz"
np.savez(DATA, **arrays)
LOSS = ["--loss=cross_entropy(logits,labels)", f"--optimizer=sgd,lr={RATE}"]


def softmax(logits):
    p = np.exp(logits - logits.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def by_numpy():
    w, losses = start.astype(float), []
    for step in range(EPOCHS * SAMPLES // BATCH):
        rows = np.arange(BATCH) + step % (SAMPLES // BATCH) * BATCH
        features = x[rows] @ mix * 0.5
        p = softmax(features @ w)
        losses.append(-np.log(p[np.arange(BATCH), labels[rows]]).mean())
        p[np.arange(BATCH), labels[rows]] -= 1
        w -= RATE * features.T @ p / BATCH
    return losses, w


checks = Checks()
expected, last = by_numpy()
held_out = -np.log(softmax(x @ mix * 0.5 @ last)[np.arange(SAMPLES), labels]).mean()


def train(name, path, *flags):
    return kerf("train", path, *LOSS, f"--batch-size={BATCH}", "--shuffle=off", f"--epochs={EPOCHS}", "--threads=1", *flags)


for path in (model("batch"), model(BATCH)):
    for mesh in ([], ["--accumulate=3"], ["--devices=cpu:2", "--mesh=dp=2"], ["--devices=cpu:2", "--mesh=tp=2"],
                 ["--devices=cpu:2", "--mesh=dp=2", "--processes"]):
        name, log, trained = f"{path.name} {' '.join(mesh)}", OUT / "log.jsonl", OUT / "trained.onnx"
        log.unlink(missing_ok=True)
        result = train(name, path, f"--data={DATA}", f"--eval-data={DATA}", f"--log={log}", "-o", trained, "--json",
                       "--batch-dim", "mix=-1", *mesh)
        checks.expect(f"{name} runs", result.returncode == 0, result.stderr)
        if result.returncode:
            continue
        losses = [json.loads(line)["loss"] for line in log.read_text().splitlines() if "eval" not in line]
        checks.expect(name, np.allclose(losses, expected, rtol=1e-5), f"  {losses}\n  {expected}")
        found = numpy_helper.to_array(onnx.load(trained).graph.initializer[0])
        checks.expect(f"{name}: weight", np.allclose(found, last, atol=5e-6), f"  {abs(found - last).max()}")
        checks.expect(f"{name}: evaluated", f"{held_out:.4f}"[:6] in result.stdout + log.read_text(), f"  {held_out}\n{result.stdout}")

# What a user meets on the way there.
refused = train("no flag", model("batch"), f"--data={DATA}", "--no-output")
checks.expect("the flag is named", refused.returncode == 2 and "--batch-dim mix=-1" in refused.stderr, refused.stderr)
np.savez(OUT / "repeated.npz", **{**arrays, "mix": np.repeat(arrays["mix"][None], SAMPLES, 0)})
np.savez(OUT / "missing.npz", **{name: array for name, array in arrays.items() if name != "factor"})
for data, wanted in (("repeated", f"array \"mix\" has shape {SAMPLES}x5x5, input \"mix\" expects 5x5, the same in every step"),
                     ("missing", "no array for input \"factor\"")):
    result = train(data, model("batch"), f"--data={OUT / data}.npz", "--no-output", "--batch-dim", "mix=-1")
    checks.expect(data, result.returncode == 2 and wanted in result.stderr, result.stderr)
# An input without samples of which nothing is said is named, with what to say.
untold = kerf("train", model(BATCH), f"--data={DATA}", *LOSS, "--steps=1", "--no-output")
checks.expect("untold", untold.returncode == 2 and f'input "mix" begins with {FEATURES}, the batch is {BATCH}' in untold.stderr
              and "--batch-dim mix=-1" in untold.stderr, untold.stderr)
# A graph's matrix whose nodes are as many as the batch has samples, by chance: what is taken for samples, and what says otherwise.
graph = helper.make_graph(
    [helper.make_node("MatMul", ["near", "x"], ["m"]), helper.make_node("MatMul", ["m", "w"], ["logits"])], "graph",
    [helper.make_tensor_value_info(name, TensorProto.FLOAT, [BATCH, size]) for name, size in (("x", FEATURES), ("near", BATCH))],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [BATCH, CLASSES])], [numpy_helper.from_array(start, "w")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / "graph.onnx")
near = random.standard_normal((BATCH, BATCH)).astype(np.float32)
np.savez(OUT / "graph.npz", x=arrays["x"][:BATCH], near=near, labels=labels[:BATCH])
TAKEN = (f'note: the rows of "near" ({BATCH}x{BATCH}) are taken for samples, as those of "x" are: --batch-dim NAME=-1 says that one is the same in '
         'every step, NAME=0 that it has samples; if its columns are samples as well (one graph, whose nodes they are): --shuffle=off\n')
for flags, said in (([], True), (["-q"], False), (["--batch-dim=near=-1"], False), (["--batch-dim=near=0"], False)):
    result = kerf("train", OUT / "graph.onnx", f"--data={OUT / 'graph.npz'}", *LOSS, "--steps=1", "--no-output", *flags)
    checks.expect(f"a square matrix, {flags}", result.returncode == 0 and (TAKEN in result.stderr) == said, result.stderr)
# Where the other inputs leave their first size open, nothing is taken by chance.
def graph_of(name, leading, near_shape):
    made = helper.make_graph(
        [helper.make_node("MatMul", ["near", "x"], ["m"]), helper.make_node("MatMul", ["m", "w"], ["logits"])], "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [leading, *(near_shape[1:] if near_shape[0] != leading else ()), FEATURES]),
         helper.make_tensor_value_info("near", TensorProto.FLOAT, near_shape)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [leading, *(near_shape[1:] if near_shape[0] != leading else ()), CLASSES])],
        [numpy_helper.from_array(start, "w")])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / f"{name}.onnx")
    return OUT / f"{name}.onnx"


signals, nodes = graph_of("signals", "batch", [BATCH, BATCH]), graph_of("nodes", "nodes", ["nodes", "nodes"])
np.savez(OUT / "signals.npz", x=random.standard_normal((BATCH, BATCH, FEATURES)).astype(np.float32), near=near,
         labels=random.integers(0, CLASSES, (BATCH, BATCH)))
IN_ROWS = ["--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1", f"--batch-size={BATCH}", "--steps=1", "--no-output"]
for flags, code in (([], 2), (["--batch-dim=near=-1"], 0)):
    result = kerf("train", signals, f"--data={OUT / 'signals.npz'}", *IN_ROWS, *flags)
    checks.expect(f"signals on a graph of as many nodes {flags}", result.returncode == code and
                  ("--batch-dim near=-1; if it has: --batch-dim near=0" in result.stderr) == (code == 2), result.stderr)
for flags, code in (([], 2), (["--shuffle=off"], 0)):
    result = kerf("train", nodes, f"--data={OUT / 'graph.npz'}", *IN_ROWS, *flags)
    checks.expect(f"nodes as samples {flags}", result.returncode == code and ("--shuffle=off, and a batch of all" in result.stderr) == (code == 2),
                  result.stderr)
checks.finish()
