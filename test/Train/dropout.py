# Dropout draws the same masks on every mesh and with any number of micro-batches, others in each step and with another
# seed; and as many zeros as it says: the mean of (Dropout(1) - 1)^2 is p / (1 - p). With --all on more meshes.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import math
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np
import onnx

from curves import PINS
from kerf_tests import Checks, fresh_folder, in_parallel, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()


def dropout(name, source, ratio):
    """The node and its literals, in training form."""
    helper = onnx.helper
    return (helper.make_node("Dropout", [source, f"{name}_ratio", f"{name}_mode"], [name], name=name),
            [helper.make_tensor(f"{name}_ratio", 1, [], [ratio]), helper.make_tensor(f"{name}_mode", 9, [], [1])])


def train(name, model, loss, data, flags, steps=20, optimizer="sgd,lr=0.05,momentum=0.9"):
    log = OUT / f"{name}.jsonl"
    result = kerf("train", model, "--batch-size=16", f"--loss={loss}", f"--optimizer={optimizer}", f"--data={data}",
                  "--shuffle=off", f"--steps={steps}", "--threads=1", f"--log={log}", "--no-output",
                  *flags)
    checks.expect(f"{name} runs", result.returncode == 0, result.stderr)
    return [json.loads(line)["loss"] for line in log.read_text().splitlines()] if log.exists() else []


# In front of the second and the third layer of the MLP.
model = onnx.load(INPUTS / "training/mlp/model.onnx")
products = [node for node in model.graph.node if node.op_type in ("Gemm", "MatMul")]
checks.expect("three layers", len(products) == 3, str([node.op_type for node in model.graph.node]))
for number, (product, ratio) in enumerate(zip(products[1:], (0.3, 0.5))):
    node, literals = dropout(f"drop{number}", product.input[0], ratio)
    model.graph.initializer.extend(literals)
    product.input[0] = node.output[0]
    model.graph.node.insert(list(model.graph.node).index(product), node)
onnx.save(model, OUT / "dropped.onnx")
losses = {}


def run(name, *flags):
    losses[name] = train(name, OUT / "dropped.onnx", "cross_entropy(logits,labels)", INPUTS / "training/mlp/data.npz", flags)


TP = PINS["mlp", "tp"]
MESHES = {"dp=2": [], "dp=3": [], "tp=2": TP, "tp=3": TP, "pp=2": ["--micro-batches=4", "--schedule=1f1b"],
          "pp=3": ["--micro-batches=2", "--schedule=gpipe"], "pp=2,dp=2": ["--micro-batches=2"],
          "dp=2,tp=2": TP, "dp=2,tp=2,pp=2": [*TP, "--micro-batches=2"]}
EVERYTHING = "--all" in sys.argv
if not EVERYTHING:
    MESHES = {mesh: MESHES[mesh] for mesh in ("dp=3", "tp=2", "pp=2", "pp=3", "dp=2,tp=2,pp=2")}
in_parallel([(run, "one"), (run, "seed", "--seed=7"), (run, "accumulate", "--accumulate=4"),
             (run, "random", "--devices=cpu:4", "--mesh=a=2,b=2", "--solver=random", "--seed=0"),
             *((run, mesh, f"--devices=cpu:{math.prod(int(part[-1]) for part in mesh.split(','))}", f"--mesh={mesh}", *flags)
               for mesh, flags in MESHES.items())])
for name, found in losses.items():
    same = len(found) == 20 and np.allclose(found, losses["one"], rtol=1e-5)
    checks.expect(f"{name}: the masks of one rank", same != (name == "seed"), f"{found}\n{losses['one']}")
without = train("without", INPUTS / "training/mlp/model.onnx", "cross_entropy(logits,labels)",
                INPUTS / "training/mlp/data.npz", [])
