# Unrolled loops: how many kernels are compiled does not grow with the number of steps, whatever the sizes (where steps
# begin at any element, too), and results equal ONNX Runtime's. Where a step's result fills whole lines of 64 bytes, nothing
# copies it, and each step is a library call and a kernel or two.
#
# REQUIRES: kerf, onnx, onnxruntime
# RUN: %python %s %t %inputs
import os
import re
import sys

import numpy as np
import onnxruntime
from onnx import helper

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf
from recurrent_models import F, Model, operator

OUT = fresh_folder(sys.argv[1])
checks = Checks()


def scan(path, steps, batch, inputs, hidden):
    """An Elman cell along the second dimension of what it reads and writes."""
    m = Model()
    body = helper.make_graph(
        [helper.make_node("MatMul", ["s", m.weight(inputs, hidden)], ["a"]),
         helper.make_node("MatMul", ["h", m.weight(hidden, hidden)], ["b"]), helper.make_node("Add", ["a", "b"], ["sum"]),
         helper.make_node("Tanh", ["sum"], ["next"]), helper.make_node("Mul", ["next", m.weight(hidden)], ["part"])], "body",
        [helper.make_tensor_value_info("h", F, [batch, hidden]), helper.make_tensor_value_info("s", F, [batch, inputs])],
        [helper.make_tensor_value_info(name, F, [batch, hidden]) for name in ("next", "part")])
    m.add("Scan", [m.constant(np.zeros((batch, hidden), np.float32)), "x"], ["last", "parts"], body=body, num_scan_inputs=1,
          scan_input_axes=[1], scan_output_axes=[1])
    m.add("Relu", ["parts"], ["y"])
    m.save(path, {"x": [batch, steps, inputs]}, {"y": [batch, steps, hidden]})
    return [batch, steps, inputs]


def stacked(path, steps, batch, inputs, hidden):
    """A cell that the exporter unrolled: each step reads a slice, and their results are concatenated along it."""
    m = Model()
    u, v = m.weight(hidden, hidden), m.weight(inputs, hidden)
    m.add("MatMul", ["x", v], ["all"])
    h = m.constant(np.zeros((batch, hidden), np.float32))
    axis = m.constant(np.int64([1]))
    parts = []
    for t in range(steps):
        m.add("Slice", ["all", m.constant(np.int64([t])), m.constant(np.int64([t + 1])), axis], [f"s{t}"])
        m.add("Squeeze", [f"s{t}", axis], [f"q{t}"])
        m.add("MatMul", [h, u], [f"p{t}"])
        m.add("Add", [f"p{t}", f"q{t}"], [f"a{t}"])
        m.add("Tanh", [f"a{t}"], [f"h{t}"])
        m.add("Unsqueeze", [f"h{t}", axis], [f"u{t}"])
        h = f"h{t}"
        parts.append(f"u{t}")
    m.add("Concat", parts, ["y"], axis=1)
    m.save(path, {"x": [batch, steps, inputs]}, {"y": [batch, steps, hidden]})
    return [batch, steps, inputs]


def compiled(name, build, steps, batch, inputs, hidden, tolerance=1e-5, flags=()):
    """Compiles and runs; how many kernels were compiled, and the manifest."""
    folder = OUT / f"{name}-{batch}x{hidden}-{steps}".replace(" ", "-")
    folder.mkdir()
    shape = build(folder / "model.onnx", steps, batch, inputs, hidden)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    (folder / "cache").mkdir()
    made = kerf("compile", folder / "model.onnx", "-o", folder / "p.kerf", "--devices=cpu:1", f"--dump-dir={folder / 'dump'}", *flags)
    x = np.random.default_rng(steps).standard_normal(shape).astype(np.float32)
    np.save(folder / "x.npy", x)
    ran = kerf("run", folder / "p.kerf", f"--input=x=@{folder / 'x.npy'}", f"--output-dir={folder / 'out'}")
    where = f"{name}, {steps} steps, batch {batch}, {inputs} to {hidden}"
    checks.expect(where, made.returncode == 0 and ran.returncode == 0, made.stderr + ran.stderr)
    if made.returncode or ran.returncode:
        return 0, ""
    found = np.load(folder / "out/y.npy")
    expected = onnxruntime.InferenceSession(str(folder / "model.onnx")).run(None, {"x": x})[0]
    difference = np.max(np.abs(found - expected))
    checks.expect(f"{where}: results", difference <= tolerance, f"differ by {difference}")
    return len(list((folder / "cache/kerf/kernels").iterdir())), (folder / "dump/05-lower.mlir").read_text()


BUILDS = {"LSTM": operator("LSTM", True), "GRU": operator("GRU", True), "GRU, reset behind": operator("GRU", True, linear_before_reset=1),
          "RNN": operator("RNN", False), "two directions": operator("LSTM", True, 2), "scan": scan, "stacked": stacked}
# Whole lines; lines that steps share; a batch and a hidden size that no vector divides.
for batch, inputs, hidden in ((2, 8, 16), (1, 3, 12), (3, 5, 7)):
    for name, build in BUILDS.items():
        few, _ = compiled(name, build, 20, batch, inputs, hidden)
        many, text = compiled(name, build, 45, batch, inputs, hidden)
        checks.expect(f"{name}, batch {batch}, hidden {hidden}: kernels", few == many and few > 0, f"{few} of 20 steps, {many} of 45")
        if (batch, hidden) == (2, 16):
            launches = len(re.findall(r"exec\.launch", text))
            most = {"two directions": 2, "scan": 2}.get(name, 1) * 45 * (2 if name.startswith("GRU") else 1) + 10
            checks.expect(f"{name}: launches", launches <= most, f"{launches} launches, at most {most} expected")
            checks.expect(f"{name}: no copies", "exec.copy" not in text, text.count("exec.copy"))
for precision, tolerance in (("bf16", 0.1), ("f16", 0.02)):
    kernels = [compiled(f"LSTM {precision}", BUILDS["LSTM"], steps, 3, 5, 7, tolerance, [f"--precision={precision}"])[0] for steps in (20, 45)]
    checks.expect(f"LSTM, {precision}: kernels", kernels[0] == kernels[1] > 0, kernels)
checks.finish()
