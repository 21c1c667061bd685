# External data is read beneath the model's folder only, from regular files with
# one name; offsets and lengths are checked against the file before anything is
# allocated. Also inside Constant nodes and branches, and for what protobuf
# itself limits. (Known holes elsewhere: CVE-2022-25882, CVE-2024-27318,
# CVE-2024-27319, CVE-2026-27489, CVE-2026-34445, CVE-2026-34446.)
#
# REQUIRES: kerf-import-model, onnx
# RUN: %python %s %t %inputs
import os
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
from onnx import StringStringEntryProto, TensorProto, helper

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
MODEL = OUT / "model"
MODEL.mkdir()
F = TensorProto.FLOAT
info, node = helper.make_tensor_value_info, helper.make_node


def external(location, shape=(2, 3), **entries):
    tensor = TensorProto(name="w", data_type=F, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.append(StringStringEntryProto(key=key, value=str(value)))
    return tensor


def save(nodes, initializers=(), name="m", inputs=None):
    graph = helper.make_graph(nodes, "g", inputs or [info("x", F, [2, 3])], [info("y", F, None)], list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path = MODEL / f"{name}.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def as_initializer(tensor):
    return save([node("Add", ["x", "w"], ["y"], "sum")], [tensor])


def as_constant(tensor):
    return save([node("Constant", [], ["w"], "literal", value=tensor), node("Add", ["x", "w"], ["y"], "sum")])


def in_branch(tensor):
    taken = helper.make_graph([node("Add", ["x", "w"], ["z"], "sum")], "taken", [], [info("z", F, None)], [tensor])
    other = helper.make_graph([node("Relu", ["x"], ["z"])], "other", [], [info("z", F, None)])
    condition = helper.make_tensor("c", TensorProto.BOOL, [], [True])
    return save([node("If", ["c"], ["y"], "choose", then_branch=taken, else_branch=other)], [condition])


checks = Checks()
data = np.arange(6, dtype=np.float32).tobytes()
(MODEL / "data").write_bytes(data)
(MODEL / "sub").mkdir()
(MODEL / "sub/data").write_bytes(b"xx" + data)
(OUT / "outside").write_bytes(data)
os.symlink(OUT / "outside", MODEL / "link")
os.symlink(MODEL / "data", MODEL / "inner-link")
os.symlink(OUT, MODEL / "parent-link")
os.link(OUT / "outside", MODEL / "hard-link")
os.mkfifo(MODEL / "fifo")

# What is right is read, at an offset that no alignment helps too.
for name, tensor in {"plain": external("data"), "range": external("sub/data", offset=2, length=24),
                     "dot": external("./data"), "checksum": external("data", checksum="0")}.items():
    for place in (as_initializer, as_constant, in_branch):
        result = kerf(place(tensor), tool="kerf-import-model")
        checks.expect(f"{name}: {place.__name__}", result.returncode == 0 and "model/" in result.stdout,
                      result.stderr)

refused = {
    "dot-dot": (external("../outside"), [r"\.\."]),
    "dot-dot-inside": (external("sub/../../outside"), [r"\.\."]),
    "absolute": (external(str(OUT / "outside")), ["absolute"]),
    "symlink": (external("link"), ["symbolic link", "cp -L copies what a link names"]),
    "symlink-inside": (external("inner-link"), ["symbolic link"]),
    "symlink-parent": (external("parent-link/outside"), ["symbolic link"]),
    "hard-link": (external("hard-link"), ["hard link"]),
    "fifo": (external("fifo"), ["regular file"]),
    "folder": (external("sub"), ["regular file"]),
    "missing": (external("nowhere"), ["nowhere"]),
    "empty": (external(""), ["empty"]),
    "zero-byte": (external("data\0x"), ["zero byte"]),
    "negative-offset": (external("data", offset=-1), ["offset", "-1"]),
    "text-offset": (external("data", offset="0x10"), ["offset", "0x10"]),
    "huge-offset": (external("data", offset=1 << 63), ["offset"]),
    "overflow": (external("data", offset=(1 << 63) - 8), ["past the end", "24"]),
    "past-end": (external("data", offset=4), ["past the end", "24"]),
    "length": (external("data", length=20), [r"\b20\b", r"\b24\b"]),
    "huge-length": (external("data", length=1 << 62), [r"\b24\b"]),
    "unknown-key": (external("data", basepath="/"), ["basepath"]),
    "large": (external("data", shape=(1 << 20, 1 << 10)), ["past the end"]),
}
for name, (tensor, patterns) in refused.items():
    for place in (as_initializer, as_constant, in_branch):
        expect_error(checks, f"{name}: {place.__name__}", [place(tensor)], 2 if name == "missing" else 3, ["w|literal", *patterns],
                     tool="kerf-import-model")

# What is wrong with many tensors alike is one error, which counts them.
SHAPES = [(2, 3), (3,), (2, 1), (1,), (2, 3), (1, 3)]
STORED = {(2, 3): 24, (3,): 12, (2, 1): 8, (1,): 4, (1, 3): 12}


def many(name, tensor_of):
    tensors = [tensor_of(shape) for shape in SHAPES]
    for number, tensor in enumerate(tensors):
        tensor.name = f"w{number}"
    values = ["x", *(f"h{number}" for number in range(len(SHAPES) - 1)), "y"]
    return save([node("Add", [values[number], f"w{number}"], [values[number + 1]], f"sum{number}") for number in range(len(SHAPES))], tensors, name)


for name, tensor_of, said in (
        ("lengths", lambda shape: external("data", shape, length=STORED[shape] + 4), "external data: length is 28 bytes, expected 24"),
        ("keys", lambda shape: external("data", shape, basepath="/"), 'external data: unknown key "basepath", expected location, offset, length or checksum'),
        ("offsets", lambda shape: external("data", shape, offset=20), 'external data "data": offset 20 plus 24 bytes is past the end, expected at most 24'),
        ("payloads", lambda shape: TensorProto(data_type=F, dims=shape, raw_data=b"\0" * (STORED[shape] + 4)), "payload has 28 bytes, expected 24 for shape "),
        ("numbers", lambda shape: TensorProto(data_type=F, dims=shape, float_data=[1] * 7), "tensor has 7 numbers, expected 6 for shape ")):
    result = kerf(many(name, tensor_of), tool="kerf-import-model")
    # An offset may leave room for the smallest of them.
    rest = ["w1", "w2", "w4", "w5"] if name == "offsets" else [f"w{number}" for number in range(1, len(SHAPES))]
    lines = result.stderr.splitlines()
    checks.expect(f"{name} of all tensors", result.returncode == 3 and len(lines) == 2 and f":w0: {said}" in lines[0]
                  and lines[1] == f"note: the same of {len(rest)} more: {', '.join(rest[:4])}{', ...' if len(rest) > 4 else ''}", result.stderr)

# Nesting: 200 graphs within each other, by hand, since protobuf's own limit is
# less.


def field(number, content):
    size, length = len(content), b""
    while size >= 128:
        length, size = length + bytes([size % 128 + 128]), size // 128
    return bytes([number * 8 + 2]) + length + bytes([size]) + content


graph = b""
for _ in range(200):
    graph = field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, graph)))
