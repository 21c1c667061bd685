# `kerf plan --explain`: what the best plan costs in which an op is cut in another way.
#
# Held against a brute force that knows nothing of Kerf: a chain of two products on one axis, every combination of ways to
# cut its ops, priced by the ring formulas. And, for larger problems, against searches of their own: `--shard` forbids what
# the value of the op may not be, on the same mesh, and must come to the cost of the best of the choices that are left.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import itertools
import json
import pathlib
import re
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
checks = Checks()


def explain(model, options, node, name):
    result = kerf("plan", model, *options, f"--explain={node}", "--json")
    checks.expect(f"{name}: --explain ends", result.returncode == 0, result.stderr)
    return json.loads(result.stdout) if result.returncode == 0 else None


# ---- A chain of two products, by brute force -------------------------------------------------------------------------------
M, K, N, L = 12, 8, 20, 16
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "a"], ["h"], "first"), helper.make_node("Relu", ["h"], ["r"], "relu"),
     helper.make_node("MatMul", ["r", "b"], ["y"], "second")],
    "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [M, K])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [M, L])],
    [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in (("a", (K, N)), ("b", (N, L)))])
chain = OUT / "chain.onnx"
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), chain)

# A layout of a matrix: whole, rows or columns cut, or a sum of which each device has a part.
WHOLE, ROWS, COLUMNS, PART = "whole", "rows", "columns", "part"
PRODUCT = [((WHOLE, WHOLE), WHOLE), ((ROWS, WHOLE), ROWS), ((WHOLE, COLUMNS), COLUMNS), ((COLUMNS, ROWS), PART),
           ((PART, WHOLE), PART), ((WHOLE, PART), PART)]
ELEMENTWISE = [((each,), each) for each in (WHOLE, ROWS, COLUMNS)]
TEXT = {'{}, {}': WHOLE, '{"x"}, {}': ROWS, '{}, {"x"}': COLUMNS}


def move(start, end, rows, columns, devices):
    """Bytes that a device sends, by the ring formulas; infinite where nothing leads there."""
    size = 4 * rows * columns
    if start == end or start == WHOLE and end != PART:
        return 0
    if end == PART:
        return float("inf")
    if start == PART:
        return (2 if end == WHOLE else 1) * (devices - 1) * size / devices
    return (devices - 1) * size / devices / (1 if end == WHOLE else devices)


def cheapest(devices, forced):
    """Of all plans in which ops are cut as `forced` says ({op: choice}), the least bytes."""
    best = float("inf")
    for first, relu, second in itertools.product(PRODUCT, ELEMENTWISE, PRODUCT):
        if any(forced.get(op, choice) != choice for op, choice in (("first", first), ("relu", relu), ("second", second))):
            continue
        bytes_ = move(first[1], relu[0][0], M, N, devices) + move(relu[1], second[0][0], M, N, devices)
        # Inputs and weights lie as the op wants them, but never in parts; an output is anything but parts.
        if PART in (first[0][0], first[0][1], second[0][1]):
            continue
        bytes_ += min(move(second[1], left, M, L, devices) for left in (WHOLE, ROWS, COLUMNS))
        best = min(best, bytes_)
    return best


def layout(text):
    return TEXT[text] if text in TEXT else PART if "partial sum" in text else None


for devices in (2, 4):
    options = [f"--devices={devices}", f"--mesh=x={devices}", "--objective=volume", "--batch-dim=x=-1"]
    for op, choices in (("first", PRODUCT), ("relu", ELEMENTWISE), ("second", PRODUCT)):
        for flags in ([], ["--solver=brute-force"]):
            name = f"chain on {devices}, {op} {' '.join(flags)}"
            answer = explain(chain, options + flags, op, name)
            if not answer:
                continue
            found = {}
            for choice in answer["choices"]:
                key = tuple(map(layout, choice["operands"])), layout(choice["results"][0])
                if None in key[0] or key[1] is None:
                    continue  # blocks and digits of an axis, which the brute force does not have
                cost = choice["cost"] if "cost" in choice else float("inf")
                found[key] = min(found.get(key, float("inf")), cost)
                checks.expect(f"{name}: {key} is proven", choice["status"] in ("optimal", "infeasible"), choice)
            # Which ways there are, and what each costs; bytes are rounded up.
            for key in choices:
                expected = cheapest(devices, {op: key})
                if key in found or expected < float("inf"):
                    checks.expect(f"{name}: {key}", key in found and (found[key] == expected or expected <= found[key] < expected + 1),
                                  f"{found.get(key)}, by brute force {expected}")
            checks.expect(f"{name}: no other way", not set(found) - set(choices), found)
            costs = [choice.get("cost", float("inf")) for choice in answer["choices"]]
            checks.expect(f"{name}: best first", costs == sorted(costs) and sum(c["chosen"] for c in answer["choices"]) == 1, costs)
            chosen = next(c for c in answer["choices"] if c["chosen"])
            checks.expect(f"{name}: the plan found", chosen["cost"] == answer["objective"]["cost"], chosen)


