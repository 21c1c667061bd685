# Which dimension of an input counts samples: the one that is called a batch, wherever it is; else the leading one, where
# it is open or of one size. Attention that has its sequence first, with heads beside samples in one dimension and a
# projection of all rows as one matrix, is cut by samples without anything to send, and gives what ONNX Runtime gives.
#
# REQUIRES: kerf, onnx, onnxruntime
# RUN: %python %s %t
import json
import pathlib
import re
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "Inputs"))
import kerf_tests

out = kerf_tests.fresh_folder(sys.argv[1])
checks = kerf_tests.Checks()
random = np.random.default_rng(5)


def save(name, nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*each) for each in inputs],
                              [helper.make_tensor_value_info(*each) for each in outputs],
                              [numpy_helper.from_array(value, name) for name, value in weights])
    path = out / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)
    return path


def kerf(*arguments):
    done = kerf_tests.kerf(*arguments)
    checks.expect(" ".join(map(str, arguments)), done.returncode == 0, f"{done.returncode}\n{done.stderr}")
    return done.stdout


def attention():
    """[7, batch, 16] with four heads, as PyTorch's MultiheadAttention computes it where it gives its weights out."""
    nodes, weights = [], [("rows", np.array([-1, 16])), ("back", np.array([7, -1, 16])), ("heads", np.array([7, -1, 4]))]
    for part in "qkv":
        weights.append((f"w{part}", random.standard_normal((16, 16), dtype=np.float32) / 4))
        nodes += [helper.make_node("MatMul", ["x", f"w{part}"], [f"{part}0"]),
                  helper.make_node("Reshape", [f"{part}0", "heads"], [f"{part}1"]),
                  helper.make_node("Transpose", [f"{part}1"], [part], perm=[1, 2, 0] if part == "k" else [1, 0, 2])]
    weights += [("wo", random.standard_normal((16, 16), dtype=np.float32) / 4),
                ("bo", random.standard_normal(16, dtype=np.float32))]
    nodes += [helper.make_node("MatMul", ["q", "k"], ["scores"]), helper.make_node("Softmax", ["scores"], ["p"], axis=-1),
              helper.make_node("MatMul", ["p", "v"], ["mixed"]),
              helper.make_node("Transpose", ["mixed"], ["first"], perm=[1, 0, 2]),
              helper.make_node("Reshape", ["first", "rows"], ["flat"]),
              helper.make_node("Gemm", ["flat", "wo", "bo"], ["projected"]),
              helper.make_node("Reshape", ["projected", "back"], ["unflat"]), helper.make_node("Add", ["unflat", "x"], ["y"])]
    return save("attention", nodes, [("x", TensorProto.FLOAT, [7, "batch", 16])], [("y", TensorProto.FLOAT, [7, "batch", 16])],
                weights)


def is_cut_by_samples(model):
    x = random.standard_normal((7, 8, 16), dtype=np.float32)
    np.save(out / "x.npy", x)
    for mesh in ("dp=4", "x=4"):
        plan = out / "plan.json"
        kerf("plan", model, "--dim", "batch=8", "--devices=4", f"--mesh={mesh}", "--objective=volume", "-q", "-o", plan)
        sent = json.loads(plan.read_text())["communication"]["bytes_per_rank"]
        checks.expect(f"samples over {mesh}", sent == 0, f"sends {sent}")
    kerf("run", model, f"--input={out}/x.npy", "--devices=cpu:4", "--mesh=dp=4", f"--output-dir={out}/o", "-q")
    expected, = onnxruntime.InferenceSession(model).run(None, {"x": x})
    largest = np.abs(np.load(out / "o/y.npy") - expected).max()
    checks.expect("ONNX Runtime", largest < 1e-5, f"largest difference {largest}")


