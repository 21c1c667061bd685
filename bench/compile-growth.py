#!/usr/bin/env python3
"""bench/compile-growth.py [--layers 12,24,48,96] [--kerf build/bin/kerf] [--json FILE]

How planning and compiling a training step grow with depth: GPT-2 (the exporter's
graph, 256 wide, 128 tokens, batch 8, AdamW) whose weights are a hole in a file.
For every depth `kerf plan --train` on 8 devices and `kerf compile --train` for
two, data parallel: seconds of the search, then of each process, on the clock and
of all its threads; peak memory; nodes of the graph; and the exponent between this
depth and the one before (1: linear). Needs numpy and onnx.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Each compilation is to be a whole one: no kernels are kept from one to the next.
os.environ["XDG_CACHE_HOME"] = "/dev/null"
OUT = ROOT / "build/bench/compile-growth"
STEP = ["--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw", "--dim=batch=8"]


def model_of(layers):
    folder = OUT / f"gpt2-{layers}-layers"
    subprocess.run([sys.executable, ROOT / "test/Inputs/models/make_large.py", "gpt2-124m", folder,
                    f"--layers={layers}", "--hidden=256", "--heads=4", "--inner=1024", "--vocabulary=8192",
                    "--no-weights"], check=True)
    return folder / "model.onnx"


def measure(command):
    """Output, seconds on the clock, seconds of its threads, MiB."""
    start = time.perf_counter()
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"error: {' '.join(map(str, command))} failed")
    return output, time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def row_of(kerf, layers):
    import onnx
    model, package = model_of(layers), OUT / "step.kerf"
    plan, plan_wall, plan_cpu, plan_memory = measure(
        [kerf, "plan", model, *STEP, "--devices=8", "--machine=h100-8", "--json"])
    shutil.rmtree(package, ignore_errors=True)
    _, wall, cpu, memory = measure([kerf, "compile", model, *STEP, "--devices=cpu:2", "--mesh=dp=2", "-o", package])
    size = (package / "program.so").stat().st_size
    shutil.rmtree(package)
    return {"layers": layers, "nodes": len(onnx.load(model, load_external_data=False).graph.node),
            "planning_seconds": json.loads(plan)["planning_seconds"], "plan_seconds": plan_wall,
            "plan_cpu_seconds": plan_cpu, "plan_mib": plan_memory, "compile_seconds": wall,
            "compile_cpu_seconds": cpu, "compile_mib": memory, "program_bytes": size}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="12,24,48,96")
    parser.add_argument("--kerf", type=pathlib.Path, default=ROOT / "build/bin/kerf")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    print(f"{'layers':>6}{'nodes':>7}{'search':>9}{'plan: clock':>13}{'threads':>9}{'grows':>7}{'memory':>10}"
          f"{'compile: clock':>16}{'threads':>9}{'grows':>7}{'memory':>10}{'code':>9}")
    rows = []
    for layers in map(int, arguments.layers.split(",")):
        row = row_of(arguments.kerf, layers)
        exponents = [math.log(row[key] / rows[-1][key]) / math.log(layers / rows[-1]["layers"]) if rows else math.nan
                     for key in ("plan_cpu_seconds", "compile_cpu_seconds")]
        row["plan_exponent"], row["compile_exponent"] = (None if math.isnan(e) else e for e in exponents)
        rows.append(row)
        grows = [" " * 7 if math.isnan(e) else f"{e:7.2f}" for e in exponents]
        print(f"{layers:6}{row['nodes']:7}{row['planning_seconds']:7.2f} s{row['plan_seconds']:11.2f} s"
              f"{row['plan_cpu_seconds']:7.2f} s{grows[0]}{row['plan_mib']:6.0f} MiB{row['compile_seconds']:14.2f} s"
              f"{row['compile_cpu_seconds']:7.2f} s{grows[1]}{row['compile_mib']:6.0f} MiB"
              f"{row['program_bytes'] / 1024:5.0f} KiB", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
