# Models whose export has fixed a size that the input leaves open, as torch.onnx.export does where dynamic_axes lack an output
# or the code makes a size an integer: what is wrong is said with the sizes that it depends on, and with what helps. Nodes
# that are wrong at any size have no such note.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import re
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()


def model(name, x, nodes, y, **constants):
    inputs, outputs = ([helper.make_tensor_value_info(each, TensorProto.FLOAT, shape)] for each, shape in (("x", x), ("y", y)))
    stored = [numpy_helper.from_array(array, key) for key, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / f"{name}.onnx")
    return OUT / f"{name}.onnx"


def node(kind, *inputs, **attributes):
    return helper.make_node(kind, inputs, ["y"], "node", **attributes)


HELP = r"\nnote: the sizes contradict each other, or one is fixed by the export, which is then the only one: give that one, or export the model again with the " \
       r"dimension open in inputs and outputs \(torch.onnx.export: dynamic_axes, or dynamic_shapes with dynamo=True\)"
OPEN = ["batch", "seq", 8]
output = model("output", ["batch", 8], [node("Relu", "x")], [4, 8])
reshape = model("reshape", OPEN, [node("Reshape", "x", "shape")], ["batch", 48], shape=np.array([4, 48]))
positions = model("positions", OPEN, [node("Add", "x", "table")], OPEN, table=np.ones((6, 8), np.float32))
for name, path, dims, code, said, sizes, taken in (
        ("an output", output, "batch=8", 3, r"y: declared shape \[4, 8\] contradicts \[8, 8\], which its node gives", "batch=8", "batch=4"),
        ("another output", output, "batch=9", 3, r"y: declared shape \[4, 8\] contradicts \[9, 8\], which its node gives", "batch=9", ""),
        ("a reshape", reshape, "batch=4,seq=7", 3, r"cannot reshape \[4, 7, 8\] to \[4, 48\]: .*", "seq=7", "seq=6"),
        ("a table", positions, "batch=4,seq=7", 3, r"operands .* do not broadcast", "seq=7", "seq=6")):
    expect_error(checks, name, ["plan", path, f"--dim={dims}", "--devices=2"], code,
                 [said + rf"\nnote: it depends on sizes that were given: {sizes}" +
                  (rf"\nnote: the model takes, for example, {taken} with the others as they are" if taken else "") + HELP])
# A size beyond a table is the cause of all that does not fit behind it, and said once.
add = [helper.make_node("Shape", ["x"], ["s"], start=1, end=2), helper.make_node("Slice", ["table", "zero", "s", "zero"], ["rows"], "rows"),
       helper.make_node("Add", ["x", "rows"], ["sum"], "add"), helper.make_node("Slice", ["mask", "zero", "s", "zero"], ["cut"], "cut"),
       helper.make_node("Mul", ["x", "cut"], ["product"], "mul"), helper.make_node("Sub", ["sum", "product"], ["y"], "node")]
large = model("large", OPEN, add, OPEN, table=np.ones((32, 8), np.float32), mask=np.ones((32, 8), np.float32), zero=np.zeros(1, np.int64))
gather = [add[0], helper.make_node("Squeeze", ["s"], ["n"]), helper.make_node("Range", ["start", "n", "one"], ["at"]),
          helper.make_node("Gather", ["table", "at"], ["rows"], "rows"), *add[2:]]
indices = model("indices", OPEN, gather, OPEN, table=np.ones((32, 8), np.float32), mask=np.ones((32, 8), np.float32), zero=np.zeros(1, np.int64),
                start=np.array(0), one=np.array(1))
for name, path, said in (("too large", large, r"large.onnx:add: operands .* do not broadcast"),
                         ("an index", indices, r"indices.onnx:rows: index 32 is outside size 32, with the sizes batch=4, seq=33")):
    for command in (["plan"], ["run", "--seed=1"]):
        result = kerf(*command, path, "--dim=batch=4,seq=33", "--devices=cpu:2")
        expected = rf'^error: .*{said}\nnote: seq=33 of input "x" is too large: the model takes seq=32 and not 33, as if a table had so many rows ' \
                   r"\(of positions, say\)\nnote: 1 error at another node comes of the same\n$"
        checks.expect(f"{name}: {command[0]}", result.returncode == 2 and re.match(expected, result.stderr), result.stderr)
    checks.expect(f"{name}: what is taken", kerf("plan", path, "--dim=batch=4,seq=32", "--devices=2").returncode == 0)
