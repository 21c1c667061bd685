# Verdicts and bounds under a memory limit, against plans that were lowered. Challengers are random plans and the best
# plans of other limits, of given micro-batches on one stage, and of each kind of ZeRO; of each the bytes that its fullest
# device lays out and the bytes that its busiest rank sends, or its seconds, are known. None may keep a limit under which
# "no plan fits", none may keep a limit and cost less than the bound that is proven under it (with ZeRO where the search
# says that it looked at that kind), and what is planned under a limit keeps it.
#
#     refute.py OUT INPUTS [--all]
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT, INPUTS, EVERYTHING = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]), "--all" in sys.argv
SEEDS, LIMITS = (200, 40) if EVERYTHING else (6, 4)
TRAIN = ["--train", "--loss=cross_entropy(logits,labels)"]


def wide():
    """A model most of whose memory are its outputs: of a product, of what another product reads, and of both."""
    shapes = {"w": (8, 64), "v": (64, 512)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["hidden"]),
             helper.make_node("MatMul", ["hidden", "v"], ["y"]), helper.make_node("Tanh", ["y"], ["z"])]
    info = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size])
            for name, size in (("x", 8), ("hidden", 64), ("y", 512), ("z", 512))}
    weights = [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "wide", [info.pop("x")], list(info.values()), weights)
    (OUT / "wide").mkdir()
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / "wide/model.onnx")
    return OUT / "wide"


WIDE = wide()
CASES = [
    (WIDE, ["--dim=batch=64", "--devices=cpu:1"]),
    (WIDE, ["--dim=batch=64", "--devices=cpu:2", "--precision=bf16"]),
    (WIDE, ["--dim=batch=64", "--devices=cpu:4", "--mesh=pp=2,tp=2", "--objective=volume"]),
    ("models/mlp", ["--dim=batch=8", "--devices=cpu:2", "--objective=volume"]),
    ("models/mlp", ["--dim=batch=8", "--devices=cpu:4"]),
    # Weights that are whole by a hint: what readers want of them is made at load, and may be less.
    ("models/mlp", ["--dim=batch=8", "--devices=cpu:2", "--mesh=tp=2", "--shard=layers.1.weight=[{},{}]"]),
    ("models/mlp", ["--dim=batch=8", "--devices=cpu:4", "--objective=volume", "--shard=layers[.][01][.]weight=[{},{}]"]),
    ("models/gpt2-small", ["--dim=batch=4", "--devices=cpu:2", "--objective=volume"]),
    ("training/mlp", ["--dim=batch=16", "--devices=cpu:4", *TRAIN, "--optimizer=adamw,lr=0.001", "--objective=volume"]),
    # Most of what a device holds are parameters and states: limits that only ZeRO keeps.
    ("training/mlp", ["--dim=batch=16", "--devices=cpu:4", *TRAIN, "--optimizer=adamw,lr=0.001", "--mesh=dp=4"]),
]
if EVERYTHING:
    CASES += [
        ("training/conv-batch-norm", ["--dim=batch=8", "--devices=cpu:2", *TRAIN, "--optimizer=sgd,lr=0.1", "--precision=bf16"]),
        ("models/mlp", ["--dim=batch=8", "--devices=cpu:3", "--precision=bf16", "--objective=volume"]),
        ("models/convnet", ["--dim=batch=4", "--devices=cpu:4", "--objective=volume"]),
        ("models/resnet-small", ["--dim=batch=4", "--devices=cpu:2"]),
        ("models/bert-small", ["--dim=batch=4", "--devices=cpu:4", "--precision=bf16"]),
        ("models/vit-small", ["--dim=batch=4", "--devices=cpu:2", "--machine=h100-8"]),
        ("training/mlp", ["--dim=batch=16", "--devices=cpu:2", *TRAIN, "--optimizer=adamw,lr=0.001", "--precision=bf16"]),
        ("training/gpt2", ["--dim=batch=8", "--devices=cpu:4", *TRAIN, "--optimizer=adamw,lr=0.001", "--mesh=dp=4", "--precision=bf16"]),
        ("training/gpt2", ["--dim=batch=8", "--devices=cpu:4", *TRAIN, "--optimizer=adamw,lr=0.001", "--mesh=pp=2,dp=2", "--micro-batches=2"]),
        ("training/gpt2", ["--dim=batch=8", "--devices=cpu:4", *TRAIN, "--optimizer=adamw,lr=0.001", "--machine=h100-8"]),
        ("training/gpt2", ["--dim=batch=8", "--devices=cpu:2", *TRAIN, "--optimizer=adamw,lr=0.001", "--objective=volume"]),
        ("training/conv-max-pool", ["--dim=batch=8", "--devices=cpu:4", *TRAIN, "--optimizer=sgd,lr=0.1", "--objective=volume"]),
    ]
