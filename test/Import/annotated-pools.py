# onnx.shape_inference gives pools with ceil_mode a window more than the
# specification (below operator set 22, where the last one would begin in the
# padding), and every value behind them what follows from it. Such files run, with a
# note; a shape that is wrong for any other reason is still an error.
#
# REQUIRES: kerf, onnx, onnxruntime
# RUN: %python %s %t
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "Inputs"))
from kerf_tests import Checks

out = pathlib.Path(sys.argv[1])
shutil.rmtree(out, ignore_errors=True)
out.mkdir(parents=True)
checks = Checks()
onnxruntime.set_default_logger_severity(4)


def make(name, ceil_mode, wrong=None):
    """Pool -> Relu -> Neg, annotated; `wrong` is declared of the value that it names."""
    nodes = [helper.make_node("MaxPool", ["x"], ["p"], "pool", kernel_shape=[1, 2], strides=[2, 1], ceil_mode=ceil_mode),
             helper.make_node("Relu", ["p"], ["r"], "relu"), helper.make_node("Neg", ["r"], ["y"], "neg")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 4, 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8))
    for info in model.graph.value_info:
        if info.name in (wrong or ()):
            info.type.tensor_type.shape.CopyFrom(
                helper.make_tensor_value_info("", TensorProto.FLOAT, [1, 2, 9, 9]).type.tensor_type.shape)
    path = out / f"{name}.onnx"
    onnx.save(model, path)
    return path, {each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim]
                  for each in model.graph.value_info}


x = np.random.default_rng(1).standard_normal((1, 2, 4, 3)).astype(np.float32)
np.save(out / "x.npy", x)


def run(path):
    return subprocess.run(["kerf", "run", path, "--input", f"x=@{out / 'x.npy'}", f"--output-dir={out / path.stem}"],
                          capture_output=True, text=True, timeout=60)


path, declared = make("ceil", 1)
expected, = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
checks.expect("the annotation is wrong", declared["p"] != list(expected.shape), f"  {declared} {expected.shape}")
result = run(path)
checks.expect("it runs", result.returncode == 0, result.stderr)
if result.returncode == 0:
    checks.expect("as in ONNX Runtime", np.array_equal(np.load(out / "ceil" / "y.npy"), expected))
notes = [line for line in result.stderr.splitlines() if "declared shape" in line]
checks.expect("one note, of the pool", len(notes) == 1 and notes[0].startswith("note: ") and "p: declared shape" in notes[0],
              result.stderr)

for name, ceil_mode, wrong in (("floor", 0, ["p"]), ("behind", 0, ["r"])):
    result = run(make(name, ceil_mode, wrong)[0])
    checks.expect(f"{name}: refused", result.returncode == 3 and
                  f"{wrong[0]}: declared shape [1, 2, 9, 9] contradicts" in result.stderr, result.stderr)
checks.finish()