# Images that are halved and doubled again: the size that is to blame is named, though the batch is in the text of the error, too.
twice = [helper.make_node("Conv", ["x", "w"], ["half"], "half", strides=[2, 2], pads=[1, 1, 1, 1]),
         helper.make_node("Conv", ["half", "w"], ["quarter"], "quarter", strides=[2, 2], pads=[1, 1, 1, 1]),
         helper.make_node("ConvTranspose", ["quarter", "v"], ["up"], "up", strides=[2, 2]), node("Concat", "half", "up", axis=1)]
images = model("images", ["batch", 3, "h", "w0"], twice, ["batch", 6, "i", "j"], w=np.ones((3, 3, 3, 3), np.float32), v=np.ones((3, 3, 2, 2), np.float32))
for sizes, blamed, taken in (("h=18,w0=28", "h=18", "h=19"), ("h=19,w0=26", "w0=26", "w0=27"), ("h=1,w0=1", "batch=2, h=1, w0=1", "h=4, w0=4")):
    expect_error(checks, f"images, {sizes}", ["plan", images, f"--dim=batch=2,{sizes}", "--devices=2"], 3,
                 [rf"node: operands .* differ outside dimension 1\nnote: it depends on sizes that were given: {blamed}\nnote: the model takes, for "
                  rf"example, {taken} with the others as they are"])
# A size that must be the sum of others, or 1, which is repeated: nothing is too large, and 1 gives other numbers.
graph = helper.make_graph([helper.make_node("Concat", ["a", "b"], ["ab"], axis=1), node("Mul", "ab", "w")], "g",
                          [helper.make_tensor_value_info(each, TensorProto.FLOAT, ["batch", size]) for each, size in (("a", "na"), ("b", "nb"), ("w", "nw"))],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "ny"])])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / "joined.onnx")
for given, blamed, taken in ((6, "na=3, nb=4, nw=6", "na=2"), (9, "na=3, nb=4, nw=9", "na=5"), (16, "batch=2, na=3, nb=4, nw=16", "na=8, nb=8")):
    result = kerf("plan", OUT / "joined.onnx", f"--dim=batch=2,na=3,nb=4,nw={given}", "--devices=2")
    checks.expect(f"joined, {given}", result.returncode == 3 and "too large" not in result.stderr and "nw=1 " not in result.stderr and
                  f"given: {blamed}\nnote: the model takes, for example, {taken} with" in result.stderr, result.stderr)
# Of the sizes that were exported all are taken.
for name, path, dims in (("output", output, "batch=4"), ("reshape", reshape, "batch=4,seq=6"), ("positions", positions, "batch=4,seq=6")):
    result = kerf("plan", path, f"--dim={dims}", "--devices=2")
    checks.expect(f"{name} as exported", result.returncode == 0, result.stderr)

# No size would mend this one.
wrong = model("wrong", ["batch", 8], [node("Transpose", "x", perm=[0, 0])], ["batch", 8])
result = kerf("plan", wrong, "--dim=batch=8", "--devices=2")
checks.expect("wrong at any size", result.returncode == 3 and "wrong.onnx:node: " in result.stderr and "note: " not in result.stderr, result.stderr)
# Nor this: the dimension has a size of its own.
squeezed = model("squeezed", ["batch", 8], [node("Squeeze", "x", "last")], ["batch"], last=np.array([-1]))
result = kerf("plan", squeezed, "--dim=batch=2", "--devices=2")
checks.expect("a squeeze", result.returncode == 3 and "squeezed.onnx:node: dimension 1 has size 8, expected 1" in result.stderr and
              "sizes that were given" not in result.stderr, result.stderr)

# All sizes are fixed.
fixed = model("fixed", [4, 8], [node("Relu", "x")], [4, 8])
expect_error(checks, "a fixed model", ["plan", fixed, "--dim=batch=8", "--devices=2"], 2,
             [r'--dim: no input has a dimension "batch", the file fixes all sizes: "x" is \[4, 8\]; leave --dim away, or export '
              r"the model again with the dimension open \(torch.onnx.export: dynamic_axes, or dynamic_shapes"])
checks.finish()
