# What docs/Train.md says of PyTorch's older exporter: in training form, without folding, BatchNorm and Dropout stay, and
# three steps give PyTorch's losses, weights and running statistics; with --as-inference it runs by the latter. Without these flags a
# BatchNorm behind a convolution is gone, and its names with it.
#
# REQUIRES: kerf, onnx, torch
# RUN: %python %s %t %inputs
import json
import sys
import warnings

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
import onnx.numpy_helper
import torch
import torch.nn as nn
import torch.nn.functional as F

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
warnings.simplefilter("ignore")  # it is deprecated
checks = Checks()
torch.manual_seed(0)
BATCH, STEPS, RATE = 8, 3, 0.1
# Dropout of nothing is in the graph, and draws nothing that PyTorch would have to draw as well.
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.0), nn.Linear(8 * 36, 5))
x, labels = torch.randn(STEPS * BATCH, 3, 6, 6), torch.randint(0, 5, (STEPS * BATCH,))
NAMES = dict(input_names=["x"], output_names=["logits"], dynamic_axes={"x": {0: "batch"}, "logits": {0: "batch"}}, dynamo=False)
model.train()
torch.onnx.export(model, (x[:2],), OUT / "model.onnx", training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, **NAMES)
model.eval()
torch.onnx.export(model, (x[:2],), OUT / "folded.onnx", **NAMES)
names = {each.name for each in onnx.load(OUT / "folded.onnx").graph.initializer}
checks.expect("what is folded", not any(name.startswith("1.") for name in names), names)
np.savez(OUT / "train.npz", x=x.numpy(), labels=labels.numpy())
np.save(OUT / "x.npy", x[:BATCH].numpy())

# The export itself runs in training mode and so moves the running statistics; the file has them from before.
stored = {each.name: torch.from_numpy(onnx.numpy_helper.to_array(each).copy()) for each in onnx.load(OUT / "model.onnx").graph.initializer}
state = model.state_dict()
checks.expect("names of the state_dict", set(stored) >= {name for name in state if not name.endswith("num_batches_tracked")}, set(stored))
model.load_state_dict({name: stored[name] for name in stored if name in state}, strict=False)
before = {name: value.clone() for name, value in model.state_dict().items()}
with torch.no_grad():
    inference = model.eval()(x[:BATCH]).numpy()
model.train()
optimizer, losses = torch.optim.SGD(model.parameters(), lr=RATE), []
for step in range(STEPS):
    rows = slice(step * BATCH, (step + 1) * BATCH)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x[rows]), labels[rows])
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

for plan in (["--devices=cpu:1"], ["--devices=cpu:2", "--mesh=dp=2"], ["--devices=cpu:2", "--mesh=tp=2"]):
    run = kerf("train", OUT / "model.onnx", "--loss=cross_entropy(logits,labels)", f"--optimizer=sgd,lr={RATE}", "--shuffle=off",
               f"--data={OUT / 'train.npz'}", f"--batch-size={BATCH}", f"--steps={STEPS}", f"--log={OUT / 'log.jsonl'}",
               "-o", OUT / "trained.onnx", *plan)
    checks.expect(f"{plan} trains", run.returncode == 0, run.stderr)
    if run.returncode:
        continue
    found = [json.loads(line)["loss"] for line in (OUT / "log.jsonl").read_text().splitlines() if '"loss"' in line]
    (OUT / "log.jsonl").unlink()
    checks.expect(f"{plan}: losses", np.allclose(found, losses, rtol=1e-5), f"{found} {losses}")
    trained = {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(OUT / "trained.onnx").graph.initializer}
    for name, value in model.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        moved = abs((value - before[name]).numpy()).max()
        checks.expect(f"{plan}: {name}", moved > 0 and abs(trained[name] - value.numpy()).max() <= 1e-3 * moved, f"{trained[name]} {value}")

run = kerf("run", OUT / "model.onnx", f"--input=x=@{OUT / 'x.npy'}")
checks.expect("by the statistics of the batch, which is said", run.returncode == 0 and "--as-inference" in run.stderr, run.stderr)
run = kerf("run", OUT / "model.onnx", f"--input=x=@{OUT / 'x.npy'}", "--as-inference", f"--output-dir={OUT / 'out'}")
checks.expect("as inference", run.returncode == 0 and np.allclose(np.load(OUT / "out/logits.npy"), inference, atol=1e-5), run.stderr)
expect_error(checks, "statistics of a folded norm", ["train", OUT / "folded.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd",
             f"--data={OUT / 'train.npz'}", f"--batch-size={BATCH}", "--batch-norm=frozen", "-o", OUT / "x.onnx"], 2,
             ["--batch-norm: the model has no BatchNormalization"])
checks.finish()
