#!/usr/bin/env python3
"""bench/threads.py [MODEL ...] [--threads N] [--rounds R] [--seconds S] [--build BUILD] [--old BUILD]

Threads by work: least time of a step on one thread, with every call on all threads
(KERF_TEAMS=always) and as it is without either, each call on one or all by its work.
The last column is the default over the better of the two, the bar is 1.1. The three
run in turn, each for S seconds a round, at least R rounds and until none of a model's
three figures has fallen by more than 1% in R rounds, at most 10 R: other work on the
machine only ever makes a step longer.

Models are those of the suite at batch 1 and 8, three small transformers as exporters
write them (bench/small_models.py), and the large ones (bench/inference.py) where they
have been made. With --old the column of all threads is that of another build.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

import onnx

import small_models

ROOT = pathlib.Path(__file__).resolve().parent.parent
LARGE = pathlib.Path(os.environ.get("KERF_CACHE_DIR", ROOT / "build/models"))
OUT = ROOT / "build/bench/threads"
BAR, UNITS = 1.1, {"us": 1e-6, "ms": 1e-3, "s": 1.0}
SMALL = {
    "": small_models.Sizes(),
    "-wide": small_models.Sizes(width=256, heads=8, key_heads=2, hidden=768, layers=6, vocabulary=2048, sequence=32),
    "-token": small_models.Sizes(width=256, heads=8, key_heads=2, hidden=768, layers=6, vocabulary=2048, sequence=1),
}


def models():
    """(name, file, batch) of every model."""
    for folder in sorted((ROOT / "test/Inputs/models").iterdir()):
        if (folder / "model.onnx").exists():
            for batch in (1, 8):
                yield f"{folder.name}, batch {batch}", folder / "model.onnx", batch
    for name in small_models.MODELS:
        for suffix, sizes in SMALL.items():
            path = OUT / f"{name}{suffix}.onnx"
            onnx.save(small_models.model(name, sizes), path)
            yield name + suffix, path, 1
    for folder in sorted(LARGE.iterdir()) if LARGE.exists() else ():
        if (folder / "model.onnx").exists():
            yield folder.name, folder / "model.onnx", 1


def command(*arguments, **environment):
    process = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, env={**os.environ, **environment})
    if process.returncode:
        sys.exit(f"error: {' '.join(map(str, arguments))}: exit {process.returncode}: {process.stderr.strip()}")
    return process.stdout


class Case:
    def __init__(self, number, model, batch, arguments):
        self.package = OUT / f"{number}.kerf"
        command(arguments.build / "bin/kerf", "compile", model, f"--dim=batch={batch}", "--devices=cpu:1", "-q", "-o",
                self.package)
        run, old = arguments.build / "bin/kerf-run", arguments.old
        all_threads = f"--threads={arguments.threads}"
        self.ways = [(run, "--threads=1", {}),
                     (old / "bin/kerf-run" if old else run, all_threads, {"KERF_TEAMS": "always"}),
                     (run, all_threads, {})]
        self.least, self.seconds = [float("inf")] * 3, arguments.seconds
        self.quiet = 0  # rounds since a figure fell

    def round(self):
        before = list(self.least)
        for way, (program, threads, environment) in enumerate(self.ways):
            expected = min(self.least)
            steps = 20 if expected == float("inf") else max(4, int(self.seconds / expected))
            text = command(program, self.package, "--seed=1", threads, f"--repeat={min(steps, 20000)}", **environment)
            value, unit = re.search(r", least ([\d.]+) (us|ms|s)", text).groups()
            self.least[way] = min(self.least[way], float(value) * UNITS[unit])
        fell = any(now < 0.99 * then for now, then in zip(self.least, before))
        self.quiet = 0 if fell else self.quiet + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="those whose name contains it (default: all)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--old", type=pathlib.Path)
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    print(f"{'model':28}{'1 thread':>12}{f'{arguments.threads} threads':>12}{'by work':>12}{'ratio':>8}")
    ratios = {}
    for number, (name, model, batch) in enumerate(models()):
        if arguments.models and not any(part in name for part in arguments.models):
            continue
        case = Case(number, model, batch, arguments)
        for _ in range(10 * arguments.rounds):
            case.round()
            if case.quiet == arguments.rounds:
                break
        ratios[name] = ratio = case.least[2] / min(case.least[:2])
        times = "".join(f"{seconds * 1e6:9.0f} us" for seconds in case.least)
        print(f"{name:28}{times}{ratio:8.2f}{' *' if ratio > BAR else ''}", flush=True)
    worst = max(ratios, key=ratios.get)
    print(f"worst: {ratios[worst]:.2f} ({worst}); {sum(r > BAR for r in ratios.values())} of {len(ratios)} above {BAR}")


if __name__ == "__main__":
    main()