# ---- Searches of their own -------------------------------------------------------------------------------------------------
def forced(model, options, answer, sharding, flags):
    """The objective of the best plan with this sharding, or nothing."""
    axes = [f"{axis}={answer['mesh'][axis]}" for axis in answer["mesh_axes"] if answer["mesh"][axis] > 1 or axis != "pp"]
    wish = re.sub(r'"mb"(, )?', "", sharding)
    kept = [option for option in options if not option.startswith(("--mesh", "--micro-batches", "--zero", "--recompute"))]
    fixed = [f"--mesh={','.join(axes)}", f"--micro-batches={answer['schedule']['micro_batches']}"] if axes else []
    result = kerf("plan", model, *kept, *fixed, *flags, f"--shard={re.escape(answer['makes'][0])}=[{wish}]", "--json")
    if result.returncode:
        return result
    return json.loads(result.stdout)["objective"]


TRAIN = ["--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adam"]
CASES = [
    ("models/mlp", ["--dim=batch=8", "--devices=4", "--mesh=dp=2,tp=2"], ["node_linear_1", "node_linear_1#2", "layers.1.weight", "x"], []),
    ("models/mlp", ["--dim=batch=8", "--devices=4", "--machine=h100-4"], ["node_linear_2"], []),
    ("models/mlp", ["--dim=batch=8", "--devices=4", "--mesh=pp=2,tp=2", "--micro-batches=2"], ["node_gelu", "layers.2.weight"], []),
    ("models/mlp", ["--dim=batch=8", "--devices=2", "--mesh=x=2", "--objective=volume"], ["node_linear_1"], []),
    # So little that a layer must be cut.
    ("models/mlp", ["--dim=batch=8", "--devices=2", "--mesh=tp=2", "--memory-limit=44KiB"], ["layers.1.weight"], []),
    ("models/gpt2-small", ["--dim=batch=4", "--devices=4", "--mesh=dp=2,tp=2", "--machine=h100-4"], ["node_MatMul_160", "node_addmm_2#2", "node_layer_norm_1"], []),
    ("training/mlp", ["--dim=batch=16", "--devices=4", "--mesh=dp=2,tp=2", *TRAIN], ["BACKWARD", "WEIGHT"], ["--zero=none", "--recompute=none"]),
    ("training/mlp", ["--dim=batch=16", "--devices=4", "--mesh=pp=2,dp=2", "--micro-batches=4", *TRAIN], ["WEIGHT"], ["--zero=none", "--recompute=none"]),
]
compared = infeasible = 0
for folder, options, nodes, flags in CASES:
    model = INPUTS / folder / "model.onnx"
    plan = json.loads(kerf("plan", model, *options, "--json").stdout)
    parameters = plan["model"]["parameter_names"]
    numbered = [value["name"] for value in plan["values"] if len(value.get("operands", [])) == 2 and value["name"].startswith("node_gelu_1#")]
    for node in nodes:
        node = parameters[0] if node == "WEIGHT" else numbered[0] if node == "BACKWARD" else node
        name = f"{folder} {' '.join(options[1:])}, {node}"
        answer = explain(model, options, node, name)
        if not answer:
            continue
        checks.expect(f"{name}: the plan is the same", answer["objective"]["cost"] == plan["objective"]["cost"] and answer["mesh"] == plan["mesh"]
                      and answer["explained"]["name"].split("#")[0] == node.split("#")[0], answer["objective"])
        groups = {}
        for choice in answer["choices"]:
            groups.setdefault(choice["results"][0], []).append(choice)
        for sharding, group in groups.items():
            found = [choice for choice in group if "cost" in choice]
            alone = forced(model, options, answer, sharding, flags)
            if not found:
                infeasible += 1
                checks.expect(f"{name}: {sharding} cannot be", not isinstance(alone, dict) and "no plan" in alone.stderr, [alone, group])
                continue
            best = min(found, key=lambda choice: choice["cost"])
            if not isinstance(alone, dict):
                checks.expect(f"{name}: {sharding} has a plan", False, [alone.stderr, best])
                continue
            compared += 1
            bound = min(choice["lower_bound"] for choice in group if "lower_bound" in choice)
            near = 1e-9 * best["cost"]
            fine = alone["cost"] >= bound - near and best["cost"] >= alone["lower_bound"] - near
            # Where both are proven there is but one answer.
            if best["lower_bound"] >= best["cost"] - near and alone["gap"] < 1e-9:
                fine &= abs(alone["cost"] - best["cost"]) <= near
            checks.expect(f"{name}: {sharding}", fine, [best, alone])
