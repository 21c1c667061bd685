# What --shard may ask for: each layout in the list behind a refused wish is taken, whatever is refused, and a plan that
# was made by a wish is priced again when it is given back, at the same cost.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import re
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()

# Of the last convolution's weight [3, 8, 3, 3] four devices divide one dimension alone.
random = np.random.default_rng(0)
weights = {"first": random.standard_normal((8, 4, 3, 3)).astype(np.float32), "last": random.standard_normal((3, 8, 3, 3)).astype(np.float32)}
graph = helper.make_graph(
    [helper.make_node("Conv", ["x", "first"], ["h"], pads=[1] * 4), helper.make_node("Relu", ["h"], ["r"]),
     helper.make_node("Conv", ["r", "last"], ["y"], pads=[1] * 4)],
    "convolutions", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 4, 8, 8])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 3, 8, 8])],
    [numpy_helper.from_array(value, name) for name, value in weights.items()])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), OUT / "model.onnx")
plan = ["plan", OUT / "model.onnx", "--devices=4", "--mesh=tp=4"]


def legal(wish):
    result = kerf(*plan, f"--shard=last={wish}")
    checks.expect(f"{wish} is refused", result.returncode in (2, 4) and f"'{wish}' is not a legal sharding of 'last'" in result.stderr, result.stderr)
    listed = re.search("note: legal on this mesh: (.*)", result.stderr)
    return {each.replace(" ", "") for each in listed.group(1).split("  ")} if listed else set(), result.stderr


lists = {wish: legal(wish) for wish in ("[{tp},{tp},{},{}]", "[{tp},{}]", "[{},{},{tp},{tp}]")}
every = {"[{},{},{},{}]", *("[" + ",".join("{tp}" if each == dim else "{}" for each in range(4)) + "]" for dim in range(4))}
for wish, (listed, stderr) in lists.items():
    checks.expect(f"what is legal, after {wish}", listed == every, f"{listed}\n{stderr}")
    checks.expect(f"dimensions, after {wish}", ("note: 'last' has 4 dimensions, not 2" in stderr) == (wish == "[{tp},{}]"), stderr)

# What has that size anyway, written out, and what has not.
for wish in (*sorted(every), "[{},{tp}:2,{},{}]", "[{},{},{tp}:1,{}]", "[{},{},{tp}:2,{}]"):
    made = kerf(*plan, f"--shard=last={wish}", "-q", "-o", OUT / "made.json")
    checks.expect(f"{wish} is taken", made.returncode == 0, made.stderr)
    given = kerf("plan", OUT / "model.onnx", f"--plan={OUT / 'made.json'}", "-o", OUT / "given.json")
    costs = [json.loads((OUT / name).read_text())["objective"]["cost"] for name in ("made.json", "given.json")] if given.returncode == 0 else []
    checks.expect(f"{wish}, given back", given.returncode == 0 and "not predicted" not in given.stdout and costs[0] == costs[1],
                  f"{costs} {given.stderr} {given.stdout}")

# A value is called by the output that it is, too; where the role of an axis is in the way, that is said.
for mesh, wish, why in (
        ("tp=4", "[{tp},{},{},{}]", "dimension 0 of 'Conv_2#2' is the batch, which 'tp' does not cut; dp does, and so does an axis of another name"),
        ("dp=4", "[{},{},{dp},{}]", "'dp' cuts nothing but the batch, which is dimension 0 of 'Conv_2#2'")):
    result = kerf("plan", OUT / "model.onnx", "--devices=4", f"--mesh={mesh}", f"--shard=y={wish}")
    checks.expect(f"why not {wish}", result.returncode in (2, 4) and f"note: {why}" in result.stderr, result.stderr)
for mesh, wish in (("x=4", "[{x},{},{},{}]"), ("tp=4", "[{},{},{},{\"tp\"}]"), ("x=4", "[ {}, {},{x} , {} ]")):
    made = kerf("plan", OUT / "model.onnx", "--devices=4", f"--mesh={mesh}", f"--shard=y={wish}", "-q", "-o", OUT / "made.json")
    checks.expect(f"{wish} is taken", made.returncode == 0, made.stderr)
    values = {value["name"]: value["sharding"] for value in json.loads((OUT / "made.json").read_text())["values"]} if made.returncode == 0 else {}
    plain = re.sub(r"[\s\[\]\"]", "", values.get("Conv_2#2", ""))
    checks.expect(f"{wish} is planned", plain == re.sub(r"[\s\[\]\"]", "", wish), str(values))

# A stage behind a wish: the value is made there, or it is said that no mesh has that stage, or that no cut keeps it.
for stage in (0, 1):
    made = kerf("plan", OUT / "model.onnx", "--devices=2", "--mesh=pp=2", f"--shard=Relu_1=[{{}},{{}},{{}},{{}}]@{stage}", "-q", "-o", OUT / "made.json")
    found = {value["name"]: value.get("stage") for value in json.loads((OUT / "made.json").read_text())["values"]} if made.returncode == 0 else {}
    checks.expect(f"stage {stage}", found.get("Relu_1") == stage, f"{found} {made.stderr}")
for mesh, name, stage, said in (("dp=4", "Relu_1", 9, "no mesh has a stage 9, there is one, 0\nnote: --mesh=pp=S makes S stages"),
                                ("pp=2", "Relu_1", 2, "no mesh has a stage 2, expected 0 to 1"),
                                ("pp=2", "x", 1, "no cut was found that keeps the stages which --shard asks for")):
    result = kerf("plan", OUT / "model.onnx", f"--devices={mesh[-1]}", f"--mesh={mesh}", f"--shard={name}=[{{}},{{}},{{}},{{}}]@{stage}")
    checks.expect(f"{name} in stage {stage} of {mesh}", result.returncode in (2, 4) and said in result.stderr, f"{result.returncode} {result.stderr}")
checks.finish()
