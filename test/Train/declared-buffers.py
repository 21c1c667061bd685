# What PyTorch's exporters say is no parameter stays as it is, though its use would be a parameter's: buffers and
# constants by the kind that the current exporter writes beside a weight, and Constant nodes of the older one. Statistics
# of BatchNormalization, which are buffers, are still updated. A result that is called as a weight is refused by name.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
random = np.random.default_rng(5)
WEIGHTS = {"mean": random.standard_normal((1, 4)), "std": 1 + random.random((1, 4)), "turn": random.standard_normal((4, 4)),
           "w": random.standard_normal((4, 3)), "bn.scale": 1 + random.random(3), "bn.bias": random.standard_normal(3),
           "bn.running_mean": random.standard_normal(3), "bn.running_var": 1 + random.random(3)}
BUFFERS = {"mean": "BUFFER", "std": "BUFFER", "turn": "CONSTANT_TENSOR", "bn.running_mean": "BUFFER", "bn.running_var": "BUFFER"}


def model(name, kinds, constant="/Constant_2_output_0", result="m"):
    """(x - mean) / std @ turn @ a constant @ w, normalized."""
    eye = helper.make_tensor("", TensorProto.FLOAT, [4, 4], random.standard_normal(16).astype(np.float32).tolist())
    nodes = [helper.make_node("Constant", [], [constant], value=eye), helper.make_node("Sub", ["x", "mean"], ["s"]),
             helper.make_node("Div", ["s", "std"], ["d"]), helper.make_node("MatMul", ["d", "turn"], ["t"]),
             helper.make_node("MatMul", ["t", constant], ["c"]), helper.make_node("MatMul", ["c", "w"], [result]),
             helper.make_node("BatchNormalization", [result, "bn.scale", "bn.bias", "bn.running_mean", "bn.running_var"], ["logits"])]
    graph = helper.make_graph(nodes, "buffers", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3])],
                              [numpy_helper.from_array(value.astype(np.float32), each) for each, value in WEIGHTS.items()])
    for each, kind in kinds.items():
        info = graph.value_info.add()
        info.CopyFrom(helper.make_tensor_value_info(each, TensorProto.FLOAT, WEIGHTS[each].shape))
        info.metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value=kind)
    path = OUT / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


np.savez(OUT / "data.npz", x=random.standard_normal((32, 4)).astype(np.float32), labels=random.integers(0, 3, 32))
checks = Checks()


def train(path, *flags):
    trained = OUT / "trained.onnx"
    trained.unlink(missing_ok=True)
    run = kerf("train", path, "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1", "--batch-size=8", "--epochs=2",
               f"--data={OUT / 'data.npz'}", "-o", trained, *flags)
    moved = set()
    if run.returncode == 0:
        before, after = ({each.name: numpy_helper.to_array(each) for each in onnx.load(file).graph.initializer} for file in (path, trained))
        moved = {each for each in before if (before[each] != after[each]).any()}
    return run, moved


STATISTICS = {"bn.running_mean", "bn.running_var"}
PARAMETERS = {"w", "bn.scale", "bn.bias"}
kinds = {**{each: "PARAMETER" for each in PARAMETERS}, **BUFFERS}
for name, flags, wanted in (("declared", [], PARAMETERS | STATISTICS), ("declared", ["--trainable=+std"], PARAMETERS | STATISTICS | {"std"}),
                            ("silent", [], PARAMETERS | STATISTICS | {"std", "turn"})):
    run, moved = train(model(name, kinds if name == "declared" else {}), *flags)
    checks.expect(f"{name} {flags}", run.returncode == 0 and moved == wanted, f"{sorted(moved)}\n{run.stderr}")
    checks.expect(f"{name} {flags}: what stays is said", name == "silent" or "leaves as it is, a buffer or a constant, as the exporter says: mean" in run.stderr,
                  run.stderr)
    # (A mean that is subtracted in front of a BatchNormalization has no gradient.)
    checks.expect(f"{name} {flags}: what is trained", name != "silent" or "mean (1x4), std (1x4), turn (4x4)" in run.stderr, run.stderr)
    checks.expect(f"{name} {flags}: the constant", 'taken for a constant by its name' in run.stderr and "/Constant_2_output_0" in run.stderr, run.stderr)

# What is called a parameter is trained, though it could be the frequencies of a rotary embedding, or a constant number.
LEARNED = {"freq": random.standard_normal(4), "gain": np.array(1.5), "w": random.standard_normal((8, 3))}
nodes = [helper.make_node("Mul", ["x", "freq"], ["z"]), helper.make_node("Sin", ["z"], ["s"]), helper.make_node("Cos", ["z"], ["c"]),
         helper.make_node("Concat", ["s", "c"], ["both"], axis=1), helper.make_node("MatMul", ["both", "w"], ["m"]),
         helper.make_node("Mul", ["m", "gain"], ["logits"])]
for name, kind, wanted in (("learned", "PARAMETER", {"freq", "gain", "w"}), ("buffers", "BUFFER", {"w"}), ("silent", None, {"w"})):
    graph = helper.make_graph(nodes, "waves", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3])],
                              [numpy_helper.from_array(value.astype(np.float32), each) for each, value in LEARNED.items()])
    for each in ("freq", "gain") if kind else ():
        info = graph.value_info.add()
        info.CopyFrom(helper.make_tensor_value_info(each, TensorProto.FLOAT, LEARNED[each].shape))
        info.metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value=kind)
    path = OUT / f"waves-{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    run, moved = train(path)
    checks.expect(f"waves: {name}", run.returncode == 0 and moved == wanted, f"{sorted(moved)}\n{run.stderr}")
    reason = {"learned": "", "buffers": "a buffer or a constant, as the exporter says: freq", "silent": "a table of frequencies, for sines and cosines: freq"}[name]
    checks.expect(f"waves: {name}: why", reason in run.stderr, run.stderr)

# A node that reads the type alone of a vector is no reader of it (PyTorch's clamp).
nodes = [helper.make_node("CastLike", ["most", "s"], ["typed"]), helper.make_node("Min", ["s", "typed"], ["scale"]),
         helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Mul", ["m", "scale"], ["logits"])]
graph = helper.make_graph(nodes, "clamp", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
                          [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3])],
                          [numpy_helper.from_array(value.astype(np.float32), each) for each, value in
                           {"s": 1 + random.random(3), "most": np.array(4.6), "w": random.standard_normal((4, 3))}.items()])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), OUT / "clamp.onnx")
for flags in ([], ["--accumulate=2"]):
    run, moved = train(OUT / "clamp.onnx", *flags)
    checks.expect(f"clamp {flags}", run.returncode == 0 and moved == {"s", "w"} and "stored once" not in run.stderr, f"{moved}\n{run.stderr}")

run, _ = train(model("twice", kinds, result="mean"))
checks.expect("a name twice", run.returncode == 3 and 'value "mean" is defined twice: an initializer has that name, too' in run.stderr
              and "cycle" not in run.stderr, run.stderr)
# What `kerf inspect` counts is what the file stores: of that it says how much is no parameter of PyTorch's, 18 elements are.
for kinds, said in ((BUFFERS, "parameters 8 tensors, 48 elements, 192 B (floats that the file stores; 30 elements are buffers', as the exporter says)"),
                    ({}, "parameters 8 tensors, 48 elements, 192 B (floats that the file stores)")):
    for flags in ([], ["--dim=batch=2"]):
        shown = kerf("inspect", model("inspected", kinds), *flags).stdout
        checks.expect(f"inspect {sorted(kinds)} {flags}", said in shown.splitlines(), shown)
checks.finish()
