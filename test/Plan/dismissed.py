"""What is said of meshes that are not searched holds when they are.

    dismissed.py MODELS

On many devices, and on several axes, most meshes are ruled out before all of their costs
are worked out: what their ops compute costs more than the best plan. "Costs at least" is
said of them, with a figure; each is planned alone here, where there is nothing to compare
it with, and must cost as much. Of others is said, as early, that nothing fits in memory:
there plans that were drawn and lowered must take more.

REQUIRES: kerf
RUN: %python %s %inputs/models
"""
import json
import re
import subprocess
import sys

MODELS = sys.argv[1]
TRAIN = ["--train", "--loss=cross_entropy(logits,labels)"]
# How many meshes are ruled out at least, all of them or those that cut a stage over two axes.
CASES = [
    ("mlp", "batch=64", ["--machine=h100-8x8"], 9, False),
    ("gpt2-small", "batch=16", ["--machine=h100-8x8", *TRAIN], 9, False),
    ("gpt2-small", "batch=16", ["--devices=8"], 1, True),
    ("gpt2-small", "batch=16", ["--devices=8", *TRAIN], 1, True),
]
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
failed = False


def say(fine, text):
    global failed
    failed |= not fine
    print(f"{'ok' if fine else 'WRONG':6}{text}", flush=True)


def plan(model, dim, options):
    run = subprocess.run(["kerf", "plan", f"{MODELS}/{model}/model.onnx", f"--dim={dim}", "--json", *options],
                         capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def check(model, dim, options, min_claims, has_two_axes, max_tried=3):
    best = plan(model, dim, options)
    # What was not even looked at has a bound, too: it computes as much.
    short = plan(model, dim, [*options, "--deadline=1"])["objective"]
    say(0 < short["lower_bound"] <= best["objective"]["cost"], f"{model}: within a deadline at least {short['lower_bound']} is proven")
    claims = []
    for candidate in best["runners_up"]:
        claim = re.fullmatch(r"costs at least ([\d.]+) (\w+), more than another", candidate.get("reason", ""))
        axes = [axis for axis in candidate["mesh"] if axis != "pp"]
        if claim and not (has_two_axes and len(axes) < 2):
            claims.append((float(claim[1]) * UNITS[claim[2]], candidate))
    say(len(claims) >= min_claims, f"{model}: {len(claims)} of {len(best['runners_up'])} meshes are ruled out")
    # Spread over the list, whose first claims are the closest.
    for bound, candidate in claims[::max(1, len(claims) // max_tried)][:max_tried]:
        mesh = ",".join(f"{axis}={size}" for axis, size in candidate["mesh"].items())
        alone = plan(model, dim, [*options, f"--mesh={mesh}", f"--micro-batches={candidate['micro_batches']}"])
        cost = alone["objective"]["cost"]
        # The figure is printed with three digits.
        say(cost >= bound * 0.995, f"{model}: {mesh} with {candidate['micro_batches']} micro-batches costs {cost}, "
                                   f"said to be at least {bound}")
        say(cost >= best["objective"]["cost"] * (1 - 1e-9), f"{model}: {mesh} is no better than the best")


def check_memory(limit, min_claims, max_tried=6):
    """GPT-2 on 64 devices: by what its ops hold at least, some meshes have no plan under the limit."""
    options = ["--machine=h100-8x8", *TRAIN, "--optimizer=adamw", "--zero=none", "--recompute=none"]
    for seconds in (15, 60, 240):  # a busy machine takes longer to find a plan
        try:
            found = plan("gpt2-small", "batch=16", [*options, f"--memory-limit={limit >> 10}KiB", f"--deadline={seconds}"])
            break
        except subprocess.CalledProcessError as error:
            say(seconds < 240, f"gpt2-small in {limit >> 10} KiB: no plan in {seconds} s: {error.stderr}")
    else:
        return
    claims = [candidate for candidate in found["runners_up"] if candidate.get("reason") == "nothing fits"]
    say(len(claims) >= min_claims, f"gpt2-small in {limit >> 10} KiB: nothing fits on {len(claims)} meshes")
    for candidate in claims[::max(1, len(claims) // max_tried)][:max_tried]:
        mesh = ",".join(f"{axis}={size}" for axis, size in candidate["mesh"].items())
        for seed in (1, 2):
            drawn = plan("gpt2-small", "batch=16", [*options, f"--mesh={mesh}", f"--micro-batches={candidate['micro_batches']}",
                                                    "--solver=random", f"--seed={seed}"])
            peak = max(device["peak"] for device in drawn["memory"]["per_device"])
            say(peak > limit, f"gpt2-small: {mesh}, {candidate['micro_batches']} micro-batches: a plan that was drawn takes {peak} bytes")


for case in CASES:
    check(*case)
check_memory(limit=500 << 10, min_claims=4)
sys.exit(failed)
