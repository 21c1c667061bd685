# PyTorch's default export folds the transposed matrix of a layer at each application, and leaves a bias of zeros out. What the
# file says of each node's call makes one parameter of equal matrices again; the trained file has one, and its losses are those of a
# file that stored it once. Without that, or of other calls, or of other numbers, they train apart.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import sys

sys.path.insert(0, sys.argv[2])
import json

import numpy as np
import onnx
from onnx import TensorProto as T, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
rng = np.random.default_rng(0)
WIDE, CLASSES, BATCH, STEPS = 8, 5, 4, 3
layer, head = rng.standard_normal((WIDE, WIDE)).astype(np.float32), rng.standard_normal((CLASSES, WIDE)).astype(np.float32)


def written(name, matrices, calls=("fc", "fc", "fc"), says=True):
    """Three applications of a layer, `matrices` by name, and a head whose bias is not in the file."""
    nodes, value = [], "x"
    for i, (matrix, module) in enumerate(zip(list(matrices) * (3 // len(matrices)), calls)):
        nodes.append((helper.make_node("MatMul", [value, matrix], [f"m{i}"], name=f"product{i}"),
                      f"%linear_{i} : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%tanh_{i}, "
                      f"%p_layers_{module}_weight), kwargs = {{}})"))
        nodes.append((helper.make_node("Tanh", [f"m{i}"], [f"t{i}"]), f"%tanh_{i + 1} : call_function[target=torch.ops.aten.tanh.default](args = (%linear_{i},))"))
        value = f"t{i}"
    nodes.append((helper.make_node("Gemm", [value, "layers.head.weight"], ["logits"], transB=1), "%linear_3 : [num_users=1] = call_function[target="
                  "torch.ops.aten.linear.default](args = (%tanh_3, %p_layers_head_weight, %p_layers_head_bias), kwargs = {})"))
    for node, call in nodes:
        if says:
            entry = node.metadata_props.add()
            entry.key, entry.value = "pkg.torch.onnx.fx_node", call
    graph = helper.make_graph([node for node, _ in nodes], "folded", [helper.make_tensor_value_info("x", T.FLOAT, ["batch", WIDE])],
                              [helper.make_tensor_value_info("logits", T.FLOAT, ["batch", CLASSES])],
                              [numpy_helper.from_array(v, n) for n, v in matrices.items()] + [numpy_helper.from_array(head, "layers.head.weight")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), OUT / f"{name}.onnx")


def trained(name):
    result = kerf("train", OUT / f"{name}.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1", "--shuffle=off", "--threads=1",
                  f"--data={OUT / 'data.npz'}", f"--batch-size={BATCH}", f"--steps={STEPS}", "-o", OUT / "trained.onnx", f"--log={OUT / 'log.jsonl'}")
    checks.expect(f"{name} trains", result.returncode == 0, result.stderr)
    losses = [json.loads(line)["loss"] for line in (OUT / "log.jsonl").read_text().splitlines() if "loss" in json.loads(line)]
    model = onnx.load(OUT / "trained.onnx")
    onnx.checker.check_model(model)
    return losses, {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}, result.stderr


np.savez(OUT / "data.npz", x=rng.standard_normal((BATCH * STEPS, WIDE)).astype(np.float32), labels=rng.integers(0, CLASSES, BATCH * STEPS))
copies = {"val_1": layer, "val_2": layer, "val_3": layer}
written("once", {"val_1": layer})
written("folded", copies)
once, weights, notes = trained("once")
checks.expect("stored once: nothing is doubted", "stored once" not in notes, notes)
losses, joined, notes = trained("folded")
checks.expect("folded: the losses of one", losses == once and len(losses) == STEPS, (losses, once))
checks.expect("folded: one is left", sorted(joined) == ["layers.head.weight", "val_1"], sorted(joined))
checks.expect("folded: its values", np.array_equal(joined["val_1"], weights["val_1"]) and not np.array_equal(joined["val_1"], layer))
checks.expect("folded: left out", 'not in the file, so not trained as PyTorch trains them: "layers.head.bias" (' in notes, notes)
for name, numbers, arguments in (("silent", copies, dict(says=False)), ("apart", copies, dict(calls=("0", "1", "2"))),
                                 ("unequal", copies | {"val_2": layer + 1}, {})):
    written(name, numbers, **arguments)
    losses, weights, notes = trained(name)
    kept = ["val_1", "val_2"] if name == "unequal" else ["val_1", "val_2", "val_3"]
    checks.expect(f"{name}: train apart", sorted(weights) == ["layers.head.weight", *kept], sorted(weights))
    checks.expect(f"{name}: to other values", not np.array_equal(weights["val_1"], weights["val_2"]))
    checks.expect(f"{name}: {'nothing' if name == 'silent' else 'the bias'} is known to be left out", ("not in the file" in notes) == (name != "silent"), notes)
checks.finish()