checks.expect("compared", compared > 30 and infeasible > 0, [compared, infeasible])

# ---- A weight that is whole where its reader wants a part of it --------------------------------------------------------------
# It is stored as that part, which is made at load. What cannot be under a limit is not there with less memory under another,
# and no bound is above a plan that keeps the limit.
tight = [INPUTS / "models/mlp/model.onnx", ["--dim=batch=8", "--devices=2", "--mesh=tp=2"]]
for weight in ("layers.0.weight", "layers.1.weight", "layers.2.weight"):
    asked = {limit: explain(tight[0], [*tight[1], f"--memory-limit={limit}KiB"], weight, f"{weight}, {limit} KiB") for limit in (28, 32, 36, 40, 44, 46, 56)}
    for limit, answer in asked.items():
        for choice in answer["choices"] if answer else []:
            for larger in (other for limit_, other in asked.items() if limit_ > limit and other):
                there = next(c for c in larger["choices"] if c["results"] == choice["results"])
                fits = "cost" in there and there["peak_memory_bytes"] <= limit * 1024
                checks.expect(f"{weight}: {choice['results']} within {limit} KiB", not fits or choice["status"] != "infeasible"
                              and there["cost"] >= choice.get("lower_bound", 0) * (1 - 1e-9), [choice, there])
whole = [tight[0], *tight[1], "--memory-limit=44KiB", "--shard=layers.1.weight=[{},{}]", "--json"]
any_parts, one_part = (json.loads(kerf("plan", *whole, *flags).stdout)["objective"] for flags in ([], ["--micro-batches=1"]))
checks.expect("a bound of what may be stored in parts", any_parts["lower_bound"] <= one_part["cost"] and any_parts["cost"] <= one_part["cost"], [any_parts, one_part])

# ---- More ways than there is time for ---------------------------------------------------------------------------------------
answer = explain(INPUTS / "models/gpt2-small/model.onnx", ["--dim=batch=8", "--devices=8", "--mesh=x=2,y=2,z=2", "--deadline=2"], "node_MatMul_160", "many ways")
late = [c for c in answer["choices"] if c.get("reason") == "not searched: the time was over"]
checks.expect("the time was over", len(answer["choices"]) > 400 and len(late) > 300 and not any(c["chosen"] for c in late), len(late))

# ---- What is printed and refused -------------------------------------------------------------------------------------------
mlp = [INPUTS / "models/mlp/model.onnx", "--dim=batch=8", "--devices=4", "--mesh=dp=2,tp=2"]
text = kerf("plan", *mlp, "--explain=node_linear_2").stdout
lines = text.splitlines()
checks.expect("a screen", len(lines) <= 40 and max(map(len, lines)) <= 160, text)
checks.expect("marked", sum(line.startswith("  *") for line in lines) == 1 and "node_linear_2#2 (nn.add)" in text, text)
for said in ("explain   node_linear_2 (nn.matmul): ", " on dp=2 x tp=2", "reads     node_gelu_1, layers.2.weight", "infeasible: no plan has it"):
    checks.expect(f"says {said!r}", said in text, text)
