# Models that cannot be: a located error on stderr, exit code 3 (2 for a file that is not there or is a folder, and what a flag
# would mend), no package, never a signal. The number is that of the promise:
# 1 unreadable, 5 payloads, 6 sizes, 7 unsupported, 8 nodes, 9 names, 10 shapes,
# 11 symbolic dimensions.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %models %inputs
import os
import pathlib
import sys

sys.path.insert(0, sys.argv[3])
import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, in_parallel, kerf

OUT, MODELS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
F = TensorProto.FLOAT
info = helper.make_tensor_value_info
node = helper.make_node


def model(nodes, inputs=None, outputs=None, initializers=(), opset=20, imports=()):
    graph = helper.make_graph(nodes, "g", inputs or [info("x", F, [2, 6])], outputs or [info("y", F, None)],
                              list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *imports], ir_version=10)


INTEGERS = ([info("x", TensorProto.UINT8, [2])], [info("y", TensorProto.UINT8, [2])])


def weight(name, *shape):
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


def tensor(name, dims, **payload):
    result = TensorProto(name=name, data_type=F, dims=dims)
    for field, value in payload.items():
        if field == "raw_data":
            result.raw_data = value
        else:
            getattr(result, field).extend(value)
    return result


def add_weight(tensor_proto):
    return model([node("Add", ["x", "w"], ["y"], "sum")], initializers=[tensor_proto])


def conv(x=(1, 4, 8, 8), w=(4, 4, 3, 3), **attributes):
    return model([node("Conv", ["x", "w"], ["y"], "window", **attributes)], [info("x", F, x)],
                 initializers=[weight("w", *w)])


def bad_type():
    bad = node("Softmax", ["x"], ["y"], "soft")
    bad.attribute.append(helper.make_attribute("axis", 1.5))
    return model([bad])


def cut(count):
    return (MODELS / "mlp/model.onnx").read_bytes()[:count]


