# Packages that take several sizes: every size against ONNX Runtime, on one rank and two; models for which a larger
# program would not do; what is refused.
#
# REQUIRES: kerf, onnx, onnxruntime
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT, MODELS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]) / "models"
checks = Checks()
numbers = np.random.default_rng(0)
F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def save(name, nodes, inputs, outputs, constants=()):
    value = lambda each: helper.make_tensor_value_info(*each)
    graph = helper.make_graph(nodes, name, [value(i) for i in inputs], [value(o) for o in outputs],
                              [numpy_helper.from_array(array, called) for called, array in constants])
    path = OUT / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def drawn(session, sizes):
    """Inputs of these sizes, by name."""
    feeds = {}
    for each in session.get_inputs():
        shape = [sizes.get(dim, dim) for dim in each.shape]
        feeds[each.name] = (numbers.integers(0, 50, shape) if "int64" in each.type else
                            numbers.standard_normal(shape).astype(np.float32))
    return feeds


def run(package, feeds, *flags, tool="kerf"):
    for name, array in feeds.items():
        np.save(OUT / f"{name}.npy", array)
    given = [f"--input={name}=@{OUT / name}.npy" for name in feeds]
    return kerf(*(["run"] if tool == "kerf" else []), package, *given, "-q", f"--output-dir={OUT / 'out'}", *flags, tool=tool)


def check_sizes(name, model, dims, cases, *flags, tool="kerf"):
    """The package of `dims` gives, for the sizes of each case, what ONNX Runtime gives."""
    package = OUT / f"{name}.kerf"
    made = kerf("compile", model, "--dim", dims, "-o", package, *flags)
    if made.returncode:
        return checks.expect(name, False, made.stderr)
    session = onnxruntime.InferenceSession(str(model))
    for sizes in cases:
        feeds = drawn(session, sizes)
        wanted = session.run(None, feeds)
        result = run(package, feeds, tool=tool)
        if result.returncode:
            checks.expect(f"{name} {sizes}", False, f"{made.stderr}{result.stderr}")
            continue
        for output, array in zip(session.get_outputs(), wanted):
            found = np.load(OUT / "out" / f"{output.name}.npy")
            checks.expect(f"{name} {sizes} {output.name}", found.shape == array.shape and
                          np.allclose(found, array, rtol=1e-3, atol=1e-5), f"{found.shape} {array.shape}\n{found}\n{array}")
    return made.stderr


def programs(package):
    return [[*entry["sizes"]] for entry in json.loads((package / "sizes.json").read_text())["programs"]]


every = [{"batch": size} for size in range(1, 9)]
note = check_sizes("mlp", MODELS / "mlp/model.onnx", "batch=1..8", every)
checks.expect("the note", note == 'note: dimension "batch": programs for 1, 2, 4, 8; what is between is filled up\n', note)
checks.expect("programs", programs(OUT / "mlp.kerf") == [[1], [2], [4], [8]], programs(OUT / "mlp.kerf"))
check_sizes("mlp-list", MODELS / "mlp/model.onnx", "batch=3,8", every[2:], "--devices=cpu:2", "--mesh=tp=2", tool="kerf-run")
check_sizes("convnet", MODELS / "convnet/model.onnx", "batch=2..5", every[1:5], "--devices=cpu:2")
attention = save("attention", [helper.make_node("Gather", ["table", "ids"], ["h"]), helper.make_node("Transpose", ["h"], ["k"], perm=[0, 2, 1]),
                              helper.make_node("MatMul", ["h", "k"], ["s"]), helper.make_node("Unsqueeze", ["mask", "middle"], ["m"]),
                              helper.make_node("Add", ["s", "m"], ["b"]), helper.make_node("Softmax", ["b"], ["p"], axis=-1),
                              helper.make_node("MatMul", ["p", "h"], ["y"])],
                 [("ids", I64, ["batch", "sequence"]), ("mask", F32, ["batch", "sequence"])], [("y", F32, ["batch", "sequence", 8])],
                 [("table", numbers.standard_normal((50, 8)).astype(np.float32)), ("middle", np.array([1]))])
note = check_sizes("attention", attention, "batch=1..3,sequence=8,16",
                   [{"batch": batch, "sequence": length} for batch in (1, 2, 3) for length in (8, 16)], "--devices=cpu:2")
checks.expect("a dimension that is none of samples", 'note: dimension "sequence": programs for 8, 16; no other size is taken (it does not count samples' in note, note)