(MODEL / "deep.onnx").write_bytes(b"\x08\x0a" + field(7, graph))
expect_error(checks, "nesting", [MODEL / "deep.onnx"], 3, ["nested deeper than"], tool="kerf-import-model")

# A function that calls itself.
recursive = helper.make_function("local", "again", ["a"], ["b"], [node("again", ["a"], ["b"], domain="local")],
                                 [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)])
model = helper.make_model(helper.make_graph([node("again", ["x"], ["y"], "call", domain="local")], "g",
                                            [info("x", F, [2, 3])], [info("y", F, None)]),
                          opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("local", 1)], ir_version=10,
                          functions=[recursive])
(MODEL / "recursive.onnx").write_bytes(model.SerializeToString())
expect_error(checks, "recursion", [MODEL / "recursive.onnx"], 3, ["again", "calls itself"], tool="kerf-import-model")

# Calls of calls of calls: 2^40 nodes if they were all made.
functions = [helper.make_function("local", "f0", ["a"], ["b"], [node("Relu", ["a"], ["b"])],
                                  [helper.make_opsetid("", 20)])]
for level in range(1, 31):
    functions.append(helper.make_function(
        "local", f"f{level}", ["a"], ["b"],
        [node(f"f{level - 1}", ["a"], ["m"], domain="local"), node(f"f{level - 1}", ["m"], ["b"], domain="local")],
        [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]))
model = helper.make_model(helper.make_graph([node("f30", ["x"], ["y"], "call", domain="local")], "g",
                                            [info("x", F, [2, 3])], [info("y", F, None)]),
                          opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("local", 1)], ir_version=10,
                          functions=functions)
(MODEL / "laughs.onnx").write_bytes(model.SerializeToString())
expect_error(checks, "expansion", [MODEL / "laughs.onnx"], 3, ["has more than 1000000 nodes"], tool="kerf-import-model")

# A file over protobuf's 2 GiB: the limit is named (the file is sparse).
large = MODEL / "large.onnx"
with open(large, "wb") as file:
    file.truncate(1 << 31)
expect_error(checks, "over-2-gib", [large], 3, ["2147483648"], tool="kerf-import-model")
large.unlink()
os.mkfifo(OUT / "pipe.onnx")
expect_error(checks, "model-fifo", [OUT / "pipe.onnx"], 3, ["regular file"], tool="kerf-import-model")
checks.finish()
