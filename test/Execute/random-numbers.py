# Random numbers: distributed as they should be, other ones in each node, the same on every mesh and in every run, and others
# with another seed.
#
# REQUIRES: kerf-commands, onnx
# RUN: %python %s %t %inputs
import pathlib
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper

from kerf_commands import Commands
from kerf_tests import Checks, fresh_folder

OUT = fresh_folder(sys.argv[1])
checks = Checks()
SHAPE = [40, 250]


def model(name, seed):
    more = {} if seed is None else {"seed": seed}
    node = helper.make_node
    nodes = [
        node("RandomUniform", [], ["uniform"], shape=SHAPE, low=-1.0, high=3.0, **more),
        node("RandomUniform", [], ["again"], shape=SHAPE, low=-1.0, high=3.0, **more),
        node("RandomNormal", [], ["normal"], shape=SHAPE, mean=2.0, scale=0.5, **more),
        node("RandomNormalLike", ["p"], ["like"], **more), node("Bernoulli", ["p"], ["coin"], dtype=TensorProto.INT32, **more),
        node("Multinomial", ["logits"], ["classes"], sample_size=4000, dtype=TensorProto.INT64, **more)]
    kinds = {"coin": TensorProto.INT32, "classes": TensorProto.INT64}
    outputs = [helper.make_tensor_value_info(each.output[0], kinds.get(each.output[0], TensorProto.FLOAT), None) for each in nodes]
    inputs = [helper.make_tensor_value_info("p", TensorProto.FLOAT, SHAPE),
              helper.make_tensor_value_info("logits", TensorProto.FLOAT, [2, 3])]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), OUT / f"{name}.onnx")
    return [each.output[0] for each in nodes]


P = np.broadcast_to(np.linspace(0, 1, SHAPE[1], dtype=np.float32), SHAPE)
CLASSES = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], np.float32)
np.savez(OUT / "in.npz", p=P, logits=np.log(CLASSES))
with Commands() as kerf:
    def run(name, names, *flags):
        folder = OUT / "out"
        result = kerf("run", OUT / f"{name}.onnx", f"--input=@{OUT / 'in.npz'}", f"--output-dir={folder}", *flags)
        checks.expect(f"{name} {flags}", result.code == 0, result.stderr)
        return {each: np.load(folder / f"{each}.npy") for each in names} if result.code == 0 else {}

    names = model("plain", None)
    model("one", 1.0)
    model("two", 2.5)
    first = run("plain", names, "--devices=cpu:1")
    for flags in (["--devices=cpu:1"], ["--devices=cpu:2"], ["--devices=cpu:4", "--solver=random", "--seed=3"],
                  ["--devices=cpu:3", "--solver=random", "--seed=4"]):
        other = run("plain", names, *flags)
        # Sines and logarithms of other vector lengths may round otherwise; which numbers are drawn may not differ.
        checks.expect(f"the same on {flags}", all(np.allclose(first[name], other[name], rtol=1e-6, atol=1e-6) for name in names))
    one, two = run("one", names), run("two", names)
    for name in names:
        checks.expect(f"{name}: other seeds, other numbers", not np.array_equal(one[name], two[name])
                      and not np.array_equal(first[name], one[name]))
checks.expect("each node its own", not np.array_equal(first["uniform"], first["again"]))


def near(what, found, expected, error):
    """Within five standard errors."""
    checks.expect(what, abs(found - expected) <= 5 * error, f"{found}, expected {expected} +- {error}")


count = np.prod(SHAPE)
u = (first["uniform"].astype(float) + 1) / 4
checks.expect("range", 0 <= u.min() and u.max() < 1)
for moment in (1, 2, 3):
    near(f"uniform, moment {moment}", (u ** moment).mean(), 1 / (moment + 1), np.sqrt(1 / (2 * moment + 1) / count))
near("neighbours do not know of each other", np.corrcoef(u[:, :-1].ravel(), u[:, 1:].ravel())[0, 1], 0, 1 / np.sqrt(count))
z = (first["normal"].astype(float) - 2) / 0.5
for name, values in (("normal", z), ("like", first["like"].astype(float))):
    for moment, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        near(f"{name}, moment {moment}", (values ** moment).mean(), expected, np.sqrt(variance / count))
coin = first["coin"]
checks.expect("a coin", set(np.unique(coin)) == {0, 1} and not coin[:, 0].any() and coin[:, -1].all())
near("how often it is 1", (coin - P).mean(), 0, np.sqrt((P * (1 - P)).mean() / count))
for row in (0, 1):
    for kind in range(3):
        p = CLASSES[row, kind]
        near(f"class {kind} of {row}", (first["classes"][row] == kind).mean(), p, np.sqrt(p * (1 - p) / 4000))
checks.finish()
