# A plan of others, or edited, that multiplies parts of a sum by what may be
# infinite is refused: 0 times infinity would be NaN where the model gives infinity.
# By a weight, which is finite unless import has seen otherwise, it is taken.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "Inputs"))
from kerf_tests import Checks

out = pathlib.Path(sys.argv[1])
shutil.rmtree(out, ignore_errors=True)
out.mkdir(parents=True)
checks = Checks()
PARTS = '{}, {}, partial sum {"tp"}'


def kerf(*arguments):
    return subprocess.run(["kerf", *map(str, arguments)], capture_output=True, text=True, timeout=100)


def model(name, factor):
    """y = x w f; `factor` is None for an input."""
    weights = [numpy_helper.from_array(np.ones((8, 3), np.float32), "w")]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])]
    if factor is None:
        inputs.append(helper.make_tensor_value_info("f", TensorProto.FLOAT, [3]))
    else:
        weights.append(numpy_helper.from_array(np.array(factor, np.float32), "f"))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"], "m"), helper.make_node("Mul", ["m", "f"], ["y"], "y")], "g",
        inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])], weights)
    path = out / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


for name, factor, refused in (("input", None, True), ("weight", [1, -2, 3], False),
                              ("infinite", [1, np.inf, 3], True), ("nan", [1, np.nan, 3], False)):
    path, plan = model(name, factor), out / f"{name}.json"
    made = kerf("plan", path, "--devices=2", "--mesh=tp=2", "--shard", "m=[{},{},partial sum {tp}]", "-q", "-o", plan)
    checks.expect(f"{name}: planned", made.returncode == 0, made.stderr)
    content = json.loads(plan.read_text())
    value = next(each for each in content["values"] if each["name"] == "y")
    value["operands"]["0"] = value["sharding"] = PARTS
    value["operands"]["1"] = "{}"
    plan.write_text(json.dumps(content))
    taken = kerf("plan", path, f"--plan={plan}", "-q")
    if refused:
        wanted = (f"error: {plan}: values: 'y' multiplies a partial sum by what may be infinite, or divides it by "
                  "what may be 0")
        checks.expect(f"{name}: refused", taken.returncode == 2 and taken.stderr.splitlines()[:1] == [wanted],
                      f"  {taken.returncode} {taken.stderr}")
    else:
        checks.expect(f"{name}: taken", taken.returncode == 0, f"  {taken.returncode} {taken.stderr}")
checks.finish()
