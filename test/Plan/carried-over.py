# A plan serves for another batch also where its constants differ: that of a mean over 64 samples, 1/64, is one with the
# model's own 1/64, that over 32 samples is not. So constants have no part in the numbers by which values are told apart.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from kerf_tests import Checks, expect_error, fresh_folder, kerf
from onnx import TensorProto, helper, numpy_helper

OUT = fresh_folder(sys.argv[1])
checks = Checks()
random = np.random.default_rng(0)
weights = {"w": random.standard_normal((16, 16)).astype(np.float32), "v": random.standard_normal((16, 4)).astype(np.float32), "axes": np.array([0])}
nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"], name="relu"),
         helper.make_node("Constant", [], ["c"], name="share", value_float=1 / 64), helper.make_node("Mul", ["b", "c"], ["d"], name="scale"),
         helper.make_node("MatMul", ["d", "v"], ["e"], name="second"), helper.make_node("ReduceMean", ["e", "axes"], ["m"], name="mean", keepdims=0),
         helper.make_node("Sub", ["e", "m"], ["y"], name="sub")]
graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
                          [numpy_helper.from_array(array, name) for name, array in weights.items()])
MODEL = OUT / "model.onnx"
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), MODEL)


def names(path):
    return [value["name"] for value in json.loads(path.read_text())["values"]]


for goal, flags in (("inference", []), ("training", ["--train", "--loss=mse(y,t)", "--optimizer=adamw"])):
    for mesh in ("dp=2", "tp=2", "pp=2"):
        plans = {batch: OUT / f"{goal}-{mesh}-{batch}.json" for batch in (64, 32)}
        if mesh == "pp=2":
            flags = [*flags, "--micro-batches=1"]
        for batch, plan in plans.items():
            made = kerf("plan", MODEL, f"--dim=batch={batch}", "--devices=cpu:2", f"--mesh={mesh}", *flags, "-q", "-o", plan)
            checks.expect(f"{goal} {mesh}: a plan of {batch}", made.returncode == 0, made.stderr)
        several = names(plans[32])
        checks.expect(f"{goal} {mesh}: one constant more", set(several) - set(names(plans[64])) == {"mean:constant"}, several)
        for batch in plans:
            for other in plans.values():
                given = kerf("verify", MODEL, f"--dim=batch={batch}", "--devices=cpu:2", f"--plan={other}", "--seed=1", *flags, "-q")
                checks.expect(f"{goal} {mesh}: {batch} by {other.name}", given.returncode == 0, given.stderr)
        # As plans were written before: a constant had a number of its node's.
        together = {"mean:constant": "mean#2", "mean#2": "mean#3", "share:constant": "share"}
        document = json.loads(plans[32].read_text())
        if goal == "inference":
            for value in document["values"]:
                value["name"] = together.get(value["name"], value["name"])
            (OUT / "before.json").write_text(json.dumps(document))
            given = kerf("plan", MODEL, "--dim=batch=32", "--devices=cpu:2", f"--plan={OUT / 'before.json'}", "-q")
            checks.expect(f"{mesh}: as before", given.returncode == 0, given.stderr)
# What is computed is in the plan, or it is one of another model.
document["values"] = [value for value in document["values"] if value["name"] != "mean#2"]
(OUT / "less.json").write_text(json.dumps(document))
expect_error(checks, "a value is missing", ["plan", MODEL, "--dim=batch=32", "--devices=cpu:2", f"--plan={OUT / 'less.json'}", *flags], 2, ["'mean#2' is missing"])
# A step with the norm of all gradients has other values than one without it: that is said.
STEP = ["plan", MODEL, "--dim=batch=32", "--devices=cpu:2", "--train", "--loss=mse(y,t)"]
for optimizer in ("sgd", "adamw"):
    plain, clipped = [*STEP, f"--optimizer={optimizer}"], [*STEP, f"--optimizer={optimizer}", "--clip-norm=1"]
    for name, made, taken, said in (("with", clipped, plain, "with the norm .*--clip-norm asks for, and this one is without it"),
                                    ("without", plain, clipped, "without the norm .*--clip-norm asks for, and this one is with it")):
        kerf(*made, "--mesh=dp=2", "-q", "-o", OUT / "norm.json")
        expect_error(checks, f"{optimizer}: a plan {name} the norm", [*taken, f"--plan={OUT / 'norm.json'}"], 2,
                     [f"it is a plan of a step {said}"])
# A weight that two nodes read has the name of one of them, which is the exporter's choice: a plan of the one serves for the other.
def tied(name):
    """A decoder whose table of embeddings is its head, stored as `name`."""
    made = [helper.make_node("Gather", [name, "ids"], ["e"], name="embed"), helper.make_node("MatMul", ["e", "fc.weight"], ["h"], name="fc"),
            helper.make_node("Transpose", [name], ["turned"], name="turn", perm=[1, 0]), helper.make_node("MatMul", ["h", "turned"], ["y"], name="head")]
    rows, square = (random.standard_normal(shape).astype(np.float32) for shape in ((32, 16), (16, 16)))
    whole = helper.make_graph(made, "tied", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4, 32])],
                              [numpy_helper.from_array(rows, name), numpy_helper.from_array(square, "fc.weight")])
    onnx.save(helper.make_model(whole, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / f"{name}.onnx")
    return OUT / f"{name}.onnx"


ONE, OTHER, THIRD = tied("wte.weight"), tied("lm_head.weight"), tied("fc.weight.head")
for goal, flags in (("inference", []), ("training", ["--train", "--loss=cross_entropy(y,t)", "--optimizer=adamw"])):
    for mesh in ("dp=2", "tp=2"):
        for made, taken in ((ONE, OTHER), (OTHER, ONE), (ONE, THIRD)):
            common = ["--dim=batch=4", "--devices=cpu:2", *flags, "-q"]
            kerf("plan", made, *common, f"--mesh={mesh}", "-o", OUT / "tied.json")
            given = kerf("verify", taken, *common, "--seed=1", f"--plan={OUT / 'tied.json'}")
            checks.expect(f"{goal} {mesh}: {taken.stem} by {made.stem}", given.returncode == 0, given.stderr)
# Another weight is none: one node reads it.
for value in (document := json.loads((OUT / "tied.json").read_text()))["values"]:
    value["name"] = value["name"].replace("fc.weight", "gc.weight")
(OUT / "gc.json").write_text(json.dumps(document))
expect_error(checks, "another weight", ["plan", ONE, "--dim=batch=4", "--devices=cpu:2", *flags, f"--plan={OUT / 'gc.json'}"], 2, ["gc.weight"])
checks.finish()
