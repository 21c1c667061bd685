# A block of a transformer sends the same bytes whether it comes as linalg (transformer.mlir) or as ONNX: weights that must
# be cut for memory, heads and hidden columns first and rows behind them. The bytes of the linalg program are counted from
# its collectives by the formulas of docs/Collectives.md, those of the ONNX model are what `kerf run` has counted.
#
# REQUIRES: kerf, kerf-opt, onnx
# RUN: %python %s %t %inputs %S/transformer.mlir
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT, BLOCK = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[3])
RANKS, LIMIT = 4, 62000
checks = Checks()

partitioned = subprocess.run(
    ["kerf-opt", BLOCK, f"--kerf-plan=devices={RANKS} mesh=tp={RANKS} objective=volume memory-limit={LIMIT}", "--kerf-partition",
     "--kerf-collectives"], capture_output=True, text=True)
checks.expect("linalg is partitioned", partitioned.returncode == 0, partitioned.stderr)


def size(text):
    return 4 * np.prod([int(each) for each in text.split("x")])


sent, seen = 0, []
for kind, operand, result in re.findall(r"= dist\.(\w+) .*: tensor<([0-9x]+)xf32> -> tensor<([0-9x]+)xf32>", partitioned.stdout):
    share = (RANKS - 1) / RANKS
    factor = {"all_reduce": 2 * share * size(operand), "reduce_scatter": share * size(operand), "all_gather": share * size(result), "all_slice": 0}
    checks.expect(f"{kind} is counted", kind in factor, partitioned.stdout)
    sent += factor.get(kind, 0)
    seen.append(kind)
megatron = 2 * 2 * (RANKS - 1) / RANKS * size("8x64")
checks.expect("two all-reduces or less", 0 < sent <= megatron, f"{sent} of {megatron}: {seen}")

rng = np.random.default_rng(1)
weights = {name: rng.standard_normal(shape).astype(np.float32) / 8
           for name, shape in {"wq": (64, 64), "wk": (64, 64), "wv": (64, 64), "wo": (64, 64), "w1": (64, 256), "w2": (256, 64)}.items()}
node = helper.make_node
nodes = []
for name in "qkv":
    nodes += [node("MatMul", ["x", f"w{name}"], [name]), node("Reshape", [name, "heads"], [f"{name}_heads"]),
              node("Transpose", [f"{name}_heads"], [f"{name}h"], perm=[1, 2, 0] if name == "k" else [1, 0, 2])]
nodes += [node("MatMul", ["qh", "kh"], ["scores"]), node("Softmax", ["scores"], ["p"], axis=-1), node("MatMul", ["p", "vh"], ["o_heads"]),
          node("Transpose", ["o_heads"], ["o_rows"], perm=[1, 0, 2]), node("Reshape", ["o_rows", "rows"], ["o"]),
          node("MatMul", ["o", "wo"], ["y"]), node("Add", ["x", "y"], ["r"]), node("MatMul", ["r", "w1"], ["h"]),
          node("Tanh", ["h"], ["t"]), node("MatMul", ["t", "w2"], ["f"]), node("Add", ["r", "f"], ["out"])]
shapes = {"heads": np.array([8, 4, 16]), "rows": np.array([8, 64])}
graph = helper.make_graph(
    nodes, "block", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 64])],
    [helper.make_tensor_value_info("out", TensorProto.FLOAT, [8, 64])],
    [numpy_helper.from_array(value, name) for name, value in {**weights, **shapes}.items()])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), OUT / "block.onnx")
ran = kerf("run", OUT / "block.onnx", f"--devices=cpu:{RANKS}", f"--mesh=tp={RANKS}", "--objective=volume", f"--memory-limit={LIMIT}B",
           "--batch-dim=x=-1", "--seed=1", "-q", "--stats", OUT / "run.json")
checks.expect("ONNX runs", ran.returncode == 0, ran.stderr)
if ran.returncode == 0:
    counted = json.loads((OUT / "run.json").read_text())["communication"]["bytes_per_rank"]
    checks.expect("the same bytes", counted == sent, f"ONNX {counted}, linalg {sent}: {seen}")
checks.finish()
