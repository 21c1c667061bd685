"""From PyTorch to ONNX, through kerf train, and back into the state_dict. Needs torch, onnxscript,
onnx, numpy, and kerf on PATH."""
import re
import subprocess

import numpy as np
import onnx
import torch

model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 5)).eval()
x, labels = torch.randn(256, 20), torch.randint(0, 5, (256,))
loss_before = torch.nn.functional.cross_entropy(model(x), labels).item()

program = torch.onnx.export(model, (x[:2],), input_names=["x"], output_names=["logits"], dynamo=True, optimize=False,
                            dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=4096)},))
program.save("model.onnx", external_data=False)
np.savez("train.npz", x=x.numpy(), labels=labels.numpy())
frozen = [re.escape(name) for name, p in model.named_parameters(remove_duplicate=False) if not p.requires_grad]  # no file says it
subprocess.run(["kerf", "train", "model.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=1e-2",
                "--data=train.npz", "--batch-size=32", "--epochs=20", "-o", "trained.onnx",
                *([f"--frozen={'|'.join(frozen)}"] if frozen else [])], check=True)

trained = {t.name: torch.from_numpy(onnx.numpy_helper.to_array(t).copy()) for t in onnx.load("trained.onnx").graph.initializer}
apart = [name for name in trained if name.rpartition(".")[0] in trained]
assert not apart, f"equal weights that the export has merged are trained apart: {apart}; optimize=False keeps all (or kerf train --tied=NAME)"
first = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load("model.onnx").graph.initializer}
state = model.state_dict()
tied = {t.data_ptr(): name for name, t in state.items() if name in trained}  # the file has one of their names
stored = {name: tied.get(t.data_ptr(), name) for name, t in state.items()}
gone = [name for name, _ in model.named_parameters() if stored[name] not in trained]
assert not gone, f"not in the file: {gone}; folded into other weights (optimize=False keeps them), or no output needs them"
lost = [name for name, t in trained.items() if name in first and name not in state and (t.numpy() != first[name]).any()]
assert not lost, f"not in the state_dict: {lost}; weights keep their names with optimize=False, and --frozen leaves buffers as they are"
model.load_state_dict({name: trained[own] for name, own in stored.items() if own in trained}, strict=False)  # no graph has counters

loss_after = torch.nn.functional.cross_entropy(model(x), labels).item()
print(f"loss {loss_before:.3f} -> {loss_after:.3f}")
assert loss_after < loss_before