ZEROS = (1, 2, 3)
checks = Checks()


def plan(model, options):
    """(peak, cost, bound, kind of ZeRO, kinds that were searched) of what is planned, or the error's line."""
    path = OUT / "plan.json"
    path.unlink(missing_ok=True)
    result = kerf("plan", INPUTS / model / "model.onnx", *options, "-o", path)
    if result.returncode:
        return result.stderr
    document = json.loads(path.read_text())
    return (max(device["peak"] for device in document["memory"]["per_device"]), document["objective"]["cost"],
            document["objective"]["lower_bound"], document["zero"],
            {document["zero"], *(each.get("zero", 0) for each in document["runners_up"])})


for model, options in CASES:
    case = f"{'wide' if model == WIDE else model} {' '.join(options)}"
    free = plan(model, options)
    checks.expect(f"{case}: without a limit", not isinstance(free, str), str(free))
    if isinstance(free, str):
        continue
    challengers = [free]
    for seed in range(SEEDS):
        drawn = plan(model, [*options, "--solver=random", f"--seed={seed}"])
        if not isinstance(drawn, str):
            challengers.append(drawn)
    checks.expect(f"{case}: random plans", len(challengers) > SEEDS // 2, f"{len(challengers)} of {SEEDS}")
    if "--train" in options:
        for zero in ZEROS:
            for micro in (1, 2) if EVERYTHING else (1 + zero % 2,):
                given = plan(model, [*options, "--recompute=none", f"--zero={zero}", f"--micro-batches={micro}"])
                checks.expect(f"{case}: ZeRO {zero}, {micro} micro-batches", not isinstance(given, str), str(given))
                if not isinstance(given, str):
                    challengers.append(given)
            drawn = plan(model, [*options, f"--zero={zero}", "--solver=random", f"--seed={zero}"])
            if not isinstance(drawn, str):
                challengers.append(drawn)
    verdicts, min_peak = [], min(each[0] for each in challengers)
    taken = set()  # kinds that limits made the choice
    # From what leaves room to what nothing fits in.
    limits = [int(free[0] * 0.97 * (0.35 * min_peak / free[0]) ** (step / (LIMITS - 1))) for step in range(LIMITS)]
    for limit in (free[0], *limits):
        found = plan(model, [*options, f"--memory-limit={limit}B"])
        if isinstance(found, str):
            checks.expect(f"{case}: {limit} bytes", "no plan" in found, found)
            verdicts.append((limit, float("inf") if "no plan fits in memory" in found else None, found, {0, *ZEROS}))
            continue
        checks.expect(f"{case}: {limit} bytes are kept", found[0] <= limit, f"{found[0]} bytes are laid out")
        challengers.append(found)
        for micro in (2, 4) if EVERYTHING else (2,):
            given = plan(model, [*options, f"--memory-limit={limit}B", "--mesh=pp=1", f"--micro-batches={micro}"])
            if not isinstance(given, str):
                challengers.append(given)
        taken.add(found[3])
        verdicts.append((limit, found[2], f"bound {found[2]}, plan {found[1]}", found[4]))
    for limit, bound, text, kinds in verdicts:
        for peak, cost, _, zero, _ in challengers if bound is not None else ():
            if zero in kinds and peak <= limit and cost < bound * (1 - 1e-9):
                checks.expect(f"{case}: {limit} bytes", False, f"a plan of {peak} bytes costs {cost}; {text}")
    if "--mesh=dp=4" in options:
        checks.expect(f"{case}: limits that only ZeRO keeps", taken & set(ZEROS), str(taken))
    found = sum(bound is not None and bound < float("inf") for _, bound, _, _ in verdicts)
    refused = sum(bound == float("inf") for _, bound, _, _ in verdicts)
    tight = sum("plan" in text and text.startswith("bound") and float(text.split()[1].rstrip(",")) > 0.99 * float(text.split()[-1])
                for _, _, text, _ in verdicts)
    print(f"{case}: {len(challengers)} challengers, {len(verdicts)} limits: {found} with a plan ({tight} within 1% of the bound), "
          f"{refused} proven to have none", flush=True)
checks.finish()
