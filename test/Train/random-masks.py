# What PyTorch's exporter takes a Dropout in place, those of channels and stochastic depth apart into (RandomUniformLike, Less, a cast,
# Div) is that Dropout: others are drawn in each step and with each seed, none in inference. Held against a Dropout node and, in
# inference, against NumPy. Other masks that are drawn are noted, and so is dropout that a model in training form has without training mode.
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

# Dropout of attention has no training mode in PyTorch's exports, whose inference exports have no Dropout at all; their optimizer leaves the call alone.
SDPA = "%scaled_dot_product_attention : [num_users=1] = call_function[target=torch.ops.aten.scaled_dot_product_attention.default](args = (%q, %k, %v, None, {}), kwargs = {{}})"
PYTORCH, ANY = "PyTorch's exporter leaves that out of scaled_dot_product_attention's dropout; attention of F.softmax and nn.Dropout keeps it", "as others of the model are"


def quiet(name, producer, *kept, training=None, call=None, takes=True):
    """A model with Dropout of these ratios without training mode, and perhaps one that says whether it is in it; what train and inspect say of it."""
    nodes, value, constants = [], "h", {"ratio": np.float32(0.1), "mode": bool(training)}
    for number, ratio in enumerate(kept):
        constants[f"r{number}"] = np.float32(ratio)
        nodes.append(helper.make_node("Dropout", [value, f"r{number}"], [f"d{number}"]))
        value = f"d{number}"
    if training is not None:
        nodes.append(helper.make_node("Dropout", [value, "ratio", "mode"], ["last"]))
        value = "last"
    nodes.append(helper.make_node("Identity", [value], ["m"]))
    if call:
        nodes[0 if takes else -1].metadata_props.add(key="pkg.torch.onnx.fx_node", value=SDPA.format(call))
    made = onnx.load(model(f"{name}.onnx", nodes, constants))
    made.producer_name = producer
    onnx.save(made, OUT / f"{name}.onnx")
    trained = losses(OUT / f"{name}.onnx", 0)[2]
    looked = kerf("inspect", OUT / f"{name}.onnx").stderr
    silent = losses(OUT / f"{name}.onnx", 0, "-q")[2]
    checks.expect(f"{name}, -q", not silent, silent)
    said = [[line for line in text.splitlines() if "Dropout" in line] for text in (trained, looked)]
    checks.expect(f"{name}, train and inspect", ["note: in training, " + line[len("note: "):] for line in said[0]] == said[1], said)
    return "".join(said[0])


for name, expected, arguments in (
        ("attention", ("ratio 0.5 in 1 place ", PYTORCH), dict(producer="pytorch", kept=[0.5], call="0.5")),
        ("of the older exporter", ("ratio 0.1 and 0.5 in 3 places ", PYTORCH), dict(producer="pytorch", kept=[0.5, 0.1, 0.5])),
        ("beside another", ("ratio 0.5 in 1 place ", PYTORCH), dict(producer="pytorch", kept=[0.5], call="0.5", training=True)),
        ("taken out by the optimizer", ("ratio 0.25 in 1 place ", PYTORCH), dict(producer="pytorch", kept=[], call="0.25", takes=False)),
        ("of others", ("ratio 0.5 in 1 place ", ANY), dict(producer="other", kept=[0.5], training=True)),
        ("of others, in inference form", (), dict(producer="other", kept=[0.5])), ("it says so", (), dict(producer="other", kept=[0.5], training=False)),
        ("of no ratio", (), dict(producer="pytorch", kept=[0.0], call="0.0")), ("all are in training mode", (), dict(producer="pytorch", kept=[], training=True)),
        ("a call in training mode", (), dict(producer="pytorch", kept=[], training=True, call="0.1"))):
    said = quiet(name.replace(" ", "-"), arguments.pop("producer"), *arguments.pop("kept"), **arguments)
    checks.expect(f"without training mode: {name}", all(part in said for part in expected) and bool(said) == bool(expected), said)
checks.finish()
