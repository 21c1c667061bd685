# A weight that two modules of PyTorch share has the name of one of them in the file, which says of each node whose it
# is. Who gives the other name is told the one that counts, and so is who gives a pattern that misses the weight by it.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()


def scoped(node, *modules):
    """As torch.onnx.export writes whose node it is."""
    entry = node.metadata_props.add()
    entry.key, entry.value = "pkg.torch.onnx.name_scopes", str(["", *modules, "call"])
    return node


def model(path, older=False):
    """Embedding e and product head share a table; l has a bias, and n's scale is stored as m's."""
    rng = np.random.default_rng(0)
    weights = {"head.weight": rng.standard_normal((16, 8)), "l.weight": rng.standard_normal((8, 8)), "e.bias": rng.standard_normal(8),
               "m.weight": rng.standard_normal(8)}
    name = (lambda module, op: f"/{module}/{op}") if older else (lambda module, op: f"node_{module}_{op}")
    nodes = [helper.make_node("Gather", ["head.weight", "x"], ["v0"], name("e", "Gather")),
             helper.make_node("Add", ["v0", "e.bias"], ["v1"], name("e", "Add")),
             helper.make_node("Mul", ["v1", "m.weight"], ["v2"], name("m", "Mul")),
             helper.make_node("MatMul", ["v2", "l.weight"], ["v3"], name("l", "MatMul")),
             helper.make_node("Mul", ["v3", "m.weight"], ["v4"], name("n", "Mul")),
             helper.make_node("Transpose", ["head.weight"], ["v5"], name("head", "Transpose"), perm=[1, 0]),
             helper.make_node("MatMul", ["v4", "v5"], ["logits"], name("head", "MatMul"))]
    if not older:
        for node, module in zip(nodes, ("e", "e", "m", "l", "n", "head", "head")):
            scoped(node, module)
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.INT64, ["batch"])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 16])],
                              [numpy_helper.from_array(value.astype(np.float32), key) for key, value in weights.items()])
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]), path)
    return path


STORED = "'e.weight' is stored as 'head.weight'"
for path in (model(OUT / "new.onnx"), model(OUT / "old.onnx", older=True)):
    step = ["plan", path, "--dim=batch=8", "--train", "--loss=cross_entropy(logits,labels)"]
    train = [*step, "--optimizer=sgd"]
    for flag in ("--frozen=e\\.weight", "--trainable=e\\.weight", "--trainable=+e.weight", "--optimizer=adamw,no_decay=e.weight"):
        expect_error(checks, f"{path.name}, {flag}", [*step, *(train[-1:] if "optimizer" not in flag else []), flag], 2, [f"no parameter matches '.*': {STORED}\n$"])
    expect_error(checks, f"{path.name}, tied", [*train, "--tied=n.weight"], 2,
                 ["--tied: no initializer that several nodes read matches 'n.weight': 'n.weight' is stored as 'm.weight'\n$"])
    for command in (train, ["plan", path, "--dim=batch=8"]):
        expect_error(checks, f"{path.name}, shard", [*command, "--devices=2", "--mesh=tp=2", "--shard=e.weight=[{tp},{}]"], 2,
                     [f"--shard: no value is named 'e.weight': {STORED}\n$"])
    expect_error(checks, f"{path.name}, explained", ["plan", path, "--dim=batch=8", "--devices=2", "--explain=e.weight"], 2,
                 [f"--explain: no op, input or output is called 'e.weight': {STORED}\n"])
    # A pattern that matches others is taken, and said not to match it.
    partly = kerf(*train, "--frozen=e\\..*")
    checks.expect(f"{path.name}, partly", partly.returncode == 0 and f"note: --frozen: {STORED}, which 'e\\..*' does not match\n" in partly.stderr
                  and "frozen: e.bias\n" in partly.stdout, partly.stderr + partly.stdout)
    # Vectors have come apart: the copy is the other module's.
    copy = kerf(*train, "--frozen=n.weight")
    checks.expect(f"{path.name}, a copy", copy.returncode == 2 and "'n.weight' is stored as 'm.weight.2'" in copy.stderr, copy.stderr)
    both = kerf(*train, "--frozen=(e|head)\\..*")
    checks.expect(f"{path.name}, both", both.returncode == 0 and "is stored as" not in both.stderr, both.stderr)
    expect_error(checks, f"{path.name}, no name of it", [*train, "--frozen=decoder.weight"], 2, ["no parameter matches 'decoder.weight'.*'head.weight'"])
checks.finish()