def dimensions(name, sizes, *options):
    """kerf.batch_dim of each of the inputs with these sizes."""
    names = [f"i{index}" for index in range(len(sizes))]
    model = save(name, [helper.make_node("Neg", [each], [f"o{each}"]) for each in names],
                 [(each, TensorProto.FLOAT, size) for each, size in zip(names, sizes)],
                 [(f"o{each}", TensorProto.FLOAT, size) for each, size in zip(names, sizes)])
    symbols = sorted({dim for size in sizes for dim in size if isinstance(dim, str)})
    text = kerf("compile", model, *(f"--dim={symbol}=6" for symbol in symbols), "--devices=1", "--stop-after=import", *options)
    found = {name: dim for dim, name in re.findall(r'\{(?:kerf\.batch_dim = (\d+) : i64, )?kerf\.name = "(i\d)"', text)}
    return [int(found[each]) if found[each] else None for each in names]


is_cut_by_samples(attention())
for name, sizes, options, expected in (
        ("named", [[5, "batch_size", 2], [2, "batch_size"], [6, 3]], (), [1, 1, None]),
        ("short", [[5, "BS"], ["BS", 2]], (), [1, 0]),
        ("first", [["batch", 5], ["boxes", 4]], (), [0, 0]),
        ("open", [["n", 5], [6, 5]], (), [0, None]),
        ("same", [[6, 5], [6, 2]], (), [0, 0]),
        ("different", [[6, 5], [5, 6]], (), [None, None]),
        ("given", [[5, "batch"], [2, "batch"]], ("--batch-dim", "i0=0", "--batch-dim", "i1=-1"), [0, None])):
    found = dimensions(name, sizes, *options)
    checks.expect(name, found == expected, f"{found}, expected {expected}")
# Where inputs begin with different sizes, samples are what all outputs begin with; the order of inputs does not matter.
for name, kinds in (("graph", "xa"), ("graph first", "ax")):
    for nodes, graphs in ((6, 4), ("nodes", "graphs")):
        shapes = {"x": [graphs, nodes, 3], "a": [nodes, nodes]}
        path = save(f"{name} {nodes}", [helper.make_node("MatMul", ["a", "x"], ["y"])],
                    [(each, TensorProto.FLOAT, shapes[each]) for each in kinds], [("y", TensorProto.FLOAT, None)])
        dims = [] if nodes == 6 else ["--dim=nodes=6", "--dim=graphs=4"]
        text = kerf("compile", path, *dims, "--devices=1", "--stop-after=import")
        marked = re.findall(r'kerf\.batch_dim = 0 : i64, kerf\.name = "(\w)"', text)
        checks.expect(f"{name} {nodes}", marked == ["x"], text[:600])
        told = kerf("plan", path, *dims, "--devices=2", "--mesh=dp=2", "--objective=volume", "-q", "-o", out / "plan.json")
        sent = json.loads((out / "plan.json").read_text())["communication"]["bytes_per_rank"]
        checks.expect(f"{name} {nodes}, cut", sent == 0, f"sends {sent}")
# Where they say nothing either, what dp cuts is said.
path = save("guessed", [helper.make_node("MatMul", ["a", "x"], ["y"])],
            [("a", TensorProto.FLOAT, [8, 6]), ("x", TensorProto.FLOAT, [4, 6, 2]), ("z", TensorProto.FLOAT, [8])],
            [("y", TensorProto.FLOAT, [4, 8, 2]), ("z2", TensorProto.FLOAT, [8])][:1])
graph = onnx.load(path)
graph.graph.node.append(helper.make_node("Neg", ["z"], ["z2"]))
graph.graph.output.append(helper.make_tensor_value_info("z2", TensorProto.FLOAT, [8]))
onnx.save(graph, path)
guessed = kerf_tests.kerf("plan", path, "--devices=2", "--mesh=dp=2")
checks.expect("guessed", 'note: dimension 0 of "a" is taken for the batch' in guessed.stderr and "--batch-dim a=-1" in guessed.stderr,
              guessed.stderr)
# An input whose sizes are open is an input.
inspected = kerf("inspect", save("unbound", [helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["seq", "batch"])],
                                 [("y", TensorProto.FLOAT, ["seq", "batch"])]), "--batch-dim", "x=1")
checks.expect("inspected", "x: float[seq, batch]" in inspected, inspected)
checks.finish()
