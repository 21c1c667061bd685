# Of many lookups and divisions that one kernel has fused, the one that fails is named, alone; also where two kernels are
# the same code.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(sys.argv[2])))
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
ROWS, TABLES = 4, 5
draw = np.random.default_rng(0)
nodes, inputs, sums = [], [], []
for half in ("a", "b"):  # twice the same, but for the names
    value = None
    for i in range(TABLES):
        name = f"{half}{i}"
        inputs.append((f"ids_{name}", [ROWS]))
        nodes.append(helper.make_node("Gather", [f"table_{i}", f"ids_{name}"], [f"row_{name}"], name=f"lookup_{name}"))
        if value:
            nodes.append(helper.make_node("Add", [value, f"row_{name}"], [f"sum_{name}"], name=f"add_{name}"))
        value = f"sum_{name}" if value else f"row_{name}"
    nodes.append(helper.make_node("ReduceSum", [value, "axis"], [f"total_{half}"], name=f"total_{half}", keepdims=1))
    sums.append(f"total_{half}")
    inputs += [(f"by_{half}", [ROWS, 1]), (f"of_{half}", [ROWS, 1])]
    nodes += [helper.make_node("Div", [f"of_{half}", f"by_{half}"], [f"quotient_{half}"], name=f"divide_{half}"),
              helper.make_node("Mul", [f"quotient_{half}", f"of_{half}"], [f"y_{half}"], name=f"times_{half}")]
graph = helper.make_graph(nodes, "lookups", [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name, shape in inputs],
                          [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, 1]) for name in sums] +
                          [helper.make_tensor_value_info(f"y_{half}", TensorProto.INT64, [ROWS, 1]) for half in "ab"],
                          [numpy_helper.from_array(draw.standard_normal((8 + i, 6)).astype(np.float32), f"table_{i}") for i in range(TABLES)] +
                          [numpy_helper.from_array(np.array([1]), "axis")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / "lookups.onnx")
np.savez(OUT / "good.npz", **{name: np.ones(shape, np.int64) for name, shape in inputs})
for mesh in ([], ["--devices=cpu:2", "--mesh=dp=2"]):
    good = kerf("run", OUT / "lookups.onnx", f"--input=@{OUT / 'good.npz'}", *mesh)
    checks.expect(f"nothing fails {mesh}", good.returncode == 0, good.stderr)
    package = OUT / f"{len(mesh)}.kerf"
    kerf("compile", OUT / "lookups.onnx", "-o", package, *mesh)
    for name, shape in inputs:
        if name.startswith("of"):
            continue
        given = np.load(OUT / "good.npz")
        bad = {key: given[key].copy() for key in given}
        bad[name][1] = 0 if name.startswith("by") else 99
        np.savez(OUT / "bad.npz", **bad)
        result = kerf("run", package, f"--input=@{OUT / 'bad.npz'}")
        node = f"divide_{name[-1]}" if name.startswith("by") else f"lookup_{name[4:]}"
        why = "integer division by zero" if name.startswith("by") else f"index 99 is out of range of a dimension of size {8 + int(name[-1])}"
        checks.expect(f"{name} {mesh}", result.returncode == 5 and f":{node}: {why}" in result.stderr and " or " not in result.stderr, result.stderr)
checks.finish()
