#!/usr/bin/env python3
"""bench/recurrent.py [--models lstm,gru,bilstm,scan,loop] [--steps 32,256,1024] [--batch 2] [--inputs 64] [--hidden 128]
                   [--threads 1] [--rounds 5] [--repeat 20] [--kerf build/bin/kerf] [--json FILE]

What an unrolled loop costs, beside ONNX Runtime. Each model is one layer as PyTorch exports it, the batch in front, and a
product behind it; `scan` and `loop` are the same Elman cell, written out. Seconds of the first compilation, for which no
kernels are kept, and of the second, on the clock and (cpu) of their threads; how many kernels the first compiled; then
runs in turn: the median over the rounds of each side's median, and of their ratios (below 1: Kerf is faster). The outputs
of both, between -1 and 1, must differ by less than 1e-4. Needs onnx and onnxruntime.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "build/bench/recurrent"
GATES = {"lstm": 4, "gru": 3, "bilstm": 4}
F = TensorProto.FLOAT


class Model:
    def __init__(self, sizes):
        self.sizes, self.random, self.nodes, self.weights = sizes, np.random.default_rng(3), [], []

    def __call__(self, kind, *inputs, results=1, **attributes):
        names = [f"{kind.lower()}_{len(self.nodes)}_{at}" for at in range(results)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=names[0], **attributes))
        return names[0]

    def constant(self, value):
        self.weights.append(numpy_helper.from_array(np.asarray(value), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def weight(self, *shape):
        return self.constant(self.random.uniform(-1, 1, shape).astype(np.float32) / np.float32(shape[-1] ** 0.5))


def operator(m, kind, x):
    s, gates = m.sizes, GATES[kind]
    directions = 2 if kind == "bilstm" else 1
    more = {"linear_before_reset": 1} if kind == "gru" else {}
    y = m(kind.upper().removeprefix("BI"), m("Transpose", x, perm=[1, 0, 2]), m.weight(directions, gates * s.hidden, s.inputs),
          m.weight(directions, gates * s.hidden, s.hidden), m.weight(directions, 2 * gates * s.hidden), hidden_size=s.hidden,
          direction="bidirectional" if directions == 2 else "forward", **more)
    y = m("Transpose", y, perm=[2, 0, 1, 3])
    return m("Reshape", y, m.constant(np.int64([s.batch, -1, directions * s.hidden])))


def cell(m):
    """Nodes of h' = tanh(x V + h U + b), of the names step and h; the result is called next, and y."""
    s = m.sizes
    return [helper.make_node("MatMul", ["step", m.weight(s.inputs, s.hidden)], ["xv"]),
            helper.make_node("MatMul", ["h", m.weight(s.hidden, s.hidden)], ["hu"]),
            helper.make_node("Add", ["xv", m.weight(s.hidden)], ["xvb"]),
            helper.make_node("Add", ["xvb", "hu"], ["sum"]), helper.make_node("Tanh", ["sum"], ["next"]),
            helper.make_node("Identity", ["next"], ["y"])]


def graph(nodes, inputs, outputs):
    def infos(values):
        return [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in values]
    return helper.make_graph(nodes, "body", infos(inputs), infos(outputs))


def unrolled(m, kind, x):
    s = m.sizes
    state = ("h", F, [s.batch, s.hidden])
    first = m.constant(np.zeros((s.batch, s.hidden), np.float32))
    outputs = [("next", *state[1:]), ("y", *state[1:])]
    if kind == "scan":
        body = graph(cell(m), [state, ("step", F, [s.batch, s.inputs])], outputs)
        m("Scan", first, x, results=2, body=body, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1])
    else:
        gather = helper.make_node("Gather", [x, "i"], ["step"], axis=1)
        same = helper.make_node("Identity", ["on"], ["still"])
        body = graph([gather, same, *cell(m)], [("i", TensorProto.INT64, []), ("on", TensorProto.BOOL, []), state],
                     [("still", TensorProto.BOOL, []), *outputs])
        m("Loop", m.constant(np.int64(s.steps)), "", first, results=2, body=body)
        return m("Transpose", m.nodes[-1].output[1], perm=[1, 0, 2])
    return m.nodes[-1].output[1]


def make(kind, sizes, path):
    m = Model(sizes)
    y = operator(m, kind, "x") if kind in GATES else unrolled(m, kind, "x")
    width = sizes.hidden * (2 if kind == "bilstm" else 1)
    m("MatMul", y, m.weight(width, 10))
    result = m("Tanh", m.nodes[-1].output[0])
    made = helper.make_graph(m.nodes, kind, [helper.make_tensor_value_info("x", F, [sizes.batch, sizes.steps, sizes.inputs])],
                             [helper.make_tensor_value_info(result, F, [sizes.batch, sizes.steps, 10])], m.weights)
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def median(values):
    return sorted(values)[len(values) // 2]


def output_of(command, environment):
    """Its output, seconds on the clock and of its threads."""
    start = time.perf_counter()
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True, env=environment)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"error: {' '.join(map(str, command))} failed")
    return text, time.perf_counter() - start, usage.ru_utime + usage.ru_stime


