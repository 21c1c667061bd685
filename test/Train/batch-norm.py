# --batch-norm=local is PyTorch's DistributedDataParallel without SyncBatchNorm, losses over 100 steps
# and running statistics (the mean of the processes'); frozen is PyTorch with BatchNorm in eval mode.
# With --all every mesh with both optimizers, otherwise with one of them in turn.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
from curves import BAR, flags_of, losses_of
from kerf_tests import Checks, fresh_folder, kerf, tensors

OUT = fresh_folder(sys.argv[1])
CASE = INPUTS / "training/conv-batch-norm"
curves = json.loads((CASE / "batch-norm.json").read_text())
sync = json.loads((CASE / "curves.json").read_text())
checks = Checks()


def train(name, optimizer, flags):
    log = OUT / f"{name}.jsonl"
    result = kerf("train", CASE / "model.onnx", "--batch-size=16", "--loss=cross_entropy(logits,labels)",
                  f"--optimizer={flags_of(optimizer, sync['rate'])}", f"--data={CASE / 'data.npz'}", "--shuffle=off",
                  "--threads=1", "--no-output", f"--log={log}", *flags)
    checks.expect(f"{name} runs", result.returncode == 0, result.stderr)
    return losses_of(log) if log.exists() else []


def difference(a, b):
    return max((abs(x - y) / abs(y) for x, y in zip(a, b)), default=1)


def compare(name, optimizer, expected, flags):
    losses = train(name, optimizer, [*flags, "--steps=100"])
    bar, far = max(BAR, 2 * expected["spread"]), difference(losses, expected["losses"])
    print(f"{name}: largest relative difference {far:.1e}, bar {bar:.1e}")
    checks.expect(name, len(losses) == 100 and far <= bar, f"{far}, bar {bar}")
    # Other statistics make another curve, so that the comparison can fail.
    other = sync["micro_batches"]["1"][optimizer]["losses"]
    checks.expect(f"{name} is not sync", difference(losses, other) > 10 * bar, str(difference(losses, other)))


for number, optimizer in enumerate(("sgd", "adamw")):
    def is_taken(turn):
        return "--all" in sys.argv or turn % 2 == number

    for turn, mesh in enumerate(([], ["--devices=cpu:2", "--mesh=dp=2"], ["--devices=cpu:2", "--mesh=tp=2"])):
        if not is_taken(turn):
            continue
        compare(f"frozen-{optimizer}-{'-'.join(mesh[1:])[7:] or 'one'}", optimizer, curves["frozen"][optimizer],
                ["--batch-norm=frozen", *mesh])
    for turn, ranks in enumerate(("2", "4")):
        if not is_taken(turn):
            continue
        local = ["--batch-norm=local", f"--devices=cpu:{ranks}", f"--mesh=dp={ranks}"]
        compare(f"local-{optimizer}-{ranks}", optimizer, curves["local"][ranks][optimizer], local)
    # What tensor parallelism cuts is one device's part still.
    if is_taken(1):
        compare(f"local-{optimizer}-dp2-tp2", optimizer, curves["local"]["2"][optimizer],
                ["--batch-norm=local", "--devices=cpu:4", "--mesh=dp=2,tp=2"])

for ranks in ("2", "4"):
    weights = OUT / f"local-{ranks}.safetensors"
    train(f"running-{ranks}", "sgd", ["--batch-norm=local", f"--devices=cpu:{ranks}", f"--mesh=dp={ranks}", "--steps=3",
                                      f"--save-safetensors={weights}"])
    found = {name: values.tolist() for name, values in tensors(weights).items()} if weights.exists() else {}
    for name, values in curves["local"][ranks]["running"].items():
        if isinstance(values, list):
            checks.expect(f"{name} on {ranks}", all(abs(a - b) <= 2e-6 * (1 + abs(b)) for a, b in zip(
                found.get(name, [9e9]), values)), f"{found.get(name)}, expected {values}")
checks.finish()
