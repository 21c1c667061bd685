#!/usr/bin/env python3
"""bench/deadline.py [--kerf build/bin/kerf] [--rounds 3]

How --deadline is kept: seconds of the search and of the whole command beside those that were given, of requests that
take longer than that. The search of each row is to end within a tenth of its deadline (docs/Plan.md).
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRAIN = ["--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw"]
# name -> model, machine, further flags
REQUESTS = {
    "gpt2 training, volume": ("gpt2-124m", "h100-8x8", [*TRAIN, "--objective=volume"]),
    "gpt2 training, 10 GiB": ("gpt2-124m", "h100-8", [*TRAIN, "--memory-limit=10GiB"]),
    "gpt2 inference, volume": ("gpt2-124m", "h100-8x8", ["--objective=volume"]),
    "resnet50 training": ("resnet50", "h100-8x8", TRAIN),
    "resnet50 inference, volume": ("resnet50", "h100-8x8", ["--objective=volume"]),
    "vgg16 training, volume": ("vgg16", "h100-8x8", [*TRAIN, "--objective=volume"]),
}
NO_PLAN = 4  # the exit code


def plan(kerf, request, deadline):
    """(seconds of the search, of the command, gap); None where no plan was found in the time."""
    model, machine, flags = request
    start = time.perf_counter()
    run = subprocess.run([kerf, "plan", ROOT / f"test/Inputs/graphs/{model}/model.onnx", "--dim=batch=64", f"--machine={machine}", "-q", "--json",
                          *flags, f"--deadline={deadline}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if run.returncode == NO_PLAN:
        return None
    run.check_returncode()
    document = json.loads(run.stdout)
    return document["planning_seconds"], time.perf_counter() - start, document["objective"]["gap"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kerf", default=ROOT / "build/bin/kerf")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deadlines", type=float, nargs="+", default=[1, 3, 10])
    arguments = parser.parse_args()
    print(f"{'request':27} {'deadline':>8} {'search':>9} {'worst':>9} {'of it':>6} {'command':>9} {'gap':>7}")
    for name, request in REQUESTS.items():
        for deadline in arguments.deadlines:
            rounds = [found for _ in range(arguments.rounds) if (found := plan(arguments.kerf, request, deadline))]
            begin = f"{name:27} {deadline:6g} s "
            if not rounds:
                print(begin, "no plan in this time", flush=True)
                continue
            search, command, gap = map(statistics.median, zip(*rounds))
            worst = max(found[0] for found in rounds)
            print(f"{begin} {search:7.2f} s {worst:7.2f} s {worst / deadline:6.0%} {command:7.2f} s {gap:7.1%}", flush=True)


if __name__ == "__main__":
    main()