# The number of an element, from which it is drawn whether it stays, is counted and not stored: 8 bytes for each would be kept.
for flags in ([], ["--micro-batches=2"], ["--devices=2", "--mesh=dp=2"], ["--devices=2", "--mesh=tp=2"], ["--machine=h100-1", "--devices=1"]):
    result = kerf("plan", OUT / "dropped.onnx", "--dim=batch=65536", "--train", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd", "--json", *flags)
    checks.expect(f"{flags} is planned", result.returncode == 0, result.stderr)
    for device in json.loads(result.stdout)["memory"]["per_device"] if result.returncode == 0 else []:
        ratio = device["predicted"]["peak"] / device["peak"]
        checks.expect(f"{flags}: memory", device["parameters"] < 1 << 20 and abs(ratio - 1) < 0.07, device)
checks.expect("something is dropped", abs(without[0] - losses["one"][0]) > 1e-3, f"{without[0]}, {losses['one'][0]}")

# y = Dropout(x w), all of them one, that stay so with a learning rate of 0.
WIDTH, STEPS = 512, 12
for ratio in (0.1, 0.25, 0.6):
    helper = onnx.helper
    node, literals = dropout("y", "scaled", ratio)
    value = lambda name: helper.make_tensor_value_info(name, 1, ["batch", WIDTH])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["scaled"]), node], "ones", [value("x")], [value("y")],
                              [helper.make_tensor("w", 1, [WIDTH], np.ones(WIDTH)), *literals])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), OUT / f"ones-{ratio}.onnx")
    np.savez(OUT / "ones.npz", x=np.ones((16 * STEPS, WIDTH), np.float32), t=np.ones((16 * STEPS, WIDTH), np.float32))
    meshes = {"one": [], "dp=2": ["--devices=cpu:2", "--mesh=dp=2"],
              "tp=2": ["--devices=cpu:2", "--mesh=tp=2", "--shard=y=[{},{tp}]"]}
    for mesh, flags in meshes.items():
        if not EVERYTHING and ratio != 0.25 and mesh != "one":
            continue
        found = train(f"ones-{ratio}-{mesh}", OUT / f"ones-{ratio}.onnx", "mse(y,t)", OUT / "ones.npz", flags, STEPS, "sgd,lr=0")
        # Each element gives 1 with probability p, else (p / (1 - p))^2.
        mean, one, other = ratio / (1 - ratio), 1.0, (ratio / (1 - ratio)) ** 2
        deviation = math.sqrt(ratio * one ** 2 + (1 - ratio) * other ** 2 - mean ** 2)
        step, all_ = deviation / math.sqrt(16 * WIDTH), deviation / math.sqrt(16 * WIDTH * STEPS)
        checks.expect(f"Dropout({ratio}) on {mesh}", len(found) == STEPS and abs(np.mean(found) - mean) < 4 * all_
                      and 0.3 * step < np.std(found) < 3 * step, f"{found}: {np.mean(found)}, expected {mean} +- {all_}")
# In inference Dropout passes on what it gets: by request, since the model says otherwise.
inputs = f"--input=x=@{OUT / 'x.npy'}"
np.save(OUT / "x.npy", np.load(INPUTS / "training/mlp/data.npz")["x"][:16])
for name, path, flags in (("own", INPUTS / "training/mlp/model.onnx", []), ("dropped", OUT / "dropped.onnx", ["--as-inference"])):
    result = kerf("run", path, inputs, f"--output-dir={OUT / f'run-{name}'}", *flags)
    checks.expect(f"{name} is run", result.returncode == 0 and ("2 nodes in training mode" in result.stderr) == bool(flags), result.stderr)
checks.expect("as inference", np.allclose(*(np.load(OUT / f"run-{name}/logits.npy") for name in ("own", "dropped"))))
result = kerf("run", OUT / "dropped.onnx", inputs)
checks.expect("not unasked", result.returncode == 3 and "Dropout in training mode" in result.stderr and "--as-inference" in result.stderr, result.stderr)

# Learning rates that fall step by step, and bit by bit.
for kind, expected in (("step,every=2,factor=0.5", [0.05, 0.05, 0.025, 0.025, 0.0125]),
                       ("exponential,every=2,factor=0.25", [0.05, 0.025, 0.0125, 0.00625, 0.003125])):
    name = kind.split(",")[0]
    train(name, INPUTS / "training/mlp/model.onnx", "cross_entropy(logits,labels)", INPUTS / "training/mlp/data.npz",
          [f"--learning-rate={kind}"], steps=5)
    rates = [json.loads(line)["learning_rate"] for line in (OUT / f"{name}.jsonl").read_text().splitlines()]
    checks.expect(name, np.allclose(rates, expected), rates)
checks.finish()
