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


class Deep(nn.Module):
    """A layer on three dimensions, applied at three depths: the default export folds its transpose each time. A head of no bias yet."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm, self.head = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 5)
        nn.init.zeros_(self.head.bias)
        nn.init.normal_(self.norm.weight)

    def forward(self, x):
        for _ in range(3):
            x = x + F.gelu(self.layer(self.norm(x)))
        return self.head(x[:, 0])


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

model, x = Deep().eval(), torch.randn(STEPS * BATCH, LENGTH, 8)
np.savez(OUT / "data.npz", x=x.numpy(), labels=labels.numpy())
torch.onnx.export(model, (x[:2],), dynamo=True, verbose=False, dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=4096)},),
                  **names).save(OUT / "deep.onnx")
file = onnx.load(OUT / "deep.onnx")
# As ALBERT's has them: one matrix for each application.
matrices = [n for n in file.graph.node if n.op_type == "MatMul"]
for number, node in enumerate(matrices[1:]):
    if node.input[1] == matrices[0].input[1]:
        copy = next(t for t in file.graph.initializer if t.name == node.input[1])
        file.graph.initializer.add().CopyFrom(copy)
        file.graph.initializer[-1].name = node.input[1] = f"val_{1000 + number}"
onnx.save(file, OUT / "deep.onnx")
folded = [node.input[1] for node in matrices]
checks.expect("deep: three matrices", len(set(folded)) == 3, folded)
optimizer = torch.optim.SGD([p for name, p in model.named_parameters() if name != "head.bias"], lr=RATE)
for step in range(STEPS):
    rows = slice(step * BATCH, (step + 1) * BATCH)
    optimizer.zero_grad()
    F.cross_entropy(model(x[rows]), labels[rows]).backward()
    optimizer.step()
result = train("deep")
trained = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(OUT / "trained.onnx").graph.initializer} if result.returncode == 0 else {}
checks.expect("deep: one is left", [name in trained for name in folded] == [True, False, False], f"{result.stderr}{sorted(trained)}")
checks.expect("deep: as PyTorch", folded[0] in trained and np.allclose(trained[folded[0]].T, model.layer.weight.detach().numpy(), rtol=1e-4, atol=1e-6))
checks.expect("deep: what is left out is named", 'not in the file, so not trained as PyTorch trains them: "head.bias" (' in result.stderr and
              "stored once" not in result.stderr, result.stderr)
onnx.checker.check_model(onnx.load(OUT / "trained.onnx"))
checks.finish()