checks.expect("twice", kerf("plan", *mlp, "--explain=node_linear_2").stdout == text)
# -v has each choice.
answer = explain(*mlp[:1], mlp[1:], "node_linear_2", "names")
checks.expect("-v", sum("->" in line for line in kerf("plan", *mlp, "--explain=node_linear_2", "-v").stdout.splitlines()) == len(answer["choices"]) + 1)
# By what it makes: an output of the model, and what a node calls its own.
checks.expect("an output", explain(*mlp[:1], mlp[1:], "logits", "output")["explained"] == {"name": "node_linear_2", "op": "nn.matmul"})
checks.expect("of a node", explain(chain, ["--devices=2"], "h", "value")["explained"]["name"] == "first")
# Of a node that became several ops the one that computes most; the first is NAME#1.
gpt = INPUTS / "models/gpt2-small/model.onnx", ["--dim=batch=4", "--devices=2"]
checks.expect("the product", explain(*gpt, "node_addmm_1", "product")["explained"] == {"name": "node_addmm_1#2", "op": "nn.matmul"})
checks.expect("the first", explain(*gpt, "node_addmm_1#1", "first")["explained"]["name"] == "node_addmm_1")
# A plan that is asked for is written, one of a wrong question is not.
left = OUT / "left.json"
expect_error(checks, "a slip", ["plan", *mlp, "--explain=node_linaer_2", "-o", left], 2, ["no op, input or output is called 'node_linaer_2', did you mean"], absent=[left])
expect_error(checks, "a part", ["plan", *mlp, "--explain=linea"], 2, ["--explain: .*'linea', which is in 3 names", "'node_linear', 'node_linear_1'"])
expect_error(checks, "a number", ["plan", *mlp, "--explain=node_linear#7", "-o", left], 2, ["'node_linear#7'", "there are 'node_linear', 'node_linear#2'"], absent=[left])
expect_error(checks, "nothing alike", ["plan", *mlp, "--explain=qqqqqqq"], 2, ["'qqqqqqq'\n", "plan.json lists all"])
checks.expect("written", kerf("plan", *mlp, "--explain=x", "-o", left, "-q").returncode == 0 and json.loads(left.read_text())["schema"] == "kerf.plan/1")
expect_error(checks, "with --plan", ["plan", mlp[0], "--dim=batch=8", f"--plan={left}", "--explain=x"], 2, ["--explain"])
expect_error(checks, "with --solver=random", ["plan", *mlp, "--solver=random", "--explain=x"], 2, ["--explain: --solver=random"])
# Hints stay, and what they rule out says so.
hinted = explain(*mlp[:1], [*mlp[1:], "--shard=layers.2.weight=[{},{}]"], "layers.2.weight", "hint")
checks.expect("hints", [c.get("reason") for c in hinted["choices"]][1:] == ["a hint rules it out"] * (len(hinted["choices"]) - 1), hinted["choices"])
# A table that is the head as well is stored once. Its other name is guessed to be none of another weight; the weights that several layers read are named.
rows, square = np.ones((50, 16), np.float32), np.eye(16, dtype=np.float32)
nodes = [helper.make_node("Gather", ["lm_head.weight", "ids"], ["e"], name="embed"), helper.make_node("MatMul", ["e", "fc.weight"], ["h"], name="fc"),
         helper.make_node("Transpose", ["lm_head.weight"], ["t"], name="turn", perm=[1, 0]), helper.make_node("MatMul", ["h", "t"], ["logits"], name="head")]
graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", 6])],
                          [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 6, 50])],
                          [numpy_helper.from_array(rows, "lm_head.weight"), numpy_helper.from_array(square, "fc.weight")])
tied = OUT / "tied.onnx"
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tied)
for flag in ("--explain=wte.weight", "--shard=wte.weight=[{},{}]"):
    expect_error(checks, flag, ["plan", tied, "--dim=batch=4", "--devices=2", flag], 2,
                 ["'wte.weight'\n", "note: a weight that several layers share has one name; several read 'lm_head.weight'\n"])
expect_error(checks, "a slip of it", ["plan", tied, "--dim=batch=4", "--devices=2", "--explain=lm_haed.weight"], 2, ["did you mean 'lm_head.weight'\\?"])
checks.finish()
