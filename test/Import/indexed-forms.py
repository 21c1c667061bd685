# Which ops of nn resampling, scatters and selections become: the fewest that do it. A map of whole factors is a
# repetition, one with a stride a slice; a linear axis reads two elements for one, an antialiased one gathers all at once;
# what is made of constants is a constant.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import collections
import re
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
node = helper.make_node
SIZES = {"x": [2, 3, 8, 8], "m": [4, 6], "u": [4, 2], "i": [4, 2], "w": [3, 2, 2, 2]}


def ops(name, nodes, constants):
    """How often each op of nn is there after import."""
    read = {key for each in nodes for key in each.input} - {key for each in nodes for key in each.output}
    graph = helper.make_graph(
        nodes, name, [helper.make_tensor_value_info(key, TensorProto.INT64 if key == "i" else TensorProto.FLOAT, SIZES[key])
                      for key in sorted(read & set(SIZES))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(value, key) for key, value in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), OUT / f"{name}.onnx")
    result = kerf("plan", OUT / f"{name}.onnx", "--stop-after=import")
    found = collections.Counter(re.findall(r"= nn\.(\w+)", result.stdout))
    found.pop("constant", None)
    if result.returncode:
        print(result.stderr)
        return None
    return found


def scales(*values):
    return {"s": np.array([1, 1, *values], np.float32)}


def resize(**attributes):
    return [node("Resize", ["x", "", "s"], ["y"], **attributes)]


ONE = numpy_helper.from_array(np.ones(1, np.float32))
INDEX = np.array([[0, 5], [1, 4], [2, 3], [3, -1]])
for name, nodes, constants, expected in (
        ("twice", resize(coordinate_transformation_mode="asymmetric", nearest_mode="floor"), scales(2, 3), {"broadcast": 2, "gather": 0}),
        ("half", resize(coordinate_transformation_mode="asymmetric", nearest_mode="floor"), scales(0.5, 0.25), {"slice": None, "gather": 0}),
        ("one-axis", resize(mode="nearest"), scales(1, 1.5), {"gather": 1}),
        ("linear", resize(mode="linear"), scales(2, 1), {"gather": 2, "mul": 2, "add": 1}),
        ("cubic", resize(mode="cubic"), scales(1, 2), {"gather": 4, "mul": 4, "add": 3}),
        ("antialias", resize(mode="cubic", antialias=1), scales(1, 0.5), {"gather": 1, "mul": 1, "reduce": 1}),
        ("same", resize(mode="linear"), scales(1, 1), {"gather": 0, "mul": 0, "transpose": 0}),
        ("elements", [node("ScatterElements", ["m", "i", "u"], ["y"], axis=1)], {}, {"scatter": 1, "transpose": 0, "gather": 1}),
        ("constant", [node("ScatterElements", ["m", "c", "u"], ["y"], axis=1)], {"c": INDEX}, {"scatter": 1, "gather": 0}),
        ("columns", [node("ScatterElements", ["m", "c", "u"], ["y"], axis=0)], {"c": np.abs(INDEX) % 4}, {"scatter": 1, "transpose": 3}),
        ("folded", [node("ConstantOfShape", ["a"], ["z"]), node("ConstantOfShape", ["d"], ["o"], value=ONE),
                    node("ScatterND", ["z", "b", "o"], ["k"]), node("Add", ["m", "k"], ["y"])],
         {"a": np.array([4, 6]), "b": np.array([[1], [3]]), "d": np.array([2, 6])}, {"scatter": 0, "add": 1}),
        ("best", [node("TopK", ["m", "k"], ["y", ""])], {"k": np.array([2])}, {"top_k": 1, "gather": 1}),
        ("transposed", [node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])], {"w": np.ones((3, 2, 2, 2), np.float32)},
         {"conv_input_gradient": 1, "pad": 0})):
    found = ops(name, nodes, constants)
    checks.expect(name, found is not None and all(found[op] == count if count is not None else found[op] for op, count in expected.items()),
                  f"  {found}, expected {expected}")
checks.finish()