mlp_size = os.path.getsize(MODELS / "mlp/model.onnx")
CASES = {
    # name: (model or bytes, patterns)
    "1-empty": (b"", ["1-empty"]),
    "1-truncated": (cut(mlp_size // 2), ["1-truncated"]),
    "1-truncated-early": (cut(40), ["1-truncated-early"]),
    "1-random": (np.random.default_rng(1).bytes(4096), ["1-random"]),
    "1-text": (b"# not a model\n" * 10, ["1-text", "is no ONNX model but text"]),
    "1-field": (b"xx", ["1-field", "file holds no graph, not an ONNX model"]), # one that nobody knows
    "1-torch": (b"PK\x03\x04" + bytes(200), ["1-torch", "a zip archive, as torch.save", "torch.onnx.export"]),
    "1-no-graph": (helper.make_model(helper.make_graph([], "g", [], []), ir_version=10).SerializeToString()[:2],
                   ["1-no-graph"]),
    "5-raw-too-short": (add_weight(tensor("w", [2, 6], raw_data=bytes(44))), ["w", r"\b44\b", r"\b48\b"]),
    "5-raw-too-long": (add_weight(tensor("w", [2, 6], raw_data=bytes(52))), ["w", r"\b52\b", r"\b48\b"]),
    "5-too-few-floats": (add_weight(tensor("w", [2, 6], float_data=[1] * 11)), ["w", r"\b(11|44)\b", r"\b(12|48)\b"]),
    "5-two-payloads": (add_weight(tensor("w", [2, 6], raw_data=bytes(48), float_data=[1] * 12)), ["w"]),
    "5-none": (add_weight(tensor("w", [2, 6])), ["w"]),
    "6-negative-dim": (add_weight(tensor("w", [2, -6], raw_data=bytes(48))), ["w", "-6"]),
    "6-overflow": (add_weight(tensor("w", [1 << 40, 1 << 40], raw_data=bytes(48))), ["w"]),
    "6-huge-weight": (add_weight(tensor("w", [1 << 58], raw_data=bytes(48))), ["w"]),
    "6-negative-input": (model([node("Relu", ["x"], ["y"])], [info("x", F, [2, -3])]), ["x", "-3"]),
    "6-overflowing-input": (model([node("Relu", ["x"], ["y"])], [info("x", F, [1 << 40, 1 << 40])]), ["x"]),
    "6-huge-constant": (model([node("ConstantOfShape", ["s"], ["c"], "fill"), node("Add", ["x", "c"], ["y"])],
                              [info("x", F, [1])],
                              initializers=[numpy_helper.from_array(np.array([1 << 30, 1 << 30]), "s")]), ["fill"]),
    "7-unknown-operators": (model([node("Whirl", ["x"], ["a"], "first"), node("Twist", ["a"], ["b"], "second"),
                                   node("Whirl", ["b"], ["y"], "third")]),
                            ["Whirl", "Twist", "first", "second", "third"]),
    "7-unknown-domain": (model([node("FusedThing", ["x"], ["y"], "it", domain="com.example")],
                               imports=[helper.make_opsetid("com.example", 1)]), ["com.example", "FusedThing", "it"]),
    "7-newer-opset": (model([node("Relu", ["x"], ["y"])], opset=99), ["99"]),
    "7-string": (model([node("Identity", ["x"], ["y"], "same")], [info("x", TensorProto.STRING, [2])],
                       [info("y", TensorProto.STRING, [2])]), ["string|STRING"]),
    "8-too-few-inputs": (model([node("MatMul", ["x"], ["y"], "product")]), ["product", "1 inputs?", "expected 2"]),
    "8-too-many-inputs": (model([node("Relu", ["x", "x", "x"], ["y"], "rectify")]), ["rectify", "3 inputs", "expected 1"]),
    "8-too-many-outputs": (model([node("Relu", ["x"], ["y", "z"], "rectify")]), ["rectify", "2 outputs"]),
    "8-attribute-type": (bad_type(), ["soft", "axis"]),
    "8-missing-attribute": (model([node("Concat", ["x", "x"], ["y"], "join")]), ["join", "axis"]),
    "8-missing-direction": (model([node("BitShift", ["x", "x"], ["y"], "shift")], *INTEGERS), ["shift", "direction"]),
    "8-direction": (model([node("BitShift", ["x", "x"], ["y"], "shift", direction="UP")], *INTEGERS),
                    ["shift", "UP", "LEFT or RIGHT"]),
    "8-shift-of-floats": (model([node("BitShift", ["x", "x"], ["y"], "shift", direction="LEFT")]), ["shift", "integer"]),
    "8-missing-to": (model([node("Cast", ["x"], ["y"], "cast")]), ["cast", r"\bto\b"]),
    "9-undefined": (model([node("Add", ["x", "nowhere"], ["y"], "sum")]), ["nowhere"]),
    "9-undefined-output": (model([node("Relu", ["x"], ["z"], "rectify")]), ["'?y'?"]),
    "9-twice": (model([node("Relu", ["x"], ["y"], "one"), node("Neg", ["x"], ["y"], "two")]), ["'?y'?"]),
    "9-unsorted": (model([node("Relu", ["a"], ["y"], "late"), node("Neg", ["x"], ["a"], "early")]), ["'?a'?"]),
    "9-cycle": (model([node("Add", ["x", "b"], ["a"], "up"), node("Relu", ["a"], ["b"], "down"),
                       node("Neg", ["b"], ["y"])]), ["'?b'?"]),
    "10-declared-output": (model([node("Relu", ["x"], ["y"], "rectify")], outputs=[info("y", F, [2, 7])]),
                           ["y", "7", "6"]),
    "10-axis": (model([node("Softmax", ["x"], ["y"], "soft", axis=5)]), ["soft", "axis", r"\b5\b"]),
    "10-matmul": (model([node("MatMul", ["x", "w"], ["y"], "product")], initializers=[weight("w", 5, 3)]),
                  ["product", r"\b6\b", r"\b5\b"]),
    "10-broadcast": (add_weight(tensor("w", [2, 5], raw_data=bytes(40))), ["sum", r"2(x|, ?)6", r"2(x|, ?)5"]),
    "10-reshape": (model([node("Reshape", ["x", "s"], ["y"], "fold")],
                         initializers=[numpy_helper.from_array(np.array([5, 2]), "s")]), ["fold", r"\b12\b|2, ?6|2x6"]),
    "10-pads-length": (conv(pads=[1, 1, 1]), ["window", "pads"]),
    "10-negative-stride": (conv(strides=[-1, 1]), ["window", "strides?"]),
    "10-group": (conv(group=3), ["window", "group"]),
    "10-channels": (conv(w=(4, 3, 3, 3)), ["window"]),
    "10-kernel-too-large": (conv(x=(1, 4, 2, 2), w=(4, 4, 5, 5)), ["window"]),
    "10-transpose": (model([node("Transpose", ["x"], ["y"], "turn", perm=[0, 0])]), ["turn", "perm"]),
    "10-gather-axis": (model([node("Gather", ["x", "i"], ["y"], "pick", axis=2)],
                             initializers=[numpy_helper.from_array(np.array([0]), "i")]), ["pick", "axis"]),
}


def check(checks, name, content, patterns):
    path, package = OUT / f"{name}.onnx", OUT / f"{name}.kerf"
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    expect_error(checks, f"{name}: compile", ["compile", path, "--devices=2", "-o", package], 3, patterns,
                 absent=[package])
    expect_error(checks, f"{name}: inspect", ["inspect", path], 3, patterns)


checks = Checks()
in_parallel([(check, checks, name, *case) for name, case in CASES.items()])
expect_error(checks, "1-missing", ["plan", OUT / "none.onnx"], 2, ["none.onnx"])
expect_error(checks, "1-folder", ["plan", OUT], 2, [OUT.name])
# 9: what follows from a node that is refused is no error of its own.
path = OUT / "9-consequence.onnx"
path.write_bytes(model([node("Add", ["x", "nowhere"], ["z"], "sum"), node("Relu", ["z"], ["y"], "rectify")]).SerializeToString())
alone = kerf("inspect", path)
checks.expect("9-consequence", alone.returncode == 3 and "nowhere" in alone.stderr and "any node" not in alone.stderr, alone.stderr)
# 9: what no size mends is said while sizes are open, too.
open_x = [info("x", F, ["batch", 6])]
for name, nodes, said in (("twice", [node("Relu", ["x"], ["a"], "r"), node("Neg", ["x"], ["a"], "n"), node("Neg", ["a"], ["y"], "m")], 'n: value "a" is defined twice'),
                          ("input", [node("Relu", ["x"], ["x"], "r"), node("Neg", ["x"], ["y"], "m")], 'r: value "x" is defined twice'),
                          ("nowhere", [node("Add", ["x", "nowhere"], ["y"], "sum")], 'sum: value "nowhere" is not defined')):
    path = OUT / f"9-open-{name}.onnx"
    path.write_bytes(model(nodes, open_x).SerializeToString())
    for flags in ([], ["--dim=batch=2"]):
        expect_error(checks, f"9-open-{name} {flags}", ["inspect", path, *flags], 3, [said])
fine = OUT / "9-open-fine.onnx"
fine.write_bytes(model([node("Add", ["x", "w"], ["y"], "sum")], open_x, initializers=[weight("w", 6)]).SerializeToString())
checks.expect("9-open-fine", kerf("inspect", fine).returncode == 0, kerf("inspect", fine).stderr)
# 11: the flag that binds the dimension is in the message.
for command in ("plan", "compile", "verify"):
    package = OUT / "unbound.kerf"
    expect_error(checks, f"11-unbound: {command}", [
        command, MODELS / "mlp/model.onnx", "--devices=2", *(["-o", package] if command == "compile" else [])],
        2, ["batch", r"--dim batch="], absent=[package])
expect_error(checks, "11-unknown-dim", ["plan", MODELS / "mlp/model.onnx", "--dim", "batch=8", "--dim", "lot=3"],
             2, ["lot"])
checks.finish()
