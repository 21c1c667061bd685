# Running statistics of BatchNorm after 3 steps are PyTorch's: of a batch in 1, 2 and 4 micro-batches,
# on one device, two and in two stages.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import json
import pathlib
import subprocess
import sys

out, inputs = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(inputs))
from kerf_tests import tensors

case = inputs / "training/conv-batch-norm"
expected = json.loads((inputs / "autodiff/running.json").read_text())

for count, mesh in (("1", "dp=1"), ("1", "dp=2"), ("2", "pp=2"), ("4", "dp=2")):
    devices = mesh[-1]
    subprocess.run(["kerf", "train", case / "model.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.05",
                    f"--data={case / 'data.npz'}", "--batch-size=16", "--steps=3", "--shuffle=off", "-q", "--threads=1",
                    f"--accumulate={count}", f"--devices=cpu:{devices}", f"--mesh={mesh}", "-o", f"{out}.onnx",
                    f"--save-safetensors={out}.safetensors"], check=True)
    found = tensors(f"{out}.safetensors")
    for name, values in expected[count].items():
        for a, b in zip(found[name].tolist(), values, strict=True):
            assert abs(a - b) <= 2e-6 * (1 + abs(b)), f"{count} micro-batches on {mesh}: {name} is {a}, expected {b}"

# What statistics are taken of is no statistic, and neither is its gradient: stages hand on activations.
for mesh, purposes in (("pp=5", {"activation"}), ("dp=2", {"statistics", "activation", "gradient"})):
    plan = json.loads(subprocess.run(["kerf", "plan", case / "model.onnx", "--dim=batch=16", "--train", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd",
                                      f"--devices=cpu:{mesh[-1]}", f"--mesh={mesh}", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    found = {each["purpose"] for each in plan["communication"]["collectives"]}
    assert found == purposes, f"{mesh}: {found}, expected {purposes}"
    # Of a norm's channels, the loss and labels.
    assert all(each["group_bytes"] <= 128 for each in plan["communication"]["collectives"] if each["purpose"] == "statistics"), mesh
