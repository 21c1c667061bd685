# A loss that is not finite, on every kind of mesh: the run stops with the step's number and writes no model, or leaves
# that step out, then on every rank: the losses before and after are those of one rank, and the weights are finite.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np

from curves import PINS
from kerf_tests import Checks, expect_error, fresh_folder, in_parallel, kerf, tensors

OUT = fresh_folder(sys.argv[1])
MLP = INPUTS / "training/mlp"
STEPS, BAD = 9, 3  # the third step's batch has sample 37
checks = Checks()
arrays = dict(np.load(MLP / "data.npz"))
arrays["x"] = arrays["x"].copy()
arrays["x"][37] = np.nan
np.savez(OUT / "bad.npz", **arrays)
TP = PINS["mlp", "tp"]
MESHES = {"one": [], "accumulate": ["--accumulate=4"], "dp=2": ["--devices=cpu:2"], "dp=3": ["--devices=cpu:3"],
          "tp=2": ["--devices=cpu:2", *TP], "pp=2": ["--devices=cpu:2", "--micro-batches=4", "--schedule=1f1b"],
          "pp=2,dp=2": ["--devices=cpu:4", "--micro-batches=2", "--schedule=gpipe"],
          "dp=2,tp=2,pp=2": ["--devices=cpu:8", "--micro-batches=2", *TP]}


def command(mesh, *flags):
    return ["train", MLP / "model.onnx", "--batch-size=16", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=0.01",
            f"--data={OUT / 'bad.npz'}", "--shuffle=off", f"--steps={STEPS}", "--threads=1", *MESHES[mesh],
            *([f"--mesh={mesh}"] if "=" in mesh else []), *flags]


def all_numbers(weights):
    return np.concatenate(list(tensors(weights).values()))


found = {}


def skip(mesh):
    log, weights = OUT / f"{mesh}.jsonl", OUT / f"{mesh}.safetensors"
    result = kerf(*command(mesh, "--on-nan=skip", f"--log={log}", f"--save-safetensors={weights}"))
    checks.expect(f"{mesh} skips", result.returncode == 0 and "1 step skipped" in result.stdout, result.stdout + result.stderr)
    if result.returncode:
        return
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    checks.expect(f"{mesh}: which step", [line["step"] for line in lines if line.get("skipped")] == [BAD], str(lines))
    found[mesh] = [line["loss"] for line in lines if not line.get("skipped")], all_numbers(weights)


def stop(mesh):
    trained = OUT / f"{mesh}-stopped.onnx"
    expect_error(checks, f"{mesh} stops", command(mesh, "-o", trained), 5, [f"step {BAD}: the loss is nan"], absent=[trained])


in_parallel([(function, mesh) for mesh in MESHES for function in (skip, stop)])
for mesh, (losses, weights) in found.items():
    expected, _ = found["one"]
    checks.expect(f"{mesh}: the losses of one rank", len(losses) == STEPS - 1 and np.allclose(losses, expected, rtol=1e-5),
                  f"{losses}\n{expected}")
    checks.expect(f"{mesh}: finite weights", np.isfinite(weights).all() and np.allclose(weights, found["one"][1], atol=1e-4))
# The step that is left out counts for nothing: a run on data without its batch ends with the same weights.
rows = [row for row in range(len(arrays["x"])) if not 16 * (BAD - 1) <= row < 16 * BAD]
np.savez(OUT / "bad.npz", **{key: value[rows] for key, value in arrays.items()})
log, weights = OUT / "without.jsonl", OUT / "without.safetensors"
short = [argument for argument in command("one") if argument != f"--steps={STEPS}"]
result = kerf(*short, "--on-nan=skip", f"--steps={STEPS - 1}", f"--log={log}", f"--save-safetensors={weights}")
checks.expect("without that batch", result.returncode == 0, result.stderr)
if result.returncode == 0:
    losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
    same = np.array_equal(all_numbers(weights), found["one"][1])
    checks.expect("as if it had not been", losses == found["one"][0] and same, f"{losses}\n{found['one'][0]}")
# Where the first step is left out, the losses that a run shows begin with the next.
arrays["x"][3] = np.nan
np.savez(OUT / "bad.npz", **arrays)
result = kerf(*command("one", "--on-nan=skip", f"--log={OUT / 'late.jsonl'}", "--no-output"))
second = [json.loads(line)["loss"] for line in (OUT / "late.jsonl").read_text().splitlines()][1]
checks.expect("the first loss is of step 2", f"loss {second:.6g} (of step 2, the first with a finite one) -> " in result.stdout, result.stdout + result.stderr)
summary = json.loads(kerf(*command("one", "--on-nan=skip", "--no-output", "--json")).stdout)
# A mean over no label is no number: a batch, or all data, of labels that are ignored.
ignored = dict(np.load(MLP / "data.npz"))
for name, rows, code, said in (("a batch", slice(32, 48), 5,
                                'step 3: the loss is nan; no label of the batch counts: all of "labels" are -100 (ignore_index), nothing'),
                               ("all", slice(None), 2, 'none.npz: no label counts: all of "labels" are -100 (ignore_index)')):
    ignored["labels"] = ignored["labels"].copy()
    ignored["labels"][rows] = -100
    np.savez(OUT / "none.npz", **ignored)
    result = kerf(*(argument if not str(argument).startswith("--data=") else f"--data={OUT / 'none.npz'}" for argument in command("one", "--no-output")))
    checks.expect(f"ignored labels of {name}", result.returncode == code and said in result.stderr, result.stderr)
checks.expect("in JSON, too", np.isclose(summary["first_loss"], second, rtol=1e-5), [summary, second])
checks.finish()
