"""compatibility.py OUT: one small file of each format, as this release writes them, and what comes of each.

Run once for a release, with its kerf and kerf-run on PATH; OUT is
test/Compatibility/VERSION, and is committed (docs/Compatibility.md).
"""
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OUT = pathlib.Path(sys.argv[1])
OUT.mkdir(parents=True)
random = np.random.default_rng(2)
TRAIN = ["--loss=cross_entropy(logits,labels)", "--optimizer=adam,lr=1e-2", "--data=train.npz", "--batch-size=4", "--devices=1",
         "--checkpoint-dir=checkpoints", "--no-output", "-q"]


def run(*arguments):
    subprocess.run(arguments, cwd=OUT, check=True)


def array(*shape):
    return random.standard_normal(shape).astype(np.float32)


weights = {"w1": array(8, 16), "b1": array(16), "w2": array(16, 4), "b2": array(4)}
onnx.save(helper.make_model(helper.make_graph(
    [helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], "first"), helper.make_node("Relu", ["h"], ["r"], "relu"),
     helper.make_node("Gemm", ["r", "w2", "b2"], ["logits"], "second")], "tiny",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 4])],
    [numpy_helper.from_array(value, name) for name, value in weights.items()]),
    opset_imports=[helper.make_opsetid("", 18)], ir_version=10), OUT / "model.onnx")
np.savez(OUT / "train.npz", x=array(12, 8), labels=random.integers(0, 4, 12))
np.save(OUT / "x.npy", array(4, 8))

rates = {"flops_per_second": 1e11, "bytes_per_second": 1e10, "latency_seconds": 1e-6}
machine = {
    "schema": "kerf.machine/1", "name": "two small ranks", "nodes": 1, "devices_per_node": 2, "memory_bytes_per_device": 1 << 30,
    "compute": {name: rates for name in ("elementwise", "row", "matmul", "convolution", "gather")},
    "local": {"latency_seconds": 1e-6, "bandwidth_bytes_per_second": 1e10}}
(OUT / "machine.json").write_text(json.dumps(machine, indent=1) + "\n")
machine["schema"] = "kerf.machine/2"
machine["compute"]["matmul"] = rates | {"flops_per_second_by_type": {"f32": 5e10, "bf16": 2e11}}
(OUT / "machine-2.json").write_text(json.dumps(machine, indent=1) + "\n")

PLAN = ["model.onnx", "--dim=batch=4", "--mesh=tp=2", "--machine=machine.json", "--shard=w1=[{},{tp}]", "--shard=w2=[{tp},{}]", "-q"]
run("kerf", "plan", *PLAN, "-o", "plan.json")
run("kerf", "compile", *PLAN, "--devices=cpu:2", "--target-cpu=x86-64-v2", "-o", "package")
run("kerf-run", "package", "--input=x=@x.npy", "--stats=run.json", "--output-dir=expected")
run("kerf", "train", "model.onnx", *TRAIN, "--steps=3")
run("cp", "-r", "checkpoints", "before")
run("kerf", "train", "model.onnx", *TRAIN, "--steps=6", "--resume", "--save-safetensors=expected/trained.safetensors")
run("rm", "-r", "checkpoints")
run("mv", "before", "checkpoints")
