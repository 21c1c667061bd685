# What is refused says which form would be taken, where there is one, and a mistake that many tensors share is one error
# with a count.
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


def model(name, nodes, inputs=(("x", TensorProto.FLOAT, [2, 3]), ("n", TensorProto.INT64, [])), initializers=()):
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info(*value) for value in inputs],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], list(initializers))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), OUT / f"{name}.onnx")
    return OUT / f"{name}.onnx"


node = helper.make_node
BODY = helper.make_graph(
    [node("Identity", ["c"], ["on"]), node("Relu", ["h"], ["next"])], "body",
    [helper.make_tensor_value_info(*each) for each in (("i", TensorProto.INT64, []), ("c", TensorProto.BOOL, []),
                                                       ("h", TensorProto.FLOAT, None))],
    [helper.make_tensor_value_info(*each) for each in (("on", TensorProto.BOOL, []), ("next", TensorProto.FLOAT, None))])
GROWS = helper.make_graph(
    [node("Identity", ["c"], ["on"]), node("Concat", ["h", "h"], ["next"], axis=0)], "body",
    [helper.make_tensor_value_info(*each) for each in (("i", TensorProto.INT64, []), ("c", TensorProto.BOOL, []), ("h", TensorProto.FLOAT, None))],
    [helper.make_tensor_value_info(*each) for each in (("on", TensorProto.BOOL, []), ("next", TensorProto.FLOAT, None))])
# Two rows and at most six columns.
PLACES = [node("Relu", ["x"], ["z"]), node("NonZero", ["z"], ["p"], name="where"), node("Cast", ["p"], ["f"], name="cast", to=TensorProto.FLOAT)]
for name, nodes, said, form in (
        ("loop", [node("ReduceMax", ["x"], ["m"], keepdims=0), node("Cast", ["m"], ["k"], name="k", to=TensorProto.INT64),
                  node("Loop", ["k", "", "x"], ["y"], name="l", body=GROWS)],
         "operator Loop of a computed number of iterations, of which one changes the shape of a carried value", "values of one shape are carried"),
        ("values", [*PLACES, node("Hardmax", ["f"], ["y"], name="h")],
         "operator Hardmax of a tensor whose size is known only when the program runs", "operators that go element by element"),
        ("rows", [*PLACES, node("Transpose", ["f"], ["t"]), node("Reshape", ["t", "open"], ["y"], name="r")],
         "operator Reshape that puts elements whose number is known only when the program runs into a dimension of 6", "must be the open one"),
        ("training", [node("Dropout", ["x", "", "t"], ["y"], name="d")], "Dropout in training mode",
         r"exported in training form: to run it, export it in inference form \(model.eval\(\) in PyTorch\) or give --as-inference; "),
        ("type", [node("Cast", ["x"], ["y"], name="c", to=TensorProto.STRING)], "type string", "float, double, .* are taken")):
    extra = {"training": [numpy_helper.from_array(np.array(True), "t")], "rows": [numpy_helper.from_array(np.array([6, 2]), "open")]}.get(name, [])
    expect_error(checks, name, ["plan", model(name, nodes, initializers=extra)], 3,
                 [f"{said}.* is not supported", f"note: .*{form}"])
# One in training form may be trained, and is looked at as training has it; the sizes may be open. With --as-inference it has no Dropout.
DROPS = helper.make_graph([node("MatMul", ["x", "w"], ["h"]), node("Dropout", ["h", "", "t"], ["y"], name="d")], "drops",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
                          [numpy_helper.from_array(np.array(True), "t"), numpy_helper.from_array(np.ones((6, 4), np.float32), "w")])
