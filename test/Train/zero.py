# Steps whose states (ZeRO 1), gradients (2) and parameters (3) lie in parts over data-parallel devices give the losses of
# one rank and the parameters of the same mesh without, in float32, bfloat16 and float16, with micro-batches, stages and
# tensors cut beside; what is sent is what was planned, and a run that is taken up again goes on with the same bits. With
# --all more meshes and models, and each plan searched to its end (10 s where tensors are cut) instead of for a second.
#
#     zero.py OUT INPUTS [--all]
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
losses, weights = {}, {}
STEPS = 5
KINDS = ("none", "1", "2", "3")


def train(case, mesh, zero, flags, precision, optimizer):
    folder = INPUTS / "training" / case
    curves = json.loads((folder / "curves.json").read_text())
    name = f"{case} {mesh or 'one'} {zero} {precision} {optimizer} {' '.join(flags)}"
    file = name.replace(",", "-").replace(" ", "_")
    log, kept, stats = (OUT / f"{file}.{kind}" for kind in ("jsonl", "safetensors", "json"))
    ranks = math.prod(int(part.split("=")[1]) for part in mesh.split(",")) if mesh else 1
    result = kerf("train", folder / "model.onnx", f"--dim=batch={curves['batch']}", f"--batch-size={curves['batch']}",
                  "--loss=cross_entropy(logits,labels)", f"--optimizer={OPTIMIZERS[optimizer]}", "--clip-norm=1.0",
                  f"--data={folder / 'data.npz'}", "--shuffle=off", f"--steps={STEPS}", f"--log={log}", "--threads=1",
                  f"--save-safetensors={kept}", f"--stats={stats}", f"--devices=cpu:{ranks}", "--timeout=120",
                  f"--precision={precision}", *([f"--mesh={mesh}", f"--zero={zero}"] if mesh else []), *flags,
                  *([] if EVERYTHING else ["--deadline=1"]), timeout=600)
    checks.expect(f"{name} runs", result.returncode == 0, result.stderr[:2000])
    if result.returncode:
        return
    key = (case, mesh, zero, precision, optimizer, tuple(flags))
    losses[key] = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
    weights[key] = tensors(kept)
    sent = json.loads(stats.read_text())["communication"]
    checks.expect(f"{name}: sent as planned", sent["bytes_per_rank"] == sent["planned_bytes_per_rank"], str(sent))


OPTIMIZERS = {"sgd": "sgd,lr=0.05,momentum=0.9", "adamw": "adamw,lr=0.01"}
ONE, TWO, FOUR = [], ["--micro-batches=2"], ["--micro-batches=4"]
# Model, mesh, precision, flags; with SGD but for ADAMW.
CASES = [("gpt2", "dp=2", "f32", ONE), ("gpt2", "dp=4", "f32", TWO), ("gpt2", "dp=2,tp=2", "f32", TWO),
         ("gpt2", "pp=2,dp=2", "f32", ["--schedule=1f1b", *FOUR]), ("gpt2", "dp=2", "bf16", TWO), ("gpt2", "dp=4", "f16", ONE),
         ("conv-batch-norm", "dp=2", "f32", ONE)]
if EVERYTHING:
    CASES += [("gpt2", "dp=8", "f32", ONE), ("gpt2", "tp=2,dp=2", "f32", ONE), ("gpt2", "pp=2,dp=2", "bf16", ["--schedule=gpipe", *TWO]),
              ("gpt2", "pp=2,dp=2,tp=2", "f32", FOUR), ("gpt2", "dp=2,tp=2", "bf16", ONE), ("gpt2", "dp=2", "f16", TWO),
              ("gpt2", "dp=3", "f32", ONE), ("llama", "dp=2", "f32", TWO), ("llama", "dp=4", "bf16", ONE), ("mlp", "dp=4", "f32", ONE),
              ("conv-max-pool", "dp=2", "f32", ONE), ("conv-batch-norm", "dp=4", "bf16", ONE), ("alexnet", "dp=2", "f32", ONE),
              ("gpt2", "dp=2", "f32", ["--recompute=all", *TWO]), ("llama", "pp=2,dp=2", "f32", ["--recompute=2", *TWO])]
ADAMW = [("gpt2", "dp=2", "f32", TWO)]
WITH = [(*each, "sgd") for each in CASES] + [(*each, "adamw") for each in ADAMW]
jobs = [(train, case, "", "none", [], "f32", optimizer) for case, optimizer in dict.fromkeys((each[0], each[-1]) for each in WITH)]
jobs += [(train, case, mesh, zero, flags, precision, optimizer) for case, mesh, precision, flags, optimizer in WITH for zero in KINDS]
in_parallel(jobs)
for (case, mesh, zero, precision, optimizer, flags), found in losses.items():
    name = f"{case} {mesh} {zero} {precision} {optimizer} {' '.join(flags)}"
    one = losses[case, "", "none", "f32", optimizer, ()]
    checks.expect(f"{name}: the losses of one rank", len(found) == STEPS and
                  np.allclose(found, one, rtol=5e-5 if precision == "f32" else 2e-2), f"{found}\n{one}")
    plain = weights.get((case, mesh, "none", precision, optimizer, flags))
    # Adam divides a gradient by its size, so what rounding alone decides (biases of keys) moves by a step's length.
    if zero == "none" or plain is None or optimizer == "adamw":
        continue
    own = weights[case, mesh, zero, precision, optimizer, flags]
    moved = 1e-5 if precision == "f32" else 2e-3
    apart = {each: float(np.max(np.abs(own[each] - plain[each]), initial=0)) for each in plain}
    checks.expect(f"{name}: the parameters of the mesh without", own.keys() == plain.keys() and len(own) > 3 and
                  max(apart.values()) <= moved, f"{sorted(apart.items(), key=lambda each: -each[1])[:3]}")

# Taken up again, on the same mesh: the same bits as without a stop.
folder = INPUTS / "training/gpt2"
for zero in ("1", "3"):
    common = [folder / "model.onnx", "--dim=batch=8", "--batch-size=8", "--loss=cross_entropy(logits,labels)",
              "--optimizer=adamw,lr=0.01", f"--data={folder / 'data.npz'}", "--shuffle=off", "--threads=1", "--devices=cpu:2",
              "--mesh=dp=2", f"--zero={zero}", "--timeout=120"]
    runs = {"whole": ["--steps=4"], "first": ["--steps=2", f"--checkpoint-dir={OUT / f'kept{zero}'}", "--checkpoint-every=2"],
            "then": ["--steps=4", f"--checkpoint-dir={OUT / f'kept{zero}'}", "--resume"]}
    final = {}
    for run, flags in runs.items():
        kept = OUT / f"{run}{zero}.safetensors"
        result = kerf("train", *common, *flags, f"--save-safetensors={kept}", timeout=600)
        checks.expect(f"ZeRO {zero}: {run}", result.returncode == 0, result.stderr[:2000])
        final[run] = kept.read_bytes() if kept.exists() else b""
    checks.expect(f"ZeRO {zero}: the same bits", final["whole"] and final["whole"] == final["then"] != final["first"])
checks.finish()
