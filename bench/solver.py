#!/usr/bin/env python3
"""The planner's solver on contest instances (docs/Solver.md), one table row each.

  bench/solver.py DIR [--solver build/bin/kerf-solve] [--deadline 60] [--seed 0]

DIR holds *.json or *.json.gz of the ASPLOS/EuroSys 2025 contest on intra-operator
parallelism. Every solution is evaluated here again, from the file alone.
"""
import argparse
import gzip
import json
import pathlib
import subprocess
import time


def evaluate(path, solution):
    """Cost of a solution and its peak usage, in Python's exact integers."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        problem = json.load(file)["problem"]
    costs = problem["nodes"]["costs"]
    total = sum(cost[choice] for cost, choice in zip(costs, solution))
    for ends, table in zip(problem["edges"]["nodes"], problem["edges"]["costs"]):
        entry = 0
        for node in ends:
            entry = entry * len(costs[node]) + solution[node]
        total += table[entry]
    changes = {}
    for (begin, end), usage, choice in zip(
            problem["nodes"]["intervals"], problem["nodes"]["usages"], solution):
        if begin < end:
            changes[begin] = changes.get(begin, 0) + usage[choice]
            changes[end] = changes.get(end, 0) - usage[choice]
    load = peak = 0
    for instant in sorted(changes):
        load += changes[instant]
        peak = max(peak, load)
    return total, peak, problem.get("usage_limit"), len(costs)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--solver", default="build/bin/kerf-solve")
    parser.add_argument("--deadline", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"{'instance':24} {'nodes':>6} {'cost':>14} {'bound':>14} {'gap':>6} {'usage':>6} {'seconds':>8}")
    for path in sorted(args.dir.iterdir()):
        if not path.name.endswith((".json", ".json.gz")):
            continue
        begin = time.monotonic()
        run = subprocess.run(
            [args.solver, str(path), f"--deadline={args.deadline}", f"--seed={args.seed}"],
            capture_output=True, text=True)
        seconds = time.monotonic() - begin
        lines = run.stdout.splitlines()
        if run.returncode != 0:
            print(f"{path.name:24} {(run.stderr or run.stdout).strip()}")
            continue
        words = lines[1].split()
        cost, bound = int(words[1]), int(words[3])
        exact, peak, limit, nodes = evaluate(path, json.loads(lines[0]))
        if exact != cost or (limit is not None and peak > limit):
            raise SystemExit(f"{path.name}: says {cost}, evaluates to {exact}, peak {peak} of {limit}")
        gap = (cost - bound) / max(abs(cost), 1)
        usage = peak / limit if limit else 0
        print(f"{path.name:24} {nodes:6} {cost:14} {bound:14} {gap:6.1%} {usage:6.1%} {seconds:8.1f}", flush=True)


if __name__ == "__main__":
    main()
