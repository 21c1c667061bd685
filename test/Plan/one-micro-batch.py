# A pipeline of one micro-batch is a candidate of a free search: its stages wait for each other, but each updates its own
# weights alone, reads them once and sends one activation each way. Large layers, a small batch and a network whose messages
# take long, where reading weights is what takes time: no other cut is as good.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
WIDTH, BATCH, LAYERS = 256, 8, 8
weights = [numpy_helper.from_array(np.zeros((WIDTH, WIDTH), np.float32), f"w{i}") for i in range(LAYERS)]
values = ["x", *(f"h{i}" for i in range(1, LAYERS)), "logits"]
nodes = [helper.make_node("MatMul", [values[i], f"w{i}"], [values[i + 1]]) for i in range(LAYERS)]
graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH])],
                          [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", WIDTH])], weights)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), OUT / "model.onnx")
classes = ("matmul", "convolution", "elementwise", "row", "gather")
link = {"latency_seconds": 1e-4, "bandwidth_bytes_per_second": 1e9}
(OUT / "machine.json").write_text(json.dumps({
    "schema": "kerf.machine/2", "name": "slow", "nodes": 2, "devices_per_node": 1, "memory_bytes_per_device": 1 << 40, "ports_per_node": 1,
    "compute": {name: {"flops_per_second": 1e12, "bytes_per_second": 1e10} for name in classes}, "local": link, "network": link}))
base = ["plan", OUT / "model.onnx", f"--dim=batch={BATCH}", f"--machine={OUT / 'machine.json'}", "--train", "--loss=cross_entropy(logits,labels)",
        "--optimizer=adamw", "--json"]
plans = {}
for name, flags in (("free", []), ("one", ["--mesh=pp=2", "--micro-batches=1"]), ("two", ["--mesh=pp=2", "--micro-batches=2"]),
                    ("rows", ["--mesh=dp=2"]), ("columns", ["--mesh=tp=2"])):
    result = kerf(*base, *flags)
    checks.expect(f"{name} is planned", result.returncode == 0, result.stderr)
    plans[name] = json.loads(result.stdout)
costs = {name: plan["objective"]["cost"] for name, plan in plans.items()}
free = plans["free"]
checks.expect("one micro-batch is the best here", costs["one"] < 0.95 * min(cost for name, cost in costs.items() if name not in ("free", "one")), costs)
checks.expect("and is found", costs["free"] <= costs["one"] * (1 + 1e-9), costs)
checks.expect("as the same mesh", (free["mesh"].get("pp"), free["schedule"]["micro_batches"]) == (2, 1), (free["mesh"], free["schedule"]))
checks.expect("the bound holds", free["objective"]["lower_bound"] <= costs["one"] * (1 + 1e-9), free["objective"])
checks.finish()
