# A bias, a scale and running statistics that a file stores as one tensor (TorchScript does, they are zeros and ones) are
# trained as those of a file that stores each: the same losses and weights, bit for bit, on one device and on two. What is
# tied by a flag is one for each thing that it is: statistics never are a bias.
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

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
draw = np.random.default_rng(0)
np.savez(OUT / "data.npz", x=draw.standard_normal((32, 2, 6, 6)).astype(np.float32), labels=draw.integers(0, 5, 32))
weights = {"c1": draw.standard_normal((4, 2, 3, 3)), "c2": draw.standard_normal((4, 4, 3, 3)), "f": draw.standard_normal((144, 5))}


def model(name, stored, ir=9, calls=False):
    """`stored`: the initializer of each of the norms' vectors. `calls`: the nodes say which calls of PyTorch they are."""
    arrays = {key: value.astype(np.float32) * 0.2 for key, value in weights.items()}
    nodes, x = [], "x"
    for i in (1, 2):
        vectors = [stored(f"b{i}.{what}") for what in ("weight", "bias", "mean", "var")]
        for what, vector in zip((1, 0, 0, 1), vectors, strict=True):
            arrays[vector] = np.full(4, what, np.float32)
        nodes += [helper.make_node("Conv", [x, f"c{i}"], [f"y{i}"], pads=[1] * 4),
                  helper.make_node("BatchNormalization", [f"y{i}", *vectors], [f"z{i}", f"m{i}", f"v{i}"], training_mode=1),
                  helper.make_node("Tanh", [f"z{i}"], [f"a{i}"])]
        if calls:
            arguments = ", ".join(f"%{kind}_b{i}_{what}" for kind, what in (("p", "weight"), ("p", "bias"), ("b", "mean"), ("b", "var")))
            nodes[-2].metadata_props.add(key="pkg.torch.onnx.fx_node", value=f"%norm_{i} : call_function[target=batch_norm](args = (%y, {arguments}))")
        x = f"a{i}"
    nodes += [helper.make_node("Flatten", [x], ["flat"]), helper.make_node("MatMul", ["flat", "f"], ["logits"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2, 6, 6])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 5])],
                              [numpy_helper.from_array(value, key) for key, value in arrays.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir), OUT / f"{name}.onnx")


def command(name, *flags):
    return ["train", OUT / f"{name}.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1",
            f"--data={OUT / 'data.npz'}", "--batch-size=4", "--steps=8", "--shuffle=off", "--threads=1", "-q",
            f"--log={OUT / 'log.jsonl'}", "-o", OUT / f"{name}-trained.onnx", *flags]


def run(name, *flags):
    result = kerf(*command(name, *flags))
    checks.expect(f"{name} {flags}", result.returncode == 0, result.stderr)
    losses = [json.loads(line)["loss"] for line in (OUT / "log.jsonl").read_text().splitlines()]
    graph = onnx.load(OUT / f"{name}-trained.onnx").graph
    arrays = {tensor.name: numpy_helper.to_array(tensor).tobytes() for tensor in graph.initializer}
    return losses, [arrays[name] for node in graph.node for name in node.input if name in arrays]


model("each", lambda name: name)
model("aliased", lambda name: "ones" if name[3:] in ("weight", "var") else "zeros")
model("old", lambda name: "ones" if name[3:] in ("weight", "var") else "zeros", ir=3)
for mesh in ([], ["--devices=cpu:2", "--mesh=dp=2"]):
    checks.expect(f"as one by one {mesh}", run("each", *mesh) == run("aliased", *mesh))
# PyTorch's exporter stores them under the first norm's names and says whose each is: the second norm's scale is not its
# variance, for being read by the same call.
model("called", lambda name: "b1.weight" if name[3:] in ("weight", "var") else "b1.bias", ir=10, calls=True)
for flags in ([], ["--batch-norm=frozen"]):
    checks.expect(f"as one by one, called {flags}", run("each", *flags) == run("called", *flags))
# A module that is applied twice: one bias, one running mean, never one of both; statistics that the file knows apart stay so.
losses, read = run("aliased", "--tied=.*")
first, second = read[1:5], read[6:10]
checks.expect("tied", first == second and len(set(first)) == 4, str([len(set(first)), first == second]))
losses, read = run("called", "--tied=.*")
first, second = read[1:5], read[6:10]
checks.expect("tied, called", first[:2] == second[:2] and len({*first, *second[2:]}) == 6, str([len(set(first)), first == second]))
# Before version 4 of the format an initializer is an input too, and nothing is added.
expect_error(checks, "old format", command("old"), 3, ["running statistics", "as one", "initializer of its own"],
             absent=[OUT / "old-trained.onnx"])
checks.finish()
