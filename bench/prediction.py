#!/usr/bin/env python3
"""bench/prediction.py [--build BUILD] [--models DIR] [--steps N]

The step that a plan predicts beside the one that is measured, for one and two ranks of one thread on this host, which
`kerf calibrate` measures first. Printed are each plan's ratio, the mean of the errors, and Kendall's tau over the pairs
of plans whose measured times are at least 10% apart: 1 means that the prediction orders all of them as they run.

Models: folders of DIR (default build/models) that test/Inputs/models/export.py or make_large.py made; those that are
not there are left out. The machine must be idle.
"""
import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = [("gpt2-124m", 1, ("", "tp=2")), ("gpt2-124m", 4, ("", "dp=2", "tp=2", "pp=2")),
         ("bert-base", 2, ("", "dp=2", "tp=2", "pp=2")), ("resnet50", 2, ("", "dp=2", "tp=2", "pp=2"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "build/models")
    parser.add_argument("--steps", type=int, default=9)
    arguments = parser.parse_args()
    kerf, kerf_run = arguments.build / "bin/kerf", arguments.build / "bin/kerf-run"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        machine, package, stats = (pathlib.Path(folder) / name for name in ("host.json", "p.kerf", "run.json"))
        subprocess.run([kerf, "calibrate", "--devices=cpu:2", "-o", machine], check=True, stdout=subprocess.DEVNULL)
        print(f"{'model':12}{'batch':>6}  {'mesh':8}{'predicted':>12}{'measured':>12}{'ratio':>8}")
        for name, batch, meshes in CASES:
            model = arguments.models / name / "model.onnx"
            for mesh in meshes if model.exists() else ():
                cut = ["--devices=cpu:2", f"--mesh={mesh}"] if mesh else ["--devices=cpu:1"]
                subprocess.run([kerf, "compile", model, f"--dim=batch={batch}", *cut, f"--machine={machine}", "-q", "-o", package],
                               check=True)
                subprocess.run([kerf_run, package, "--seed=1", "--threads=1", f"--repeat={arguments.steps}", f"--stats={stats}", "-q"],
                               check=True)
                predicted = json.loads((package / "plan.json").read_text())["time"]["step_seconds"]
                measured = statistics.median(json.loads(stats.read_text())["time"]["step_seconds_all"][2:])
                rows.append((predicted, measured))
                print(f"{name:12}{batch:6}  {mesh or 'one rank':8}{predicted * 1e3:9.1f} ms{measured * 1e3:9.1f} ms{predicted / measured:8.2f}",
                      flush=True)
    agree = disagree = 0
    for a, b in itertools.combinations(rows, 2):
        if abs(a[1] - b[1]) >= 0.1 * min(a[1], b[1]):
            same = (a[0] - b[0]) * (a[1] - b[1]) > 0
            agree, disagree = agree + same, disagree + (not same)
    if rows:
        tau = f"{(agree - disagree) / (agree + disagree):.2f}" if agree + disagree else "unknown"
        print(f"{len(rows)} plans, mean error {statistics.mean(abs(p / m - 1) for p, m in rows):.1%}, Kendall's tau {tau}")


if __name__ == "__main__":
    main()
