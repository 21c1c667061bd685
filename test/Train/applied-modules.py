# A module that is applied several times is one parameter of each name, as PyTorch's exporters say of each node what it
# reads: three steps of SGD give PyTorch's weights, for cells, layers and a bare parameter, with the optimizer of the
# exporter and without, and from the older one. Norms that an exporter has merged still come apart.
#
# REQUIRES: kerf, onnx, torch, onnxscript
# RUN: %python %s %t %inputs
import sys
import warnings

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
import onnx.numpy_helper
import torch
import torch.nn as nn
import torch.nn.functional as F

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
warnings.simplefilter("ignore")  # the older exporter is deprecated
checks = Checks()
torch.manual_seed(0)
BATCH, STEPS, RATE, LENGTH = 8, 3, 0.1, 4


class Applied(nn.Module):
    """`cell` at each place of a sequence."""

    def __init__(self, cell):
        super().__init__()
        self.cell, self.head = cell, nn.Linear(8, 5)

    def forward(self, x):
        h = c = torch.zeros(x.shape[0], 8)
        for place in range(LENGTH):
            if isinstance(self.cell, nn.LSTMCell):
                h, c = self.cell(x[:, place], (h, c))
            elif isinstance(self.cell, (nn.GRUCell, nn.RNNCell)):
                h = self.cell(x[:, place], h)
            else:
                h = torch.tanh(self.cell(x[:, place]) + h)
        return self.head(h)


class Norms(nn.Module):
    """Two norms, one of them applied twice, and a scale that is read twice."""

    def __init__(self):
        super().__init__()
        self.cell_1, self.cell, self.scale, self.head = nn.LayerNorm(8), nn.LayerNorm(8), nn.Parameter(torch.ones(8)), nn.Linear(8, 5)

    def forward(self, x):
        y = self.cell_1(torch.relu(self.cell(x)) * self.scale)
        return self.head(self.cell_1(y) * self.scale + x)


def train(name):
    return kerf("train", OUT / f"{name}.onnx", "--loss=cross_entropy(logits,labels)", f"--optimizer=sgd,lr={RATE}", "--shuffle=off",
                f"--data={OUT / 'data.npz'}", f"--batch-size={BATCH}", f"--steps={STEPS}", "--threads=1", "-o", OUT / "trained.onnx")


cells = {"lstm": nn.LSTMCell(6, 8), "gru": nn.GRUCell(6, 8), "rnn": nn.RNNCell(6, 8), "linear": nn.Linear(6, 8)}
models = {name: (Applied(cell), (LENGTH, 6)) for name, cell in cells.items()} | {"norms": (Norms(), (8,))}
for name, (model, shape) in models.items():
    model.eval()
    x, labels = torch.randn(STEPS * BATCH, *shape), torch.randint(0, 5, (STEPS * BATCH,))
    np.savez(OUT / "data.npz", x=x.numpy(), labels=labels.numpy())
    names = dict(input_names=["x"], output_names=["logits"])
    for optimize in (False, True):
        torch.onnx.export(model, (x[:2],), dynamo=True, optimize=optimize, verbose=False,
                          dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=4096)},), **names).save(OUT / f"{name}-{optimize}.onnx")
    axes = dict(dynamic_axes={"x": {0: "batch"}, "logits": {0: "batch"}}, dynamo=False)
    torch.onnx.export(model, (x[:2],), OUT / f"{name}-older.onnx", **axes, **names)
    torch.onnx.export(model, (x[:2],), OUT / f"{name}-training.onnx", training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      **axes, **names)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), labels[rows]).backward()
        optimizer.step()
    expected = {key: value.detach().numpy() for key, value in model.named_parameters()}
    for form in ("False", "True", "older", "training"):
        case = f"{name}-{form}"
        result = train(case)
        trained = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(OUT / "trained.onnx").graph.initializer} if result.returncode == 0 else {}
        if name == "norms" and form in ("True", "older"):  # merged: a second copy, for the norm and the scale that lost their names
            checks.expect(f"{case} comes apart", any(key.endswith(".2") for key in trained), f"{result.stderr}{sorted(trained)}")
            continue
        checks.expect(f"{case}: no parameter comes apart", "by itself" not in result.stderr and not any(
            key.rpartition(".")[0] in expected for key in trained), f"{result.stderr}{sorted(trained)}")
        checks.expect(f"{case}: nothing is doubted", "stored once" not in result.stderr, result.stderr)
        for key, value in expected.items():
            checks.expect(f"{case}: {key}", key in trained and np.allclose(trained[key], value, rtol=1e-4, atol=1e-6), trained.get(key))
checks.finish()
