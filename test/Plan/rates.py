# Rates by type of element (docs/CostModel.md, "Compute"), against formulas that know nothing of
# Kerf's tables: one product on a machine file of the test's own, and GPT-2 on H100s, where bfloat16 is predicted to be
# quicker than float32 because of its products.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import math
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
checks = Checks()


def seconds(name, model, *options):
    """(predicted seconds of a step, the part that computes)"""
    result = kerf("plan", model, *options, "--json")
    checks.expect(f"{name} is planned", result.returncode == 0, result.stderr)
    if result.returncode != 0:
        return math.nan, math.nan
    plan = json.loads(result.stdout)["time"]
    return plan["step_seconds"], plan["compute_seconds"]


# ---- One product -----------------------------------------------------------------------------------------------------------
M, K, N = 64, 96, 160
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "w"], ["y"])], "product",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [M, K])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [M, N])],
    [numpy_helper.from_array(np.ones((K, N), np.float32), "w")])
product = OUT / "product.onnx"
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), product)

CLASS = 4e10  # per second
TYPES = {"f32": 1e10, "bf16": 8e10}
GPUS = {1: "--devices=cuda:0", 2: "--devices=cuda:0-1", 8: "--devices=cuda:0-7"}
ROUNDED = {**TYPES, "tf32": 3e10}
# Whatever is no product takes next to nothing.
free = {"flops_per_second": 1e18, "bytes_per_second": 1e18}


def machine(**members):
    path = OUT / "machine.json"
    path.write_text(json.dumps({
        "schema": "kerf.machine/2", "name": "own", "nodes": 1, "devices_per_node": 2,
        "compute": {**dict.fromkeys(("elementwise", "row", "convolution", "gather"), free),
                    "matmul": {"flops_per_second": CLASS, "bytes_per_second": 1e18, **members}},
        "local": {"latency_seconds": 1e-6, "bandwidth_bytes_per_second": 1e10}}))
    return f"--machine={path}"


for precision in ("f32", "bf16", "f16", "tf32"):
    for devices in (1, 2):
        for types in ({}, TYPES, ROUNDED):
            where = machine(flops_per_second_by_type=types)
            rate = types.get(precision, types.get("f32", CLASS) if precision == "tf32" else CLASS)
            expected = 2 * M * K * N / devices / rate
            # TF32 is arithmetic of GPUs.
            where_run = GPUS[devices] if precision == "tf32" else f"--devices={devices}"
            found = seconds("product", product, where, f"--mesh=dp={devices}", "--batch-dim=x=0", where_run,
                            f"--precision={precision}")[1]
            checks.expect(f"{precision} on {devices}, {types}", math.isclose(found, expected, rel_tol=1e-6),
                          f"{found}, expected {expected}")

for members, message in (
        ({"flops_per_second_by_type": {"half": 1}},
         'compute.matmul.flops_per_second_by_type: unknown member "half", expected one of f64, f32, f16, bf16, tf32'),
        ({"flops_per_second_by_type": {"f32": 0}}, 'compute.matmul.flops_per_second_by_type: "f32" is 0, expected more than 0')):
    result = kerf("plan", product, machine(**members), "--devices=1")
    checks.expect(message, result.returncode == 2 and result.stderr == f"error: --machine: {OUT / 'machine.json'}: {message}\n", result.stderr)

# ---- GPT-2 124M: 12 layers of 12 h^2, attention over 1024 tokens, the vocabulary ---------------------------------------------
LAYERS, HIDDEN, LENGTH, WORDS = 12, 768, 1024, 50257
PER_TOKEN = 2 * (LAYERS * 12 * HIDDEN**2 + WORDS * HIDDEN) + LAYERS * 4 * LENGTH * HIDDEN
F32 = 67e12  # NVIDIA's data sheet, without tensor cores
for devices, machine_name in ((1, "h100-1"), (8, "h100-8")):
    batch = 8 * devices
    times = {precision: seconds(f"GPT-2, {precision} on {devices}", INPUTS / "graphs/gpt2-124m/model.onnx", f"--dim=batch={batch}",
                                f"--machine={machine_name}", GPUS[devices], f"--mesh=dp={devices}",
                                f"--precision={precision}")
             for precision in ("f32", "tf32", "bf16")}
    products = PER_TOKEN * 8 * LENGTH / F32  # on each device, at the peak
    checks.expect(f"bf16 is quicker than tf32 and that than f32 on {devices}",
                  times["bf16"][0] < times["tf32"][0] < times["f32"][0], times)
    checks.expect(f"f32 takes at least its products at the peak on {devices}", times["f32"][1] > products, (times, products))
    checks.expect(f"bf16 takes less than f32's products on {devices}", times["bf16"][1] < products, (times, products))

checks.finish()