class Kerf:
    def __init__(self, o, folder, x):
        cache, self.o, self.folder, self.package = folder / "cache", o, folder, folder / "model.kerf"
        cache.mkdir(parents=True)
        np.save(folder / "x.npy", x)
        self.environment, self.compiled = {**os.environ, "XDG_CACHE_HOME": str(cache)}, []
        for _ in range(2):
            shutil.rmtree(self.package, ignore_errors=True)
            self.compiled.append(output_of([o.kerf, "compile", folder / "model.onnx", "-o", self.package, "--devices=cpu:1"],
                                           self.environment)[1:])
        self.kernels = len(list((cache / "kerf/kernels").iterdir()))

    def run(self):
        """Seconds of a run, and the result."""
        text = output_of([self.o.kerf, "run", self.package, f"--input=x=@{self.folder / 'x.npy'}", f"--repeat={self.o.repeat}",
                          f"--threads={self.o.threads}", f"--output-dir={self.folder}"], self.environment)[0]
        number, unit = re.search(r"median ([\d.]+) (\w+)", text).groups()
        y = np.load(next(file for file in self.folder.glob("*.npy") if file.name != "x.npy"))
        return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit], y


class OnnxRuntime:
    def __init__(self, o, folder, x):
        self.o, self.x, options = o, x, onnxruntime.SessionOptions()
        options.intra_op_num_threads = o.threads
        start = time.perf_counter()
        self.session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
        self.load = time.perf_counter() - start

    def run(self):
        times = []
        for _ in range(self.o.repeat + 1):  # the first is a warm-up, as Kerf's is
            start = time.perf_counter()
            y = self.session.run(None, {"x": self.x})[0]
            times.append(time.perf_counter() - start)
        return median(times[1:]), y


def row_of(o, kind, steps):
    folder = OUT / f"{kind}-{steps}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make(kind, argparse.Namespace(**{**vars(o), "steps": steps}), folder / "model.onnx")
    x = np.random.default_rng(5).standard_normal((o.batch, steps, o.inputs)).astype(np.float32)
    kerf, other = Kerf(o, folder, x), OnnxRuntime(o, folder, x)
    rounds, difference = [], 0.0
    for _ in range(o.rounds):
        (ours, y), (theirs, expected) = kerf.run(), other.run()
        rounds.append((ours, theirs, ours / theirs))
        difference = max(difference, float(np.max(np.abs(y - expected))))
    ours, theirs, ratio = map(median, zip(*rounds))
    (first, first_cpu), (second, second_cpu) = kerf.compiled
    return {"model": kind, "steps": steps, "first_compile_seconds": first, "first_compile_cpu_seconds": first_cpu,
            "second_compile_seconds": second, "second_compile_cpu_seconds": second_cpu, "kernels": kerf.kernels,
            "kerf_seconds": ours, "onnxruntime_seconds": theirs, "ratio": ratio, "onnxruntime_load_seconds": other.load,
            "difference": difference}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="lstm,gru,bilstm,scan,loop")
    parser.add_argument("--steps", default="32,256,1024")
    for name, value in {"batch": 2, "inputs": 64, "hidden": 128, "threads": 1, "rounds": 5, "repeat": 20}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--kerf", type=pathlib.Path, default=ROOT / "build/bin/kerf")
    parser.add_argument("--json", type=pathlib.Path)
    o = parser.parse_args()
    rows = []
    print("model   steps   compile   (cpu)   again   (cpu)  kernels        Kerf   ONNX Runtime   ratio")
    for kind in o.models.split(","):
        for steps in map(int, o.steps.split(",")):
            r = row_of(o, kind, steps)
            rows.append(r)
            print(f"{kind:7} {steps:5} {r['first_compile_seconds']:7.2f} s {r['first_compile_cpu_seconds']:7.2f} "
                  f"{r['second_compile_seconds']:5.2f} s {r['second_compile_cpu_seconds']:7.2f} {r['kernels']:8} "
                  f"{r['kerf_seconds'] * 1e3:8.2f} ms {r['onnxruntime_seconds'] * 1e3:11.2f} ms {r['ratio']:7.2f}", flush=True)
            if not r["difference"] < 1e-4:
                sys.exit(f"error: results differ by {r['difference']}")
    if o.json:
        o.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
