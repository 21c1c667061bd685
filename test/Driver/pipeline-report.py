# What a report says of a pipeline, whose ranks send different things: "per rank" is what one rank sends, and a rank that
# computes while a transfer is under way does not wait for it (docs/ReadingPlans.md, docs/Runtime.md).
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %models
import json
import pathlib
import re
import sys
from collections import defaultdict

sys.path.insert(0, str(pathlib.Path(sys.argv[2]).parent))
from kerf_tests import Checks, fresh_folder, kerf

out, model, checks = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]) / "gpt2-small/model.onnx", Checks()
CUT = ["--dim=batch=8", "--mesh=pp=3", "--micro-batches=8", "--devices=3"]
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
ROW = re.compile(r"^  (\d+) x (\w+) over ([\w,]+), .*?: (at most )?([\d.]+) (\w+) per rank", re.M)


def sends(document):
    """Of each size of sends their number, and by stage the bytes: summed here, from the file."""
    count, sent = defaultdict(int), defaultdict(lambda: defaultdict(int))
    for c in document["communication"]["collectives"]:
        if c["op"] == "send":
            times, size = c.get("count", 1), c["buffer_bytes"]
            count[size] += times
            sent[size][c["stage"]] += c["bytes_per_rank"] * times
    return [(count[size], max(of.values()), len(of) < 3 or len(set(of.values())) > 1) for size, of in sent.items()]


def rows_hold(name, document, text):
    rows = [row for row in ROW.findall(text) if row[1] == "send"]
    expected = sends(document)
    checks.expect(f"{name}: a row of each size", len(rows) == len(expected) > 1, (text, expected))
    for row, (count, most, differs) in zip(sorted(rows, key=lambda row: int(row[0])), sorted(expected)):
        shown = float(row[4]) * UNITS[row[5]]
        checks.expect(f"{name}: {count} sends", int(row[0]) == count, row)
        checks.expect(f"{name}: what the busiest rank sends", abs(shown - most) <= 0.005 * most, (row, most))
        checks.expect(f"{name}: other stages send less", (row[3] == "at most ") == differs, row)
    busiest = document["communication"]["bytes_per_rank"]
    checks.expect(f"{name}: no row is more than the busiest rank's sum", all(most <= busiest for _, most, _ in expected),
                  (expected, busiest))


plan = out / "plan.json"
planned = kerf("plan", model, *CUT, "-o", plan)
checks.expect("a plan", planned.returncode == 0, planned.stderr)
rows_hold("plan", json.loads(plan.read_text()), planned.stdout)

# A collective that every stage's ranks do alike is no "at most".
cut = kerf("plan", model, "--dim=batch=8", "--mesh=dp=2", "--devices=2", "--train",
           "--loss=cross_entropy(logits,labels)", "--optimizer=sgd")
rows = ROW.findall(cut.stdout)
checks.expect("no stages", cut.returncode == 0 and rows and not any(row[3] for row in rows), cut.stdout + cut.stderr)

stats = out / "run.json"
ran = kerf("run", model, *CUT, "--seed=1", "--repeat=5", "-q", "--stats", stats)
checks.expect("a run", ran.returncode == 0, ran.stderr)
shown = kerf("report", stats)
rows_hold("run", json.loads(stats.read_text()), shown.stdout)
checks.expect("its micro-batches", "on 3 devices, 1 thread each, 8 micro-batches\n" in re.sub(r"\d+ threads?", "1 thread", shown.stdout), shown.stdout)
checks.expect("micro-batches side by side", re.search(r"^  micro-batches +8 +8 +equal$", kerf("report", plan, "--diff", stats).stdout, re.M),
              kerf("report", plan, "--diff", stats).stdout)
checks.expect("means of several steps", "without the first step" in shown.stdout, shown.stdout)

# Three ranks share the cores, and each receives what the one before it has yet to compute.
time = json.loads(stats.read_text())["time"]
parts = time["compute_seconds"] + time["exposed_communication_seconds"]
checks.expect("compute and wait are parts of the step", parts <= 1.1 * time["step_seconds"], time)

# Stages that wait are no communication in a plan, and wait for communication in a run: beside each other both are one row.
def rows_of(first, second):
    return re.findall(r"^  (exposed communication|neither \(.*?\)|communication, waiting stages)  ", kerf("report", first, "--diff", second).stdout, re.M)


checks.expect("a plan and its run", rows_of(plan, stats) == rows_of(stats, plan) == ["communication, waiting stages"],
              kerf("report", plan, "--diff", stats).stdout)
checks.expect("two runs", "exposed communication" in rows_of(stats, stats), rows_of(stats, stats))

# Of a permute S is what all ranks hold, of which each passes its part on or keeps it.
moved = json.loads(plan.read_text())
moved["communication"]["collectives"] = [{
    "op": "permute", "node": "n", "tensor": "t", "tensors": 1, "axes": ["x"], "stage": 0, "group_size": 8, "groups": 1, "buffer_bytes": 48 << 10,
    "group_bytes": 48 << 10, "bytes_per_rank": 8 << 10, "count": 1, "formula": "S", "phase": "step", "purpose": "activation", "seconds": 1e-6}]
(out / "moved.json").write_text(json.dumps(moved))
shown = kerf("report", out / "moved.json")
checks.expect("a permute", re.search(r"1 x permute over x, 64.0 KiB, activation: (at most )?8.00 KiB per rank \(S / N each\)", shown.stdout), shown.stdout)

once = kerf("run", model, *CUT, "--seed=1", "-q", "--stats", stats)
shown = kerf("report", stats)
checks.expect("one step", once.returncode == 0 and "means, of the slowest" in shown.stdout, once.stderr + shown.stdout)
checks.finish()
