#!/usr/bin/env python3
"""bench/published.py [--kerf BINARY] [--only TEXT] [--deadline SECONDS]

Step times in print of GPT models on A100s of 80 GB, beside what `kerf plan` predicts for
the same degrees and micro-batches, and what it would choose. Sources:

    M21  Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters
         Using Megatron-LM (arXiv 2104.04473), table 1: TFLOP/s per GPU, of which the
         formula of its section 5.1 makes seconds
    M22  Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models
         (arXiv 2205.05198), table 5: seconds with full recomputation

All recompute every block, cut no state over dp, and have 2048 tokens and a vocabulary of
51,200. M22's pipelines are interleaved (3 chunks a stage), and so are those predicted. Models
are built without weights, which no plan needs.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("KERF_CACHE_DIR", ROOT / "build/models"))
TOKENS, VOCABULARY = 2048, 51200
# Billions of parameters, layers, hidden size, heads, batch, nodes of 8, degrees, seconds or TFLOP/s per GPU.
ROWS = [("M21", 1.7, 24, 2304, 24, 512, 4, "dp=32", 137), ("M21", 3.6, 30, 3072, 32, 512, 8, "dp=32,tp=2", 138),
        ("M21", 7.5, 36, 4096, 32, 512, 16, "dp=32,tp=4", 142), ("M21", 18.4, 40, 6144, 48, 1024, 32, "dp=32,tp=8", 135),
        ("M22", 22, 48, 6144, 64, 4, 1, "tp=8", 1.42), ("M22", 175, 96, 12288, 96, 64, 8, "tp=8,pp=8", 18.13),
        ("M22", 530, 105, 20480, 128, 280, 35, "tp=8,pp=35", 49.05)]


def model(layers, hidden, heads):
    folder = CACHE / f"gpt-{layers}-{hidden}"
    if not (folder / "model.onnx").exists():
        sizes = {"layers": layers, "hidden": hidden, "heads": heads, "inner": 4 * hidden, "vocabulary": VOCABULARY, "tokens": TOKENS}
        subprocess.run([sys.executable, ROOT / "test/Inputs/models/make_large.py", "gpt3-175b", folder, "--no-weights",
                        *[f"--{name}={size}" for name, size in sizes.items()]], check=True)
    (folder / "model.onnx.data").unlink(missing_ok=True)
    return folder / "model.onnx"


def seconds_of(layers, hidden, batch, gpus, teraflops):
    """M21's section 5.1, with what is computed again."""
    flops = 96 * batch * TOKENS * layers * hidden**2 * (1 + TOKENS / (6 * hidden) + VOCABULARY / (16 * layers * hidden))
    return flops / (gpus * teraflops * 1e12)


def plan(kerf, path, batch, nodes, *options):
    """plan.json, or None."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "plan.json"
        command = [kerf, "plan", path, f"--dim=batch={batch}", "--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw",
                   "--precision=bf16", f"--machine=a100-80gb-8x{nodes}", "-q", "-o", out, *options]
        result = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode:
            print(result.stdout.strip()[:300], file=sys.stderr)
        return json.loads(out.read_text()) if result.returncode == 0 else None


def mesh_of(found):
    degrees = [f"{name}={size}" for name, size in found["mesh"].items() if size > 1]
    return ",".join(degrees) or "1"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kerf", default=ROOT / "build/bin/kerf")
    parser.add_argument("--only", default="", help="a text in the row's degrees")
    parser.add_argument("--deadline", type=float, default=120, help="of the search for Kerf's own choice, in seconds")
    arguments = parser.parse_args()
    print(f"{'':4} {'parameters':>10} {'GPUs':>5} {'batch':>6}  {'degrees':12} {'in print':>9} {'predicted':>9} {'ratio':>6}  Kerf's choice")
    ratios = []
    for source, billions, layers, hidden, heads, batch, nodes, degrees, measured in ROWS:
        if arguments.only not in degrees:
            continue
        path, gpus = model(layers, hidden, heads), 8 * nodes
        printed = measured if source == "M22" else seconds_of(layers, hidden, batch, gpus, measured)
        pipeline = [f"--micro-batches={batch}", "--schedule=interleaved", "--chunks=3"] if "pp" in degrees else []
        theirs = plan(arguments.kerf, path, batch, nodes, f"--mesh={degrees}", "--recompute=all", "--zero=none", *pipeline)
        own = plan(arguments.kerf, path, batch, nodes, f"--deadline={arguments.deadline:g}")
        predicted = theirs["time"]["step_seconds"] if theirs else float("nan")
        ratios.append(predicted / printed)
        choice = "none found"
        if own:
            gap = own["objective"]["gap"]
            bound = f"gap {100 * gap:.0f}%" if gap < 1 else "no bound"
            choice = f"{own['time']['step_seconds']:.2f} s, {bound}: {mesh_of(own)}"
        print(f"{source:4} {billions:9g}B {gpus:5} {batch:6}  {degrees:12} {printed:7.2f} s {predicted:7.2f} s {ratios[-1]:6.2f}  {choice}",
              flush=True)
    print(f"largest difference {100 * max(abs(ratio - 1) for ratio in ratios):.0f}%, mean "
          f"{100 * statistics.mean(abs(ratio - 1) for ratio in ratios):.0f}%")


if __name__ == "__main__":
    main()
