# `kerf compile` says how long each phase took: of planning all rounds, also those whose plan took more than the limit once it was laid out.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import json
import pathlib
import re
import sys
import time

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
checks = Checks()
UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6}
rounds = 0
for limit in ("700KiB", "650KiB", "600KiB", "550KiB"):
    began = time.monotonic()
    result = kerf("compile", INPUTS / "training/gpt2/model.onnx", "--dim=batch=8", "--train", "--loss=cross_entropy(logits,labels)",
                  "--optimizer=adamw", "--devices=cpu:2", f"--memory-limit={limit}", "--deadline=3", "-o", OUT / "p.kerf")
    wall = time.monotonic() - began
    if result.returncode != 0:  # what is found by then is the machine's
        continue
    plan = json.loads((OUT / "p.kerf/plan.json").read_text())
    said = {name: float(number) * UNITS[unit] for name, number, unit in re.findall(r"(\w+) ([\d.]+) (s|ms|us)\b", result.stdout + result.stderr)}
    checks.expect(f"{limit}: all phases", list(said) == ["import", "autodiff", "plan", "partition", "collectives", "lower", "package"], said)
    checks.expect(f"{limit}: planning", 0.8 < said["plan"] / plan["planning_seconds"] < 1.2 and sum(said.values()) < wall, f"{said} {plan['planning_seconds']}")
    rounds = max(rounds, plan["memory"].get("rejected", 0))
checks.expect("some plan did not fit", rounds > 0)
checks.finish()
