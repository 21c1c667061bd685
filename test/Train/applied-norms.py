# A norm that a model applies twice, as PyTorch's exporter writes it in inference form: a node for each application, and the calls say
# that they have the same buffers. The running statistics stay one and are updated twice in a step, as PyTorch does. Held against NumPy.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
random = np.random.default_rng(4)
SAMPLES, BATCH, WIDTH = 32, 8, 3
a, b = (random.standard_normal((SAMPLES, WIDTH)).astype(np.float32) + shift for shift in (1, -2))
np.savez(OUT / "data.npz", a=a, b=b)
stored = {"norm.weight": np.ones(WIDTH), "norm.bias": np.zeros(WIDTH), "norm.running_mean": np.zeros(WIDTH), "norm.running_var": np.ones(WIDTH)}
nodes = []
for number, given in enumerate("ab"):
    node = helper.make_node("BatchNormalization", [given, *stored], [f"n{given}"], name=f"node_norm_{number}")
    node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=f"%norm_{number} : call_function[target=norm](args = (%{given}, %p_norm_weight, %p_norm_bias, "
                                                                "%b_norm_running_mean, %b_norm_running_var, 0.1, 1e-05), kwargs = {})")
    nodes.append(node)
nodes += [helper.make_node("Sub", ["na", "nb"], ["d"]), helper.make_node("Mul", ["d", "d"], ["s"]), helper.make_node("ReduceMean", ["s"], ["loss"], keepdims=0)]
graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in "ab"],
                          [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
                          [numpy_helper.from_array(value.astype(np.float32), name) for name, value in stored.items()])
onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]), OUT / "twice.onnx")

mean, variance = np.zeros(WIDTH), np.ones(WIDTH)
for step in range(3):
    for given in (a, b):
        rows = given[step * BATCH:(step + 1) * BATCH]
        mean = 0.9 * mean + 0.1 * rows.mean(0)
        variance = 0.9 * variance + 0.1 * rows.var(0, ddof=1)
for mesh in ("dp=1", "dp=2"):
    result = kerf("train", OUT / "twice.onnx", "--loss=loss", "--optimizer=sgd,lr=0", f"--data={OUT / 'data.npz'}", f"--batch-size={BATCH}", "--steps=3", "--shuffle=off",
                  f"--devices=cpu:{mesh[-1]}", f"--mesh={mesh}", "-o", OUT / "trained.onnx")
    checks.expect(f"{mesh}: trained", result.returncode == 0, result.stderr)
    checks.expect(f"{mesh}: two statistics", "note: updates 2 running statistics: norm.running_mean, norm.running_var\n" in result.stderr, result.stderr)
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(OUT / "trained.onnx").graph.initializer}
    checks.expect(f"{mesh}: no others", set(found) == set(stored), sorted(found))
    checks.expect(f"{mesh}: the mean", np.allclose(found["norm.running_mean"], mean, atol=1e-5), (found["norm.running_mean"], mean))
    checks.expect(f"{mesh}: the variance", np.allclose(found["norm.running_var"], variance, rtol=1e-4), (found["norm.running_var"], variance))
checks.finish()
