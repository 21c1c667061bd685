#!/usr/bin/env python3
"""bench/inference [MODEL ...] [--rounds R] [--steps N] [--json FILE]

Kerf against ONNX Runtime, side by side: in every round each runs N steps right
after the other, the figure of a round is the median step, the ratio that of the
round, and the table shows the medians over the rounds. One rank with 1 and 2
threads at batch 1 (128 tokens), and two ranks of one thread against ONNX
Runtime's two threads. Then what import, plan and compile take.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Each compilation is to be a whole one: no kernels are kept from one to the next.
os.environ["XDG_CACHE_HOME"] = "/dev/null"
CACHE = pathlib.Path(os.environ.get("KERF_CACHE_DIR", ROOT / "build/models"))
KERF = ROOT / "build/bin/kerf"
OUT = ROOT / "build/bench"
MODELS = ["resnet50", "bert-base", "gpt2-124m"]


# A process counts the memory of the one that started it, until it is its own
# program: so a small one stands between.
WRAPPER = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
seconds = time.perf_counter() - start
print(json.dumps([code, seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024]))
"""


def measured(*command):
    """(seconds, peak MiB) of a command; its errors end the benchmark."""
    command = [str(part) for part in command]
    result = subprocess.run([sys.executable, "-c", WRAPPER, *command], stdout=subprocess.PIPE, check=True,
                            env=dict(os.environ, OMP_WAIT_POLICY="passive"))
    code, seconds, mebibytes = json.loads(result.stdout)
    if code:
        sys.exit(f"error: {' '.join(command)}: exit {code}")
    return seconds, mebibytes


class Reference:
    """ONNX Runtime in this process, warm."""

    def __init__(self, folder, threads):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Its idle threads must not spin on the cores while Kerf has its turn.
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self.session = onnxruntime.InferenceSession(folder / "model.onnx", options,
                                                    providers=["CPUExecutionProvider"])
        self.inputs = {p.stem: np.load(p) for p in sorted((folder / "batch1/inputs").glob("*.npy"))}
        self.run(2)

    def run(self, steps):
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            self.session.run(None, self.inputs)
            times.append(time.perf_counter() - start)
        return statistics.median(times)


class Kerf:
    """A package in a process of its own; its statistics leave out load and warm-up."""

    def __init__(self, folder, ranks, threads):
        self.package = OUT / f"{folder.name}-{ranks}.kerf"
        measured(KERF, "compile", folder / "model.onnx", "--dim", "batch=1", f"--devices=cpu:{ranks}", "-o",
                 self.package, "-q")
        self.flags = [f"--threads={threads}", "-q"]
        for path in sorted((folder / "batch1/inputs").glob("*.npy")):
            self.flags += ["--input", f"{path.stem}=@{path}"]

    def run(self, steps):
        stats = OUT / "run.json"
        measured(KERF, "run", self.package, *self.flags, f"--repeat={steps}", f"--stats={stats}")
        return json.loads(stats.read_text())["time"]["step_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {MODELS} (default: all)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    if unknown := set(arguments.models) - set(MODELS):
        parser.error(f"unknown models {sorted(unknown)}, expected some of {MODELS}")
    OUT.mkdir(parents=True, exist_ok=True)
    models = arguments.models or MODELS
    for name in models:
        subprocess.run([sys.executable, ROOT / "test/Inputs/models/make_large.py", name, CACHE / name], check=True)

    rows = []
    print(f"{'model':12}{'ranks x threads':>16}{'Kerf':>11}{'ONNX Runtime':>15}{'ratio':>8}   (min..max of rounds)")
    for name in models:
        for ranks, threads in ((1, 1), (1, 2), (2, 1)):
            kerf, reference = Kerf(CACHE / name, ranks, threads), Reference(CACHE / name, ranks * threads)
            pairs = [(kerf.run(arguments.steps), reference.run(arguments.steps)) for _ in range(arguments.rounds)]
            ratios = [a / b for a, b in pairs]
            ours, theirs = (statistics.median(column) * 1e3 for column in zip(*pairs))
            ratio = statistics.median(ratios)
            print(f"{name:12}{f'{ranks} x {threads}':>16}{ours:8.1f} ms{theirs:12.1f} ms{ratio:8.2f}   "
                  f"({min(ratios):.2f}..{max(ratios):.2f})", flush=True)
            rows.append({"model": name, "ranks": ranks, "threads": threads, "kerf_seconds": ours / 1e3,
                         "onnxruntime_seconds": theirs / 1e3, "ratio": ratio})

    print(f"\n{'model':12}{'import':>18}{'plan, 4 ranks':>22}{'compile, 4 ranks':>22}")
    for name in models:
        model = [CACHE / name / "model.onnx", "--dim", "batch=4"]
        row, text = {"model": name}, f"{name:12}"
        for phase, command in (("import", ["inspect", *model, "-q"]),
                               ("plan", ["plan", *model, "--devices=cpu:4", "-q"]),
                               ("compile", ["compile", *model, "--devices=cpu:4", "-q", "-o", OUT / "time.kerf"])):
            seconds, mebibytes = measured(KERF, *command)
            row[phase] = {"seconds": seconds, "peak_mebibytes": mebibytes}
            text += f"{seconds:12.2f} s {mebibytes:5.0f} MiB"
        print(text, flush=True)
        rows.append(row)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
