"""Where plans that keep a limit are not looked for, there is none that is cheaper.

    postponed.py MODELS

A mesh whose cheapest plan holds too much is looked at again behind all others, and only if
its bound leaves room for a better plan than the best. What is said of the others, that
they are predicted to hold too much, is all that is known of them. Two of them are planned
alone here, which must look at them, and cost as much as the best, or have no plan.

REQUIRES: kerf
RUN: %python %s %inputs/models
"""
import json
import subprocess
import sys

MODELS = sys.argv[1]
TRAIN = ["--train", "--loss=cross_entropy(logits,labels)", "--recompute=none", "--zero=none"]
PASSED_OVER = "predicted to need more memory than the limit"
failed = False


def say(fine, text):
    global failed
    failed |= not fine
    print(f"{'ok' if fine else 'WRONG':6}{text}", flush=True)


def plan(options):
    run = subprocess.run(["kerf", "plan", f"{MODELS}/gpt2-small/model.onnx", "--json", *options], capture_output=True, text=True)
    say(run.returncode in (0, 4), f"{' '.join(options)}: exit code {run.returncode}")
    return json.loads(run.stdout) if run.returncode == 0 else None


def check(options, share, min_count):
    free = plan(options)
    limited = [*options, f"--memory-limit={int(share * max(device['peak'] for device in free['memory']['per_device']))}B"]
    best = plan(limited)
    cost = best["objective"]["cost"]
    say(cost >= free["objective"]["cost"] * (1 - 1e-9), f"with the limit the best costs {cost}")
    passed_over = [each for each in best["runners_up"] if each.get("reason") == PASSED_OVER and "pp" in each["mesh"]]
    say(len(passed_over) >= min_count, f"{len(passed_over)} meshes with stages are passed over")
    for candidate in passed_over[:2]:
        mesh = ",".join(f"{axis}={size}" for axis, size in candidate["mesh"].items())
        alone = plan([each for each in limited if "--mesh" not in each] + [f"--mesh={mesh}", f"--micro-batches={candidate['micro_batches']}"])
        cost_alone = alone["objective"]["cost"] if alone else None
        say(not alone or cost_alone >= cost * (1 - 1e-9), f"{mesh} alone costs {cost_alone}")


check(["--dim=batch=32", "--devices=4", "--mesh=pp=2", *TRAIN], 0.75, 3)
sys.exit(failed)
