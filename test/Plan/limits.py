"""What is planned for a memory limit keeps it when it is laid out, or there is an error.

    limits.py MODELS TRAINING

Each case is planned without a limit that binds, and for shares of what that lays out. A
plan for less costs as much or more; where there is none, the message says so, with exit
code 4. `memory.rejected` counts the plans that needed more than the limit when they were
laid out.

REQUIRES: kerf, onnx
RUN: %python %s %inputs/models %inputs/training
"""
import json
import math
import re
import subprocess
import sys

import onnx

MODELS, TRAINING = sys.argv[1:3]
LOSS = ["--train", "--loss=cross_entropy(logits,labels)"]
failed = False


def say(fine, text):
    global failed
    failed |= not fine
    print(f"{'ok' if fine else 'WRONG':6}{text}", flush=True)


def plan(model, options, limit):
    return subprocess.run(["kerf", "plan", f"{model}/model.onnx", "--json", f"--memory-limit={limit}B", *options],
                          capture_output=True, text=True)


def peak(document):
    return max(device["peak"] for device in document["memory"]["per_device"])


def check(model, options):
    """How many limits there is a plan for, of four."""
    free = json.loads(plan(model, options, 1 << 40).stdout)
    kept = 0
    for share in (0.95, 0.8, 0.6, 0.4):
        limit = int(share * peak(free))
        process = plan(model, options, limit)
        name = f"{model} {' '.join(options)}, {limit} bytes"
        if process.returncode:
            say(process.returncode == 4 and re.search("no plan .*memory", process.stderr), f"{name}: {process.stderr.strip()}")
            continue
        found = json.loads(process.stdout)
        kept += 1
        say(peak(found) <= limit and found["memory"]["limit"] == limit, f"{name}: {peak(found)} bytes are laid out")
        say(found["objective"]["cost"] >= free["objective"]["cost"] * (1 - 1e-9), f"{name}: cost {found['objective']['cost']}")
        say(found["objective"]["lower_bound"] <= found["objective"]["cost"], f"{name}: the bound is none")
    return kept


def check_minimum(model, devices):
    """Parameters and AdamW's two states, of four bytes each, are all cut over all devices: no plan holds less."""
    count = sum(math.prod(tensor.dims) for tensor in onnx.load(f"{model}/model.onnx").graph.initializer if tensor.dims)
    process = plan(model, ["--dim=batch=64", f"--devices={devices}", *LOSS, "--optimizer=adamw,lr=0.001"], 1024)
    message = f"every plan needs at least {-(-12 * count // devices)} bytes"
    say(process.returncode == 4 and message in process.stderr, f"{model}: {message}: {process.stderr.strip()}")


def check_micro_batches(mesh, limit, min_count):
    """What fits with many micro-batches is found, and its message is not that nothing does."""
    process = plan(f"{TRAINING}/mlp", ["--dim=batch=512", *mesh, *LOSS, "--optimizer=adamw", "--recompute=none"], limit)
    found = json.loads(process.stdout) if process.returncode == 0 else None
    say(found and found["schedule"]["micro_batches"] >= min_count and peak(found) <= limit,
        f"{mesh}, {limit} bytes: {found and found['schedule']['micro_batches']} micro-batches {process.stderr.strip()}")


def main():
    # 32 micro-batches take 70,208 bytes, 64 take 63,680 and 128 60,416; two stages of 8 (four each) take more than 100,000.
    check_micro_batches(["--devices=1"], 64000, 64)
    check_micro_batches(["--devices=1"], 60500, 128)
    check_micro_batches(["--devices=2", "--mesh=pp=2"], 50000, 64)
    check_minimum(f"{TRAINING}/mlp", 2)
    kept = check(f"{MODELS}/gpt2-small", ["--dim=batch=256", "--devices=4"])
    kept += check(f"{MODELS}/mlp", ["--dim=batch=4096", "--devices=4"])
    kept += check(f"{MODELS}/resnet-small", ["--dim=batch=64", "--devices=2", "--mesh=tp=2"])
    kept += check(f"{TRAINING}/mlp", ["--dim=batch=1024", "--devices=2", *LOSS, "--optimizer=adamw,lr=0.001"])
    kept += check(f"{TRAINING}/conv-max-pool", ["--dim=batch=64", "--devices=2", "--mesh=pp=2", *LOSS])
    say(kept >= 8, f"{kept} of 20 limits were kept")
    sys.exit(failed)


main()
