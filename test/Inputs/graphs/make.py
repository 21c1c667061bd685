#!/usr/bin/env python3
"""Exports the graphs of full-size models, without their weights.

    make.py [NAME ...]      NAME/model.onnx beside this script (committed)

What a plan costs follows from shapes alone, so the files of external data are
deleted and `kerf plan` does without them. Needs torch 2.15, torchvision,
transformers, onnx; the test suite needs none of them.
"""
import pathlib
import sys
import tempfile

import onnx
import torch
import torchvision
from torch import nn

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "models"))
from export import Gpt2, randomise, strip  # noqa: E402

image = lambda: torch.zeros(2, 3, 224, 224)
GRAPHS = {
    "alexnet": (lambda: torchvision.models.alexnet(), "image", image),
    "vgg16": (lambda: torchvision.models.vgg16(), "image", image),
    "resnet50": (lambda: torchvision.models.resnet50(), "image", image),
    "gpt2-124m": (lambda: Gpt2(), "input_ids", lambda: torch.zeros(2, 1024, dtype=torch.int64)),
}


def keep_integers(path):
    """Shapes may depend on integers: they move into the model's own file."""
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL and (
                tensor.data_type != onnx.TensorProto.FLOAT or list(tensor.dims) == []):
            onnx.external_data_helper.load_external_data_for_tensor(tensor, str(path.parent))
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]
    path.write_bytes(model.SerializeToString(deterministic=True))


def write(make, inputs, folder):
    """folder/model.onnx: the graph of a model, whose output is `logits`; `inputs`: a batch of two by name."""
    # The exporter merges parameters of equal content: all zero biases into one.
    model = randomise(make())
    # The exporter folds BatchNorm away unless it is told not to optimise a model in training mode.
    norms = any(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    batch = torch.export.Dim("batch", min=2, max=65536)
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "model.onnx"
        torch.onnx.export(model.train(norms), tuple(inputs.values()), str(path), dynamo=True, external_data=True,
                          optimize=not norms, input_names=list(inputs), output_names=["logits"],
                          dynamic_shapes=tuple({0: batch} for _ in inputs))
        keep_integers(path)
        strip(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(path.read_bytes())


if __name__ == "__main__":
    for each in sys.argv[1:] or GRAPHS:
        make, key, example = GRAPHS[each]
        write(make, {key: example()}, HERE / each)
