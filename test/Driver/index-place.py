# An id that a table has no row for is refused where it is looked up, and what is said names the place that has it, as
# kerf train names the sample.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import pathlib
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from kerf_tests import Checks, expect_error, fresh_folder
from onnx import TensorProto, helper, numpy_helper

out = fresh_folder(sys.argv[1])
checks = Checks()
table = np.ones((10, 4), np.float32)
graph = helper.make_graph(
    [helper.make_node("Gather", ["table", "ids"], ["y"], name="look-up")], "g",
    [helper.make_tensor_value_info("ids", TensorProto.INT32, ["batch", 6])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 6, 4])],
    [numpy_helper.from_array(table, "table")])
model, ids, file = out / "model.onnx", np.zeros((4, 6), np.int32), out / "ids.npy"
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), model)
ids[2, 3] = 70
np.save(file, ids)
for flags in ([], ["--devices=cpu:2", "--mesh=dp=2"], ["--devices=cpu:2", "--mesh=dp=2", "--processes"]):
    expect_error(checks, f"an id of a file {flags}", ["run", model, f"--input=ids=@{file}", *flags], 5,
                 ["look-up: .*index 70 is out of range of a dimension of size 10", f'note: {file}: input "ids" has it at \\[2, 3\\]'])
expect_error(checks, "a number", ["run", model, "--dim=batch=2", "--input=ids=70"], 5, ["index 70 is out of range", 'note: input "ids" has it at \\[0, 0\\]'])

# Of two inputs that have it, the one whose table has no such row: what the other one's has is right.
graph = helper.make_graph(
    [helper.make_node("Gather", ["words", "ids"], ["a"], name="words-of"), helper.make_node("Gather", ["kinds", "types"], ["b"], name="kinds-of"),
     helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("ReduceMean", ["s", "axes"], ["y"], keepdims=0)], "two",
    [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", 6]) for name in ("ids", "types")],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
    [numpy_helper.from_array(table, "words"), numpy_helper.from_array(np.ones((3, 4), np.float32), "kinds"), numpy_helper.from_array(np.array([1]), "axes")])
two = out / "two.onnx"
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), two)
ids, types = np.full((8, 6), 3), np.zeros((8, 6), np.int64)
types[5, 2] = 3
np.savez(out / "two.npz", ids=ids, types=types, labels=np.zeros(8, np.int64))
expect_error(checks, "the other is right", ["run", two, f"--input=@{out / 'two.npz'}"], 5,
             ["kinds-of: index 3 is out of range of a dimension of size 3.*\n" f'note: {out / "two.npz"}: input "types" has it at \\[5, 2\\]\n$'])
expect_error(checks, "in training", ["train", two, "--loss=cross_entropy(y,labels)", "--optimizer=sgd", f"--data={out / 'two.npz'}", "--batch-size=4",
                                     "--shuffle=off", "--no-output", "-q"], 5, ['step 2: index 3 is out of range.*; sample 5 of \\S+ has it in "types"$'])
checks.finish()