onnx.save(helper.make_model(DROPS, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / "drops.onnx")
for flags in ([], ["--dim=batch=8"], ["--dim=batch=8", "--as-inference"]):
    looked = kerf("inspect", OUT / "drops.onnx", "--json", *flags)
    found = json.loads(looked.stdout or "{}")
    checks.expect(f"a look at training form {flags}", looked.returncode == 0 and found["unsupported"] == [] and found["parameters"]["elements"] == 24
                  and ("note: the model was exported in training form, and is counted as training has it" in looked.stderr) == ("--as-inference" not in flags),
                  looked.stdout + looked.stderr)
    quiet = kerf("inspect", OUT / "drops.onnx", "--json", "-q", *flags)
    checks.expect(f"-q beside --json {flags}", quiet.returncode == 0 and quiet.stdout == looked.stdout and not quiet.stderr, quiet.stderr)
# What reads across a dimension whose size is computed: the node says which, and who made it.
ONES = numpy_helper.from_array(np.ones(6, np.float32), "ones")
for name, last, said in (
        ("normalized", [node("LayerNormalization", ["f", "ones"], ["y"], name="l")],
         'l: the number of elements along dimension 1 of what "cast" gives is known only when the program runs, and layer_norm reads across them'),
        ("joined", [node("Add", ["f", "ones"], ["y"], name="a")], "a: the number of elements along dimension 1 .* and add joins them with 6"),
        ("joined with others", [node("Sigmoid", ["x"], ["s"]), node("NonZero", ["s"], ["q"], name="two"), node("Cast", ["q"], ["g"], to=TensorProto.FLOAT),
                                node("Add", ["f", "g"], ["y"], name="b")], "b: the number of .* and add joins them with another number of elements")):
    expect_error(checks, name, ["plan", model(name.replace(" ", "-"), [*PLACES, *last], initializers=[ONES])], 3, [said])
# What follows from an input that counts is known with it: it is named, as the user calls it.
STEERED = helper.make_graph(
    [node("Identity", ["c"], ["on"]), node("Unsqueeze", ["i", "zero"], ["rows"]), node("Concat", ["rows", "three"], ["s"], axis=0),
     node("Expand", ["h", "s"], ["next"], name="grow")], "body",
    [helper.make_tensor_value_info(*each) for each in (("j", TensorProto.INT64, []), ("c", TensorProto.BOOL, []),
                                                       ("h", TensorProto.FLOAT, None))],
    [helper.make_tensor_value_info(*each) for each in (("on", TensorProto.BOOL, []), ("next", TensorProto.FLOAT, None))])
counts = {name: numpy_helper.from_array(np.array(value, np.int64), name) for name, value in (("two", 2), ("zero", [0]), ("three", [3]))}
for name, nodes in (
        ("shape", [node("Unsqueeze", ["n", "zero"], ["m"]), node("Concat", ["m", "three"], ["s"], axis=0),
                   node("Expand", ["x", "s"], ["y"], name="e")]),
        ("inside", [node("Mul", ["n", "two"], ["i"]), node("Slice", ["x", "zero", "one"], ["row"]),
                    node("Loop", ["two", "", "row"], ["y"], name="l", body=STEERED)])):
    path = model(name, nodes, initializers=[*counts.values(), numpy_helper.from_array(np.array([1], np.int64), "one")])
    expect_error(checks, f"steered, {name}", ["plan", path], 2, ['input "n" steers a shape and must be known', "--constant n=1,2,3"])
    steered = "2" if name in ("shape",) else "1"
    result = kerf("plan", path, f"--constant=n={steered}")
    checks.expect(f"known, {name}", result.returncode == 0, result.stderr)
# The number of iterations need not be known.
for name, nodes in (("count", [node("Loop", ["n", "", "x"], ["y"], name="l", body=BODY)]),
                    ("counted", [node("Mul", ["n", "two"], ["m"]), node("Loop", ["m", "", "x"], ["y"], name="l", body=BODY)])):
    for flags in ([], ["--constant=n=1"]):
        result = kerf("plan", model(name, nodes, initializers=[counts["two"]]), *flags)
        checks.expect(f"a number of iterations, {name} {flags}", result.returncode == 0, result.stderr)
# A constant that is none of the input: by its name, and as it was given.
TAKES = model("takes", [node("Gather", ["x", "i"], ["y"])],
              [("x", TensorProto.FLOAT, [9, 3]), ("i", TensorProto.INT64, ["batch"]), ("b", TensorProto.INT64, [2, 2])])
np.save(OUT / "five.npy", np.arange(5))
np.save(OUT / "square.npy", np.ones((8, 1), np.int64))
np.save(OUT / "halves.npy", np.ones(8, np.float32))
for given, said in (("i=1", 'i: has 1 element, input "i" is \\[batch=8\\]'), ("i=1,2", 'i: has 2 elements, input "i" is \\[batch=8\\]'),
                    (f"i=@{OUT / 'five.npy'}", 'i: .*five.npy is \\[5\\], input "i" is \\[batch=8\\]'),
                    (f"i=@{OUT / 'square.npy'}", 'i: .*square.npy is \\[8, 1\\], input "i" is \\[batch=8\\]'),
                    ("b=1,2,3,4", 'b: has 4 elements, input "b" is \\[2, 2\\]'),
                    (f"i=@{OUT / 'halves.npy'}", "i: .*halves.npy: elements are f32, expected i64"),
                    ("i=1.5", 'i: "1.5" is no integer'), ("j=1", 'j: model has no input of this name')):
    expect_error(checks, f"constant {given}", ["plan", TAKES, "--dim=batch=8", f"--constant={given}"], 2, [f"--constant {said}"])
right = kerf("plan", TAKES, "--dim=batch=8", "--constant=i=1,2,3,4,5,6,7,8")
checks.expect("a constant that fits", right.returncode == 0, right.stderr)
# Where there is none, none is made up.
result = kerf("plan", model("none", [node("ImageDecoder", ["x"], ["y"], name="d")]))
checks.expect("no form", result.returncode == 3 and "note: " not in result.stderr, result.stderr)

# A folder of weights, a file each: one error, which says how many there are.
names = [f"w{i}" for i in range(7)]
nodes = [node("Add", ["x" if i == 0 else f"s{i - 1}", name], ["y" if i == 6 else f"s{i}"]) for i, name in enumerate(names)]
path = model("external", nodes, initializers=[numpy_helper.from_array(np.ones((2, 3), np.float32) * i, name) for i, name in enumerate(names)])
onnx.save_model(onnx.load(path), path, save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0)
checks.expect("complete", kerf("run", path, "--random-inputs").returncode == 0)
for name in names:
    (OUT / name).unlink()
result = kerf("run", path, "--random-inputs")
checks.expect("absent", result.returncode == 2 and result.stderr.count("error: ") == 1
              and 'w0: external data "w0": no such file beside the model' in result.stderr
              and "note: the same of 6 more: w1, w2, w3, w4, ..." in result.stderr, result.stderr)
checks.finish()
