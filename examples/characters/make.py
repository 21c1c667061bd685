#!/usr/bin/env python3
"""Exports model.onnx: a small GPT-2 over characters, untrained.

128 characters, 64 positions, width 64, 4 heads, 2 layers; the embedding is also
the head. Needs torch 2.15 and transformers; using the example needs neither.
"""
import pathlib
import sys

import onnxscript.optimizer
import torch
import transformers

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent / "test" / "Inputs" / "models"))
from export import Gpt2, strip  # noqa: E402

transformers.set_seed(1)
model = Gpt2(vocab_size=128, n_positions=64, n_embd=64, n_layer=2, n_head=4).eval()
# The exporter merges parameters of equal content: make the zeros and ones of biases and norms differ.
with torch.no_grad():
    for parameter in model.parameters():
        parameter += 1e-3 * torch.randn_like(parameter)
program = torch.onnx.export(model, (torch.zeros(2, 64, dtype=torch.int64),), dynamo=True, optimize=False,
                            input_names=["input_ids"], output_names=["logits"],
                            dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=4096)},))
# The optimizer would also replace small weights by what is computed from them (a tied weight by two).
onnxscript.optimizer.optimize(program.model, input_size_limit=100, output_size_limit=100)
program.save(HERE / "model.onnx", external_data=False)
strip(HERE / "model.onnx")
