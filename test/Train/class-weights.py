# Weights of classes in --loss: three steps of SGD are those of the formulas of torch.nn.functional.cross_entropy and
# nll_loss (weight=), which are held against PyTorch where it is installed: classes last or in dimension 1, ignored
# labels, smoothed ones, means and sums, on every mesh and in micro-batches. Evaluation divides by weights, too.
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

from kerf_tests import Checks, expect_error, fresh_folder, in_parallel, kerf

try:
    import torch
except ImportError:
    torch = None
OUT = fresh_folder(sys.argv[1])
checks = Checks()
FEATURES, CLASSES, BATCH, STEPS, RATE = 6, 4, 8, 3, 0.5
WEIGHTS = [0.5, 2.0, 1.25, 0.0]
TEXT = ":".join(map(str, WEIGHTS))
draw = np.random.default_rng(5)
start = draw.standard_normal((FEATURES, CLASSES)).astype(np.float32)
x = draw.standard_normal((STEPS * BATCH, 3, FEATURES)).astype(np.float32)
labels = draw.integers(0, CLASSES, (STEPS * BATCH, 3))
labels[::5, 1] = -100
DATA = OUT / "data.npz"
np.savez(DATA, x=x, labels=labels)


def save(name, after):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["scores"]), *after]
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, FEATURES])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(start, "w")])
    model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    onnx.save(model, OUT / f"{name}.onnx")
    return OUT / f"{name}.onnx"


last = save("last", [helper.make_node("Identity", ["scores"], ["y"])])
first = save("first", [helper.make_node("Transpose", ["scores"], ["y"], perm=[0, 2, 1])])
logs = save("logs", [helper.make_node("LogSoftmax", ["scores"], ["y"], axis=-1)])


def loss_and_gradient(w, rows, e, mean):
    """Of scores and with respect to w, in double."""
    scores, counts = x[rows].astype(float) @ w, labels[rows] != -100
    wanted = np.where(counts, labels[rows], 0)
    log = np.log(np.exp(scores).sum(-1, keepdims=True))
    table = np.array(WEIGHTS)
    own = np.where(counts, table[wanted], 0)[..., None]
    hit = np.eye(CLASSES)[wanted] * counts[..., None]
    per = (1 - e) * own * (hit * (log - scores)).sum(-1, keepdims=True) + e / CLASSES * counts[..., None] * (table * (log - scores)).sum(-1, keepdims=True)
    divisor = own.sum() if mean else 1
    of_scores = ((1 - e) * own + e / CLASSES * table.sum() * counts[..., None]) * np.exp(scores - log) - (1 - e) * own * hit - (
        e / CLASSES * table * counts[..., None])
    gradient = np.einsum("bsf,bsc->fc", x[rows], of_scores) / divisor
    if torch:
        p = torch.tensor(w, requires_grad=True)
        y = torch.nn.functional.cross_entropy((torch.tensor(x[rows]).double() @ p).reshape(-1, CLASSES), torch.tensor(labels[rows]).reshape(-1),
                                              weight=torch.tensor(table), label_smoothing=e, reduction="mean" if mean else "sum")
        y.backward()
        checks.expect("the formula is PyTorch's", np.isclose(y.item(), per.sum() / divisor) and np.allclose(p.grad.numpy(), gradient), f"{y} {per.sum()}")
    return per.sum() / divisor, gradient


def case(name, path, loss, flags, e, mean):
    w, losses = start.astype(float), []
    for step in range(STEPS):
        value, gradient = loss_and_gradient(w, slice(step * BATCH, (step + 1) * BATCH), e, mean)
        losses.append(value)
        w = w - RATE * (1 if mean else 0.05) * gradient
    log, trained = OUT / f"{name}.jsonl", OUT / f"{name}-trained.onnx"
    result = kerf("train", path, f"--loss={loss}", f"--optimizer=sgd,lr={RATE * (1 if mean else 0.05)}", f"--data={DATA}", f"--batch-size={BATCH}",
                  f"--steps={STEPS}", "--shuffle=off", "--threads=1", f"--log={log}", f"--eval-data={DATA}", "-o", trained, *flags)
    if result.returncode:
        return checks.expect(name, False, result.stderr)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    found = [line["loss"] for line in lines if "loss" in line]
    checks.expect(name, np.allclose(found, losses, rtol=1e-5), f"{found}\n{losses}")
    weight = numpy_helper.to_array(onnx.load(trained).graph.initializer[0])
    checks.expect(f"{name}: weight", np.allclose(weight, w, rtol=1e-4, atol=1e-6), f"{weight}\n{w}")
    measured = [line["eval_loss"] for line in lines if "eval_loss" in line][-1]
    checks.expect(f"{name}: evaluation", np.isclose(measured, loss_and_gradient(w, slice(None), 0, True)[0], rtol=1e-4), str(measured))


MESHES = {"one": [], "dp": ["--devices=cpu:2", "--mesh=dp=2"], "tp": ["--devices=cpu:2", "--mesh=tp=2"], "parts": ["--accumulate=4"]}
jobs = []
for mesh, flags in MESHES.items():
    for smoothing in (0, 0.2):
        for mean in (True, False):
            ends = f",weight={TEXT},label_smoothing={smoothing}" + ("" if mean else ",reduction=sum") + ")"
            jobs.append((case, f"last-{mesh}-{smoothing}-{mean}", last, f"cross_entropy(y,labels{ends}", flags, smoothing, mean))
    jobs.append((case, f"first-{mesh}", first, f"cross_entropy(y,labels,dim=1,weight={TEXT},label_smoothing=0.1)", flags, 0.1, True))
    jobs.append((case, f"logs-{mesh}", logs, f"nll(y,labels,weight={TEXT})", flags, 0, True))
plan = lambda loss: ["plan", last, "--dim=batch=8", "--train", f"--loss={loss}"]
for name, loss, patterns in (
        ("too few", "cross_entropy(y,labels,weight=1:2)", [r"--loss: weight has 2 numbers, output 'y' has 4 classes"]),
        ("commas", "cross_entropy(y,labels,weight=1,2,3,4)", [r"--loss: '2' is no option: weights of classes have colons between them, weight=1:2:0.5"]),
        ("negative", "cross_entropy(y,labels,weight=1:-2:3:4)", [r"--loss: weight is '-2', expected a number from 0 to"]),
        ("none", "cross_entropy(y,labels,weight=)", [r"--loss: weight is '', expected a number"]),
        ("of elements", "mse(y,labels,weight=1:2:3:4)", [r"--loss: unknown option 'weight', expected reduction"]),
        ("what there is", "cross_entropy(y,labels,wieght=1)", [r"expected reduction, dim, ignore_index, weight=W0:W1:\.\.\., label_smoothing"])):
    jobs.append((expect_error, checks, name, plan(loss), 2, patterns))
in_parallel(jobs)
verified = kerf("verify", last, "--dim=batch=8", "--train", f"--loss=cross_entropy(y,labels,weight={TEXT},label_smoothing=0.1)", "--optimizer=sgd,lr=0.1",
                "--devices=cpu:2", "--mesh=tp=2")
checks.expect("verify", verified.returncode == 0, verified.stdout + verified.stderr)
checks.finish()
