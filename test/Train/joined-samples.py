# Where samples see each other (scores of all pairs of a batch), a batch that is filled up with others would have another loss: what does
# not fill one is left out, in training and in evaluation, and that is said. Held against NumPy.
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
random = np.random.default_rng(2)
SAMPLES, BATCH, WIDTH = 10, 4, 5
weight = random.standard_normal((WIDTH, WIDTH)).astype(np.float32)
query, key = (random.standard_normal((SAMPLES, WIDTH)).astype(np.float32) for _ in range(2))
labels = np.arange(SAMPLES) % BATCH
np.savez(OUT / "data.npz", q=query, k=key, labels=labels)
nodes = [helper.make_node("MatMul", ["q", "w"], ["a"]), helper.make_node("Transpose", ["k"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["a", "t"], ["scores"])]
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("q", ["batch", WIDTH]), ("k", ["batch", WIDTH]), ("scores", ["batch", "batch"]))]
onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:2], ends[2:], [numpy_helper.from_array(weight, "w")]), ir_version=10,
                            opset_imports=[helper.make_opsetid("", 20)]), OUT / "pairs.onnx")


def loss(rows):
    scores = query[rows] @ weight @ key[rows].T
    odds = scores - scores.max(1, keepdims=True)
    return -np.mean((odds - np.log(np.exp(odds).sum(1, keepdims=True)))[np.arange(len(rows)), labels[rows]])


whole = [np.arange(0, 4), np.arange(4, 8)]
log = OUT / "log.jsonl"
result = kerf("train", OUT / "pairs.onnx", "--loss=cross_entropy(scores,labels)", "--optimizer=sgd,lr=0", f"--data={OUT / 'data.npz'}", f"--batch-size={BATCH}", "--epochs=1",
              "--shuffle=off", "--last-batch=keep", f"--eval-data={OUT / 'data.npz'}", "--no-output", f"--log={log}")
checks.expect("trained", result.returncode == 0, result.stderr)
lines = [json.loads(line) for line in log.read_text().splitlines()]
checks.expect("whole batches", np.allclose([line["loss"] for line in lines if "loss" in line], [loss(rows) for rows in whole], rtol=1e-5), lines)
measured = [line["eval_loss"] for line in lines if "eval_loss" in line]
checks.expect("evaluation", np.allclose(measured, [np.mean([loss(rows) for rows in whole])], rtol=1e-5), (measured, [loss(rows) for rows in whole]))
for said in ("the last 2 samples of an epoch are dropped", "evaluation leaves out the last 2 samples", "(nn.matmul) joins samples"):
    checks.expect(said, said in result.stderr, result.stderr)
checks.finish()
