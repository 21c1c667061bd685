# A scale that a model applies twice beside another of equal values, which PyTorch's exporter stores as one tensor: its calls name the
# parameters (%p_n0_weight, %p_n_weight), whatever the tensor is called. They are two, one of them read twice. Held against NumPy.
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
SAMPLES, BATCH, WIDTH, RATE = 32, 8, 3, 0.1
x = np.random.default_rng(4).standard_normal((SAMPLES, WIDTH)).astype(np.float32)
np.savez(OUT / "data.npz", x=x)
nodes, given = [], "x"
for number, owner in enumerate(("n0", "n", "n")):
    node = helper.make_node("Mul", [given, "n0.weight"], [f"h{number}"], name=f"node_mul_{number}")
    node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=f"%mul_{number} : call_function[target=scale](args = (%{given}, %p_{owner}_weight, "
                                                                f"%p_{owner}_bias), kwargs = {{}})")
    nodes.append(node)
    given = f"h{number}"
nodes.append(helper.make_node("ReduceMean", [given], ["loss"], keepdims=0))
graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH])],
                          [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
                          [numpy_helper.from_array(np.ones(WIDTH, np.float32), "n0.weight")])
onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]), OUT / "merged.onnx")

once, twice = np.ones(WIDTH), np.ones(WIDTH)
for step in range(3): # loss = mean(x a b^2)
    mean = x[step * BATCH:(step + 1) * BATCH].mean(0) / WIDTH
    once, twice = once - RATE * mean * twice**2, twice - RATE * mean * 2 * once * twice
result = kerf("train", OUT / "merged.onnx", "--loss=loss", f"--optimizer=sgd,lr={RATE}", f"--data={OUT / 'data.npz'}", f"--batch-size={BATCH}", "--steps=3",
              "--shuffle=off", "-o", OUT / "trained.onnx")
checks.expect("trained", result.returncode == 0, result.stderr)
checks.expect("the calls say that it is one", "trained as one" not in result.stderr, result.stderr)
checks.expect("said", 'trained for each by itself: "n0.weight" (2 parameters)' in result.stderr, result.stderr)
found = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(OUT / "trained.onnx").graph.initializer}
checks.expect("two parameters", set(found) == {"n0.weight", "n0.weight.2"}, sorted(found))
for name, expected in (("n0.weight", once), ("n0.weight.2", twice)):
    checks.expect(name, name in found and np.allclose(found[name], expected, atol=1e-6), (found.get(name), expected))
checks.finish()
