# Sequences of tensors whose length is known: random programs over all operators that make, change and read one, against
# ONNX Runtime on one, two and three ranks; what is no sequence, or has no such element, is a located error.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import random
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()


def save(name, nodes, constants, output=("y", TensorProto.FLOAT, None), more=(), shape=(4, 6)):
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [output if isinstance(output, onnx.ValueInfoProto) else helper.make_tensor_value_info(*output), *more],
                              [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / f"{name}.onnx")
    return OUT / f"{name}.onnx"


class Program:
    """Elements all have one shape, which is known, so that each may be joined with each."""

    def __init__(self, seed):
        self.r, self.nodes, self.constants, self.count = random.Random(seed), [], {}, 0
        self.used = set()

    def node(self, op, inputs, **attributes):
        self.count += 1
        self.nodes.append(helper.make_node(op, inputs, [f"v{self.count}"], name=f"n{self.count}", **attributes))
        self.used.add(op)
        return f"v{self.count}"

    def constant(self, value):
        self.count += 1
        self.constants[f"c{self.count}"] = value
        return f"c{self.count}"

    def at(self, length, end=0):
        """A position, counted from either end."""
        at = self.r.randrange(length + end)
        return self.constant(np.int64(at - length if at < length and self.r.random() < 0.4 else at))

    def start(self):
        """A sequence, its length and the shape of its elements."""
        r = self.r
        axis = r.choice([0, 1, -1, -2])
        size = (4, 6)[axis]
        kind = r.randrange(4)
        if kind == 0:  # of ones, kept or not
            keep = r.randrange(2)
            shape = [1 if d == axis % 2 else (4, 6)[d] for d in range(2) if keep or d != axis % 2]
            return self.node("SplitToSequence", ["x"], axis=axis, keepdims=keep), size, shape
        if kind == 1:
            each = r.choice([1, 2])
            shape = [each if d == axis % 2 else (4, 6)[d] for d in range(2)]
            return self.node("SplitToSequence", ["x", self.constant(np.int64(each))], axis=axis), size // each, shape
        if kind == 2:
            shape = [size // 2 if d == axis % 2 else (4, 6)[d] for d in range(2)]
            return self.node("SplitToSequence", ["x", self.constant(np.int64([size // 2] * 2))], axis=axis), 2, shape
        if r.random() < 0.3:
            return self.node("SequenceInsert", [self.node("SequenceEmpty", []), "x"]), 1, [4, 6]
        return self.node("SequenceConstruct", ["x", self.node("Neg", ["x"]), "x"]), 3, [4, 6]

    def build(self):
        r = self.r
        sequence, length, shape = self.start()
        for _ in range(r.randrange(5)):
            kind = r.randrange(4)
            if kind == 0 and length > 1:
                sequence = self.node("SequenceErase", [sequence] + ([self.at(length)] if r.random() < 0.7 else []))
                length -= 1
            elif kind == 1:
                element = self.node("Exp", [self.node("SequenceAt", [sequence, self.at(length)])])
                sequence = self.node("SequenceInsert", [sequence, element] + ([self.at(length, 1)] if r.random() < 0.7 else []))
                length += 1
            elif kind == 2:
                sequence = self.node("Identity", [sequence])
        new = r.randrange(2)
        joined = self.node("ConcatFromSequence", [sequence], new_axis=new, axis=r.randrange(-len(shape) - new, len(shape) + new))
        one = self.node("Cast", [self.node("SequenceLength", [sequence])], to=TensorProto.FLOAT)
        self.nodes.append(helper.make_node("Mul", [joined, one], ["y"], name="last"))
        self.used.add("Mul")


used = set()
x = np.random.default_rng(1).standard_normal((4, 6), np.float32)
np.save(OUT / "x.npy", x)
for seed in range(24):
    program = Program(seed)
    program.build()
    used |= program.used
    path = save(f"random{seed}", program.nodes, program.constants)
    expected = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    for ranks in (1, 2, 3) if seed < 6 else (1 + seed % 3,):
        out = OUT / f"random{seed}-{ranks}"
        result = kerf("run", path, f"--input=x=@{OUT / 'x.npy'}", f"--devices={ranks}", "--solver=random", f"--seed={seed}",
                      "--threads=1", f"--output-dir={out}")
        fine = result.returncode == 0 and np.allclose(np.load(out / "y.npy"), expected, rtol=1e-5, atol=1e-6)
        checks.expect(f"random program {seed} on {ranks} ranks", fine, result.stderr)
checks.expect("every operator", used >= {"SplitToSequence", "SequenceConstruct", "SequenceEmpty", "SequenceAt", "SequenceInsert",
                                         "SequenceErase", "SequenceLength", "ConcatFromSequence"}, str(used))

node, three = helper.make_node, {"c": np.int64(3), "p": np.int64([4, 3]), "m": np.int64(-1), "e": np.int64([])}
split = node("SplitToSequence", ["x"], ["s"], name="cut", axis=1)
for name, nodes, text in (
        ("tensor", [node("SequenceAt", ["x", "c"], ["y"], name="n")], "n: input 0 is a tensor, expected a sequence"),
        ("sequence", [split, node("Relu", ["s"], ["y"], name="n")], "n: input 0 of Relu is a sequence, expected a tensor"),
        ("position", [split, node("SequenceAt", ["s", "s"], ["y"], name="n")], "n: the position is a sequence"),
        ("behind", [node("SplitToSequence", ["x", "c"], ["s"], name="cut", axis=1), node("SequenceAt", ["s", "c"], ["y"], name="n")],
         "n: position is 3, the sequence has 2 elements"),
        ("parts", [node("SplitToSequence", ["x", "p"], ["s"], name="cut", axis=1), node("SequenceAt", ["s", "c"], ["y"], name="n")],
         "cut: the parts of the split are 7 together, the dimension has 6"),
        ("negative", [node("SplitToSequence", ["x", "m"], ["s"], name="cut"), node("SequenceAt", ["s", "c"], ["y"], name="n")],
         "cut: split is -1, expected at least 1"),
        ("position list", [split, node("SequenceAt", ["s", "e"], ["y"], name="n")], "n: position has 0 elements, expected 1"),
        ("computed position", [split, node("Cast", ["x"], ["i"], to=TensorProto.INT64), node("SequenceAt", ["s", "i"], ["y"], name="n")],
         "n: "),
        ("types", [split, node("Cast", ["x"], ["i"], to=TensorProto.INT64), node("SequenceInsert", ["s", "i"], ["t"], name="n"),
                   node("SequenceAt", ["t", "c"], ["y"])], "n: elements of a sequence have different types"),
        ("empty", [node("SequenceEmpty", [], ["s"]), node("SequenceErase", ["s"], ["t"], name="n"), node("SequenceLength", ["t"], ["y"])],
         "n: position is -1, the sequence has 0 elements"),
        ("nothing", [node("SequenceEmpty", [], ["s"]), node("ConcatFromSequence", ["s"], ["y"], name="n", axis=0)],
         "n: the sequence has no element"),
        ("shapes", [node("Transpose", ["x"], ["t"]), node("SequenceConstruct", ["x", "t"], ["s"]),
                    node("ConcatFromSequence", ["s"], ["y"], name="n", axis=0, new_axis=1)], "n: elements have different shapes")):
    expect_error(checks, name, ["plan", save(name.replace(" ", "-"), nodes, three)], 3, [text])

# A sequence that is an output: its elements are.
x = np.arange(24, dtype=np.float32).reshape(4, 6)
np.save(OUT / "x.npy", x)
listed = onnx.helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
path = save("listed", [node("SplitToSequence", ["x", "c"], ["s"], axis=1), node("Identity", ["s"], ["y"])], {"c": np.int64(4)}, listed)
expected = onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
result = kerf("run", path, "--devices=cpu:2", f"--input=x=@{OUT / 'x.npy'}", f"--output-dir={OUT / 'listed'}")
found = [np.load(OUT / "listed" / f"y.{i}.npy") for i in range(2)] if result.returncode == 0 else []
checks.expect("outputs y.0 and y.1", len(expected) == len(found) and all(map(np.array_equal, found, expected)), result.stderr)
expect_error(checks, "no elements", ["plan", save("no-elements", [node("SequenceEmpty", [], ["y"])], {}, listed)], 3,
             ["an output that is a sequence without elements is not supported"])

# A sequence of one of two branches, whose condition is computed, and one that grows in a loop.
info, flag = helper.make_tensor_value_info, helper.make_tensor_value_info("t", TensorProto.BOOL, [])
one, other = (helper.make_graph([node(op, ["x"], ["e"]), node("SequenceConstruct", order, ["s"])], op, [],
                                [onnx.helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)])
              for op, order in (("Exp", ["x", "e"]), ("Neg", ["e", "x"])))
grow = helper.make_graph([node("Cast", ["i"], ["f"], to=TensorProto.FLOAT), node("Add", ["x", "f"], ["e"]),
                          node("SequenceInsert", ["s", "e"], ["u"]), node("Identity", ["t"], ["d"])], "grow",
                         [info("i", TensorProto.INT64, []), flag, onnx.helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)],
                         [info("d", TensorProto.BOOL, []), onnx.helper.make_tensor_sequence_value_info("u", TensorProto.FLOAT, None)])
path = save("flow", [node("ReduceSum", ["x"], ["a"], keepdims=0), node("Greater", ["a", "z"], ["b"]),
                     node("If", ["b"], ["v"], then_branch=one, else_branch=other),
                     node("Loop", ["c", "", "v"], ["w"], body=grow), node("ConcatFromSequence", ["w"], ["y"], axis=0)],
            {"c": np.int64(3), "z": np.float32(0)})
for sign in (1, -1):
    np.save(OUT / "x.npy", sign * x / 24)
    expected = onnxruntime.InferenceSession(path).run(None, {"x": sign * x / 24})[0]
    result = kerf("run", path, "--devices=cpu:2", f"--input=x=@{OUT / 'x.npy'}", f"--output-dir={OUT / 'flow'}")
    checks.expect(f"If and Loop, {sign}", result.returncode == 0 and np.allclose(np.load(OUT / "flow" / "y.npy"), expected, rtol=1e-5,
                                                                                 atol=1e-6), result.stderr)
expect_error(checks, "one name twice", ["plan", save("twice", [node("SplitToSequence", ["x", "c"], ["y"], axis=1), node("Neg", ["x"], ["y.0"])],
                                                     {"c": np.int64(4)}, listed, [info("y.0", TensorProto.FLOAT, (4, 6))])],
             3, ["y.0: two outputs have this name", "outputs NAME.0, NAME.1"])

# Scan as operator set 8 has it: each sample of a batch for itself.
body = helper.make_graph([node("Mul", ["h", "a"], ["g"]), node("Add", ["g", "b"], ["n"]), node("Sub", ["n", "a"], ["o"])], "body",
                         [helper.make_tensor_value_info(i, TensorProto.FLOAT, [2]) for i in "hab"],
                         [helper.make_tensor_value_info(i, TensorProto.FLOAT, [2]) for i in "no"])
values = {"h": (3, 2), "a": (3, 5, 2), "b": (3, 5, 2)}
graph = helper.make_graph([node("Scan", ["", "h", "a", "b"], ["y", "z"], name="scan", body=body, num_scan_inputs=2, directions=[0, 1])], "scan",
                          [helper.make_tensor_value_info(i, TensorProto.FLOAT, shape) for i, shape in values.items()],
                          [helper.make_tensor_value_info(i, TensorProto.FLOAT, None) for i in "yz"])
path = OUT / "scan.onnx"
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3), path)
values = {i: np.random.default_rng(1).standard_normal(shape).astype(np.float32) for i, shape in values.items()}
expected = onnxruntime.InferenceSession(path).run(None, values)
for i, value in values.items():
    np.save(OUT / f"{i}.npy", value)
result = kerf("run", path, "--devices=cpu:3", *[f"--input={i}=@{OUT / i}.npy" for i in values], f"--output-dir={OUT / 'scan'}")
found = [np.load(OUT / "scan" / f"{i}.npy") for i in "yz"] if result.returncode == 0 else []
checks.expect("a batch of scans", len(found) == 2 and all(np.allclose(*both, rtol=1e-5, atol=1e-6) for both in zip(found, expected)),
              result.stderr)
checks.finish()
