#!/usr/bin/env python3
"""bench/planning.py [--kerf BINARY] [--only TEXT] [--deadline SECONDS]

What `kerf plan` finds and how long it takes: growth with depth (GPT-2 of 12 to 96 layers),
plans under memory limits, training steps, and models of 6.7 and 175 B parameters. Printed are the
seconds of the search and of the whole command, processor seconds, peak memory of the
command, the plan's cost, how far it is above the proven bound, what its fullest device
lays out, and its mesh. Models are built without weights, which no plan needs.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GRAPHS = ROOT / "test/Inputs/graphs"
CACHE = pathlib.Path(os.environ.get("KERF_CACHE_DIR", ROOT / "build/models"))
LOSS = ["--train", "--loss=cross_entropy(logits,labels)"]
ADAMW, MOMENTUM = [*LOSS, "--optimizer=adamw,lr=0.001"], [*LOSS, "--optimizer=sgd,lr=0.1,momentum=0.9"]
H100 = ["--machine=h100-8"]


def large(name, layers=None):
    """The graph of a large model, its weights a hole in a file that is removed."""
    folder = CACHE / (name if layers is None else f"gpt2-{layers}-layers")
    if not (folder / "model.onnx").exists():
        depth = [] if layers is None else ["--layers", str(layers)]
        subprocess.run([sys.executable, ROOT / "test/Inputs/models/make_large.py", name, folder, *depth, "--no-weights"],
                       check=True)
    (folder / "model.onnx.data").unlink(missing_ok=True)
    return folder / "model.onnx"


def cases():
    """(name, function that gives the model, options)."""
    for layers in (12, 24, 48, 96):
        yield f"{layers} layers", lambda layers=layers: large("gpt2-124m", layers), ["--dim=batch=8", *H100]
    graph = lambda name: lambda: GRAPHS / name / "model.onnx"
    for limit in (None, "15GiB", "10GiB", "5GiB"):
        yield (f"gpt2-124m train bf16 64, {limit or 'no limit'}", graph("gpt2-124m"),
               ["--dim=batch=64", "--precision=bf16", *ADAMW, *H100, *([f"--memory-limit={limit}"] if limit else [])])
    for precision in ("f32", "bf16"):
        yield (f"gpt2-124m {precision} 8", graph("gpt2-124m"), ["--dim=batch=8", f"--precision={precision}", *H100])
    for batch in (8, 64):
        for objective in ("time", "volume"):
            yield (f"gpt2-124m train {batch}, {objective}", graph("gpt2-124m"),
                   [f"--dim=batch={batch}", f"--objective={objective}", *ADAMW, *H100])
            for name in ("resnet50", "vgg16", "alexnet"):
                yield (f"{name} train {batch}, {objective}", graph(name),
                       [f"--dim=batch={batch}", f"--objective={objective}", *MOMENTUM, *H100])
    yield "gpt3-6.7b bf16 1, 8 devices", lambda: large("gpt3-6.7b"), ["--dim=batch=1", "--precision=bf16", *H100]
    gpt3 = lambda: large("gpt3-175b")
    yield "gpt3-175b bf16 1, 8 devices", gpt3, ["--dim=batch=1", "--precision=bf16", *H100]
    yield ("gpt3-175b train bf16 64, 64 devices", gpt3,
           ["--dim=batch=64", "--precision=bf16", *ADAMW, "--machine=h100-8x8"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kerf", default=ROOT / "build/bin/kerf")
    parser.add_argument("--only", default="")
    parser.add_argument("--deadline", help="of every search, in seconds")
    arguments = parser.parse_args()
    print(f"{'case':38} {'search':>8} {'command':>8} {'cores':>8} {'uses':>9} {'cost':>10} {'gap':>6} {'device':>10}  mesh")
    for name, model, options in cases():
        if arguments.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "plan.json"
            command = [arguments.kerf, "plan", model(), *options, "-o", path]
            if arguments.deadline:
                command.append(f"--deadline={arguments.deadline}")
            start = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            error = process.stderr.read()
            usage = os.wait4(process.pid, 0)[2]
            seconds = time.perf_counter() - start
            cores, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
            if not path.exists():
                reason = next((line for line in error.splitlines() if "error" in line), error)
                print(f"{name:38} {'':8} {seconds:6.1f} s {cores:6.1f} s {memory:5.0f} MiB  {reason}", flush=True)
                continue
            plan = json.loads(path.read_text())
        objective = plan["objective"]
        cost = f"{objective['cost'] * 1e3:.4g} ms" if objective["kind"] == "time" else f"{objective['cost'] / 2**20:.4g} MiB"
        peak = max(device["peak"] for device in plan["memory"]["per_device"]) / 2**30
        mesh = ",".join(f"{axis}={size}" for axis, size in plan["mesh"].items() if size > 1)
        micro = plan["schedule"]["micro_batches"]
        print(f"{name:38} {plan['planning_seconds']:6.1f} s {seconds:6.1f} s {cores:6.1f} s {memory:5.0f} MiB {cost:>10} "
              f"{100 * objective['gap']:4.1f} % {peak:6.2f} GiB  {mesh}{f' x {micro} in time' if micro > 1 else ''}", flush=True)


main()
