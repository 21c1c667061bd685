# Interleaved pipelines, whose stages hold several chunks of the model, give the losses and the parameters of one rank, by
# themselves and beside data and tensors in parts, with blocks computed again and with ZeRO; what is sent is what was
# planned. With --all more meshes and models.
#
#     interleaved.py OUT INPUTS [--all]
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import json
import math
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np

from kerf_tests import Checks, fresh_folder, in_parallel, kerf, tensors

OUT = fresh_folder(sys.argv[1])
EVERYTHING = "--all" in sys.argv
checks = Checks()
STEPS = 5
found = {}


def train(case, mesh, *flags):
    """Notes losses and parameters of a few steps. (Of SGD: Adam divides gradients by their size, which rounding may be.)"""
    folder = INPUTS / "training" / case
    curves = json.loads((folder / "curves.json").read_text())
    file = f"{case} {mesh or 'one'} {' '.join(flags)}".replace(",", "-").replace(" ", "_").replace("=", "")
    log, kept, stats = (OUT / f"{file}.{kind}" for kind in ("jsonl", "safetensors", "json"))
    ranks = math.prod(int(part.split("=")[1]) for part in mesh.split(",")) if mesh else 1
    result = kerf("train", folder / "model.onnx", f"--dim=batch={curves['batch']}", f"--batch-size={curves['batch']}",
                  "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.05,momentum=0.9", "--clip-norm=1.0",
                  f"--data={folder / 'data.npz'}", "--shuffle=off", f"--steps={STEPS}", f"--log={log}", "--threads=1",
                  f"--save-safetensors={kept}", f"--stats={stats}", f"--devices=cpu:{ranks}", "--timeout=120",
                  *([f"--mesh={mesh}", "--schedule=interleaved", "--deadline=2"] if mesh else []), *flags, timeout=600)
    name = f"{case} {mesh or 'one rank'} {' '.join(flags)}"
    checks.expect(f"{name} runs", result.returncode == 0, result.stderr[:2000])
    if result.returncode:
        return
    sent = json.loads(stats.read_text())["communication"]
    checks.expect(f"{name}: sent as planned", sent["bytes_per_rank"] == sent["planned_bytes_per_rank"], str(sent))
    found[case, mesh, *flags] = [json.loads(line)["loss"] for line in log.read_text().splitlines()], tensors(kept)


RUNS = [("gpt2", "pp=2", "--micro-batches=2"), ("gpt2", "pp=2", "--micro-batches=4", "--chunks=3"),
        ("gpt2", "pp=2,dp=2", "--micro-batches=2", "--chunks=2")]
if EVERYTHING:
    RUNS += [("gpt2", "pp=2", "--micro-batches=4", "--recompute=all"), ("gpt2", "pp=4", "--micro-batches=4"),
             ("gpt2", "pp=2,tp=2", "--micro-batches=4", "--chunks=4"),
             ("gpt2", "pp=2,dp=2", "--micro-batches=2", "--zero=1"), ("gpt2", "pp=2,dp=2", "--micro-batches=2", "--zero=3"),
             ("llama", "pp=2", "--micro-batches=2"), ("llama", "pp=2,tp=2", "--micro-batches=2"),
             ("mlp", "pp=2", "--micro-batches=2")]
in_parallel([(train, *run) for run in [*sorted({(run[0], "") for run in RUNS}), *RUNS]])
for run in RUNS:
    name, mine, one = " ".join(run), found.get(run), found.get((run[0], ""))
    if not mine or not one:
        continue
    checks.expect(f"{name}: the losses of one rank", len(mine[0]) == STEPS and np.allclose(mine[0], one[0], rtol=5e-5),
                  f"{mine[0]}\n{one[0]}")
    apart = {each: float(np.max(np.abs(mine[1][each] - one[1][each]), initial=0)) for each in one[1] if each in mine[1]}
    checks.expect(f"{name}: the parameters of one rank", mine[1].keys() == one[1].keys() and len(apart) > 3 and
                  max(apart.values()) <= 1e-4, f"{sorted(apart.items(), key=lambda each: -each[1])[:3]}")
checks.finish()
