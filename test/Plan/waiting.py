"""The time that planning charges for communication is that of the collectives that run.

    waiting.py INPUTS

Of plans that fix the mesh and of plans that are searched, on links with and without a measured curve, inside a node and
over two: no stage waits longer than its collectives take together, and as long but for a share: planning leaves out the
latency of buckets of gradients that are not full, which is most of it where gradients are few and small. (What crosses
stages for each micro-batch is a part of the pipeline's time, not of this.)

REQUIRES: kerf
RUN: %python %s %inputs
"""
import json
import subprocess
import sys

INPUTS = sys.argv[1]
TRAIN = ["--train", "--loss=cross_entropy(logits,labels)"]
GPT2 = [f"{INPUTS}/graphs/gpt2-124m/model.onnx", "--dim=batch=64", *TRAIN, "--optimizer=adamw", "--precision=bf16"]
SMALL = [f"{INPUTS}/training/gpt2/model.onnx", "--dim=batch=8", *TRAIN, "--optimizer=adamw"]
INFERENCE = [f"{INPUTS}/models/gpt2-small/model.onnx", "--dim=batch=4"]
# Options, and the least share of its collectives' time that a stage waits.
CASES = [
    ([*GPT2, "--machine=h100-8", "--mesh=dp=8"], 0.95),
    ([*GPT2, "--machine=h100-8", "--mesh=dp=8", "--gradient-dtype=f32"], 0.95),
    ([*GPT2, "--machine=h100-8", "--mesh=dp=4,tp=2"], 0.95),
    ([*GPT2, "--machine=h100-8", "--mesh=pp=2,dp=4"], 0.95),
    ([*GPT2, "--machine=h100-8", "--mesh=pp=2,dp=4", "--schedule=1f1b"], 0.95),
    ([*GPT2, "--machine=h200-8", "--mesh=dp=8"], 0.8),
    ([*GPT2, "--machine=h100-4x2", "--mesh=dp=8"], 0.95),
    ([*SMALL, "--devices=cpu:4", "--mesh=dp=4"], 0.4),
    ([*SMALL, "--devices=cpu:4", "--mesh=dp=2,tp=2"], 0.8),
    ([*SMALL, "--devices=cpu:4"], 0.4),
    ([*INFERENCE, "--devices=cpu:4", "--mesh=tp=4"], 0.999999),
]
failed = False
for case, min_share in CASES:
    plan = json.loads(subprocess.run(["kerf", "plan", *case, "--json"], capture_output=True, text=True, check=True).stdout)
    taken = {}
    for row in plan["communication"]["collectives"]:
        if row["op"] != "send" or row["phase"] not in ("forward", "backward"):
            taken[row["stage"]] = taken.get(row["stage"], 0) + row["seconds"] * row["count"]
    waits, max_seconds = plan["time"]["exposed_communication_seconds"], max(taken.values())
    fine = min_share * max_seconds <= waits <= max_seconds * (1 + 1e-9)
    failed |= not fine
    print(f"{'ok' if fine else 'WRONG':6}{' '.join(case)}: waits {waits * 1e6:.1f} us of {max_seconds * 1e6:.1f} us")
sys.exit(failed)