# A number for each place and one for each sample, which is written as a constant of all of them.
placed = save("placed", [helper.make_node("Shape", ["x"], ["shape"]), helper.make_node("Expand", ["places", "shape"], ["e"]),
                         helper.make_node("Add", ["x", "e"], ["y"])], [("x", F32, ["batch", 4])], [("y", F32, ["batch", 4])],
              [("places", np.arange(4, dtype=np.float32))])
check_sizes("placed", placed, "batch=2..8", every[1:])

# Rows of all samples in one dimension; samples in the second one; an output that has none.
joined = save("joined", [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Reshape", ["r", "rows"], ["y"]),
                         helper.make_node("Transpose", ["r"], ["t"], perm=[1, 0, 2]), helper.make_node("Neg", ["w"], ["z"])],
              [("x", F32, ["batch", 4, 3])], [("y", F32, [None, 3]), ("t", F32, [4, "batch", 3]), ("z", F32, [2])],
              [("rows", np.array([-1, 3])), ("w", np.array([1, 2], np.float32))])
check_sizes("joined", joined, "batch=2..7", every[1:7])
second = save("second", [helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", F32, [5, "batch", 3])], [("y", F32, [5, "batch", 2])],
              [("w", np.ones((3, 2), np.float32))])
check_sizes("second", second, "batch=4,8", every[3:8])


def size_of(x):
    return [helper.make_node("Shape", [x], ["shape"], start=0, end=1)]


def branch(name, of):
    return helper.make_graph([helper.make_node("Neg", [of], [name])], name, [], [helper.make_tensor_value_info(name, F32, None)])


X, Y, TO_FLOAT = [("x", F32, ["batch", 8])], [("y", F32, ["batch", 8])], helper.make_node("Cast", ["shape"], ["size"], to=F32)
UNLIKE = {
    # A sample's result depends on how many there are, or on the others.
    "divided": ([*size_of("x"), TO_FLOAT, helper.make_node("Div", ["x", "size"], ["y"])], "the model is another for that size: "),
    "centred": ([helper.make_node("ReduceMean", ["x", "axis"], ["m"]), helper.make_node("Sub", ["x", "m"], ["y"])], "needs all of it"),
    "softmax": ([helper.make_node("Softmax", ["x"], ["y"], axis=0)], "needs all of it"),
    "numbered": ([*size_of("x"), helper.make_node("Squeeze", ["shape"], ["n"]), helper.make_node("Range", ["zero", "n", "one"], ["r"]),
                  helper.make_node("Cast", ["r"], ["f"], to=F32), helper.make_node("Reshape", ["f", "column"], ["c"]),
                  helper.make_node("Add", ["x", "c"], ["y"])], "the model is another for that size: "),
    # Places of a sample that depend on the size.
    "moved": ([*size_of("x"), helper.make_node("Sub", ["shape", "two"], ["start"]), helper.make_node("Slice", ["x", "start", "shape", "one_axis"], ["s"]),
               helper.make_node("ReduceSum", ["s", "one_axis"], ["t"]), helper.make_node("Add", ["x", "t"], ["y"])], "nn.slice has other attributes"),
    "first": ([*size_of("x"), helper.make_node("Slice", ["x", "axis", "shape", "one_axis"], ["s"]),
               helper.make_node("ReduceSum", ["s", "one_axis"], ["t"]), helper.make_node("Add", ["x", "t"], ["y"])], "nn.slice has other attributes"),
    # The same ops of other values.
    "chosen": ([*size_of("x"), helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Less", ["shape", "four"], ["few"]),
                helper.make_node("Squeeze", ["few"], ["is_few"]),
                helper.make_node("If", ["is_few"], ["i"], then_branch=branch("t", "x"), else_branch=branch("e", "r")),
                helper.make_node("Mul", ["i", "r"], ["y"])], "has other operands"),
    "last": ([helper.make_node("Slice", ["x", "minus", "end", "axis"], ["l"]), helper.make_node("Add", ["x", "l"], ["y"])], "needs all of it"),
}
CONSTANTS = [("two", np.array([2])), ("four", np.array([4])), ("one_axis", np.array([1])), ("axis", np.array([0])), ("zero", np.array(0)), ("one", np.array(1)), ("column", np.array([-1, 1])),
             ("minus", np.array([-1])), ("end", np.array([2**62]))]
# Sizes that the model itself refuses are not taken; the others are.
pairs = save("pairs", [helper.make_node("Reshape", ["x", "two"], ["p"]), helper.make_node("Reshape", ["p", "back"], ["y"])],
             [("x", F32, ["batch", 4])], [("y", F32, ["batch", 4])], [("two", np.array([-1, 2, 4])), ("back", np.array([-1, 4]))])
note = check_sizes("pairs", pairs, "batch=2..8", [{"batch": size} for size in (2, 4, 6, 8)])
checks.expect("pairs: the note", "of what is between 6 is filled up, " in note and "others not (3: " in note and
              "cannot reshape" in note, note)
# A constant for each sample and its windows, as a mask of a window attention is.
windows = save("windows", [helper.make_node("Shape", ["x"], ["shape"], start=0, end=1), helper.make_node("Concat", ["shape", "ones"], ["times"], axis=0),
                           helper.make_node("Tile", ["mask", "times"], ["m"]), helper.make_node("Reshape", ["x", "flat"], ["f"]),
                           helper.make_node("Add", ["f", "m"], ["y"])], [("x", F32, ["batch", 3, 2])], [("y", F32, [None, 2])],
               [("ones", np.array([1])), ("mask", np.arange(6, dtype=np.float32).reshape(3, 2)), ("flat", np.array([-1, 2]))])
note = check_sizes("windows", windows, "batch=2..5", every[1:5])
checks.expect("windows: the note", "what is between is filled up" in note, note)

for name, (nodes, why) in UNLIKE.items():
    used = {i for node in nodes for i in node.input}
    model = save(name, nodes, X, Y, [c for c in CONSTANTS if c[0] in used])
    said = check_sizes(name, model, "batch=2..4", [{"batch": 2}, {"batch": 4}])
    checks.expect(f"{name}: the note", 'note: dimension "batch": programs for 2, 4; no other size is taken (3: ' in said and why in said, said)
    np.save(OUT / "three.npy", np.ones((3, 8), np.float32))
    expect_error(checks, f"{name}: three", ["run", OUT / f"{name}.kerf", f"--input=x=@{OUT}/three.npy"], 2,
                 ['dimension "batch" is 3, the package takes 2, 4'])

# What is refused.
MLP, PACKAGE = MODELS / "mlp/model.onnx", OUT / "mlp.kerf"
session = onnxruntime.InferenceSession(str(MLP))
for size in (0, 9):
    feeds = drawn(session, {"batch": size})
    result = run(PACKAGE, feeds)
    checks.expect(f"size {size}", result.returncode == 2 and f'dimension "batch" is {size}, the package takes 1 to 8' in result.stderr, result.stderr)
feeds = drawn(onnxruntime.InferenceSession(str(attention)), {"batch": 2, "sequence": 8})
feeds["mask"] = np.zeros((3, 8), np.float32)
disagree = run(OUT / "attention.kerf", feeds)
checks.expect("inputs disagree", disagree.returncode == 2 and 'dimension "batch" of input "mask" is 3, by input "ids" it is 2' in disagree.stderr,
              disagree.stderr)
feeds = drawn(onnxruntime.InferenceSession(str(attention)), {"batch": 2, "sequence": 12})
between = run(OUT / "attention.kerf", feeds)
checks.expect("between", between.returncode == 2 and 'dimension "sequence" is 12, the package takes 8, 16' in between.stderr, between.stderr)
for tool, command in (("kerf", ["run"]), ("kerf-run", [])):
    three = kerf(*command, PACKAGE, "--seed=1", "--dim=batch=3", tool=tool)
    checks.expect(f"{tool}: the size of what is drawn", three.returncode == 0 and "f32 3x" in three.stdout, three.stdout + three.stderr)
    for flag, why in (("--dim=batch=9", 'dimension "batch" is 9'), ("--dim=bach=3", '--dim: no open dimension "bach", did you mean "batch"?'),
                      ("--dim=batch", "--dim: 'batch', expected NAME=SIZE")):
        wrong = kerf(*command, PACKAGE, "--seed=1", flag, tool=tool)
        checks.expect(f"{tool} {flag}", wrong.returncode == 2 and why in wrong.stderr, wrong.stderr)
np.save(OUT / "x.npy", drawn(session, {"batch": 2})["x"])
other = kerf("run", PACKAGE, f"--input=x=@{OUT / 'x.npy'}", "--dim=batch=3")
checks.expect("another size than the file's", other.returncode == 2 and 'of input "x" is 2, by --dim it is 3' in other.stderr, other.stderr)
largest = kerf("run", PACKAGE, "--random-inputs")
checks.expect("nothing tells", largest.returncode == 0 and "f32 8x" in largest.stdout, largest.stdout + largest.stderr)
TOOK = 'note: dimension "batch" is 8, the largest size of the package, since no input says another; --dim batch=SIZE does\n'
for tool, command in (("kerf", ["run"]), ("kerf-run", [])):
    for flags, note in ((["--random-inputs"], TOOK), (["--random-inputs", "--dim=batch=3"], ""), (["--random-inputs", "-q"], ""), ([f"--input=x=@{OUT / 'x.npy'}"], "")):
        told = kerf(*command, PACKAGE, *flags, tool=tool)
        checks.expect(f"{tool} {flags}: which size", told.returncode == 0 and told.stderr == note, told.stderr)
target = ["-o", OUT / "never.kerf"]
for name, arguments, patterns in (
        ("a range to run", ["run", MLP, "--dim=batch=1..8"], ["several sizes are for kerf compile"]),
        ("a range to plan", ["plan", MLP, "--dim=batch=1,8"], ["several sizes are for kerf compile"]),
        ("a size twice", ["compile", MLP, "--dim=batch=1,2,1", *target], ["--dim: 'batch=1,2,1': 1 is given twice"]),
        ("backwards", ["compile", MLP, "--dim=batch=8..1", *target], ["8 is more than 1"]),
        ("no end", ["compile", MLP, "--dim=batch=1..", *target], ["expected NAME=SIZE, NAME=LOW..HIGH or NAME=A,B,C"]),
        ("zero", ["compile", MLP, "--dim=batch=0..4", *target], ["'batch=0..4' has size 0, expected at least 1"]),
        ("a word", ["compile", MLP, "--dim=batch=1..two", *target], ["expected NAME=SIZE, NAME=LOW..HIGH"]),
        ("another name", ["compile", MLP, "--dim=batsh=1..8", *target], ['no input has a dimension "batsh", there are: batch']),
        ("too many", ["compile", attention, "--dim=batch=1..256,sequence=1..512", *target], ["are 90 programs, expected at most 32"]),
        ("a word in a list", ["compile", MLP, "--dim=batch=1,two", *target], ["'batch=1,two', expected NAME=SIZE"]),
        ("a colon", ["compile", MLP, "--dim=batch=1:8", *target], ["expected NAME=SIZE, NAME=LOW..HIGH"]),
        ("twice", ["compile", MLP, "--dim=batch=1..8,batch=4", *target], ["\"batch\" is given twice, as 'batch=1..8' and 'batch=4'"]),
        ("IR of one size", ["compile", MLP, "--dim=batch=1..8", "--stop-after=plan"], ["--stop-after: for one size"]),
        ("a GPU", ["compile", MLP, "--dim=batch=1..8", "--devices=cuda:0", *target], ["several sizes are for ranks on CPUs"])):
    expect_error(checks, name, arguments, 2, patterns, absent=[OUT / "never.kerf"])

wrong = kerf("compile", OUT / "pairs.onnx", "--dim=batch=2,3,4", *target)
checks.expect("a size that is asked for and wrong", wrong.returncode == 3 and "cannot reshape" in wrong.stderr and
              "with --dim batch=3" in wrong.stderr, wrong.stderr)
many = kerf("compile", MLP, "--dim=batch=1,5000", "-o", OUT / "many.kerf")
checks.expect("too many to compare", many.returncode == 0 and "which is done for 1000 at most" in many.stderr, many.stderr)

# A damaged sizes.json: its hash says it, and without hashes its reader.
text = (PACKAGE / "sizes.json").read_text()
for name, changed, why in (("version", text.replace("kerf.sizes/1", "kerf.sizes/2"), 'is "kerf.sizes/2", newer than "kerf.sizes/1"'),
                           ("program", text.replace("program-2", "program-7"), 'no program "program-7"'),
                           ("key", text.replace('"padded"', '"pabded"'), 'missing "padded"'),
                           ("axis", text.replace('"x": 0', '"x": 1'), 'sizes.json: dims[0].inputs: "x" has another size'),
                           ("order", text.replace("          1,\n", "          9,\n", 1) if "          1,\n" in text else text.replace("1", "9", 1), "sizes.json")):
    (PACKAGE / "sizes.json").write_text(changed)
    broken = run(PACKAGE, drawn(session, {"batch": 2}))
    checks.expect(f"{name}: hash", broken.returncode == 3 and "sizes.json: has hash" in broken.stderr, broken.stderr)
    broken = run(PACKAGE, drawn(session, {"batch": 2}), "--skip-hashes", tool="kerf-run")
    checks.expect(f"{name}: reader", broken.returncode == (2 if name == "version" else 3) and why in broken.stderr, broken.stderr)
(PACKAGE / "sizes.json").write_text(text)
checks.finish()
