# A batch that the data-parallel ranks do not divide is filled up, also where samples and tokens are joined in one
# dimension: no activation moves for it, so the bytes are those of the filled batch; some ranks may be left without
# samples. Losses, weights and states are those of one device, whatever the batch and the mesh. Not filled up are
# micro-batches, and a note says so.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
from kerf_tests import Checks, fresh_folder, in_parallel, kerf

OUT = fresh_folder(sys.argv[1])
STEP = ["--train", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1,momentum=0.9"]
checks = Checks()


def model(name):
    return INPUTS / "training" / name / "model.onnx"


def cut(mesh):
    ranks = 1
    for axis in mesh.split(","):
        ranks *= int(axis.split("=")[1])
    return [f"--devices=cpu:{ranks}", f"--mesh={mesh}"]


def planned(name, batch, mesh):
    """Bytes of activations and of everything that the busiest rank sends."""
    path = OUT / f"{name}-{batch}-{mesh}.json"
    result = kerf("plan", model(name), f"--dim=batch={batch}", *STEP, *cut(mesh), "--objective=volume", "-o", path)
    checks.expect(f"plan {name}, {batch} samples, {mesh}", result.returncode == 0, result.stderr)
    sent = json.loads(path.read_text())["communication"]
    return sent["by_purpose"].get("activation", 0), sent["bytes_per_rank"]


def verify(name, batch, mesh, *flags):
    result = kerf("verify", model(name), f"--dim=batch={batch}", *STEP, "--steps=3", *cut(mesh), "--threads=1", *flags)
    title = f"{name}, {batch} samples, {mesh} {' '.join(flags)}"
    checks.expect(title, result.returncode == 0 and "bytes sent as planned" in result.stdout, result.stdout + result.stderr)
    if not flags:
        checks.expect(f"{title}: is filled up", "padding, computed and thrown away" in result.stderr, result.stderr)


for name in ("gpt2", "llama"):
    for batch, mesh in ((7, "dp=2"), (8, "dp=3"), (5, "dp=4"), (3, "dp=4")):
        ranks = int(mesh.split("=")[1])
        odd, even = planned(name, batch, mesh), planned(name, -(-batch // ranks) * ranks, mesh)
        # What the losses of padded rows are masked with is a handful of numbers.
        checks.expect(f"{name}, {batch} samples, {mesh}: bytes", odd[0] <= even[0] and odd[1] <= even[1] * 1.01, f"{odd} {even}")

cases = [("gpt2", 7, "dp=2"), ("llama", 5, "dp=4"), ("gpt2", 3, "dp=4", "--zero=3"), ("conv-batch-norm", 5, "dp=3"),
         ("gpt2", 5, "dp=2,tp=2", "--solver=random", "--seed=2"), ("gpt2", 7, "dp=2,tp=2", "--solver=random", "--seed=3")]
in_parallel([(verify, *case) for case in cases])

result = kerf("plan", model("gpt2"), "--dim=batch=10", *STEP, *cut("dp=4"), "--micro-batches=2")
checks.expect("micro-batches", "nothing is cut over dp=4: all devices along it compute the same; a micro-batch of 5 samples does "
              "not divide into 4, and only a batch without micro-batches is filled up" in result.stderr, result.stderr)
result = kerf("plan", model("gpt2"), "--dim=batch=3", *cut("dp=8"))
checks.expect("too few samples", "nothing is cut over dp=8: all devices along it compute the same; dp cuts the batch alone, and 3 samples are "
              "filled up to at most 5" in result.stderr and "what any cut saves" not in result.stdout, result.stdout + result.stderr)
checks.finish()
