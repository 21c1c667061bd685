#!/usr/bin/env python3
"""bench/speed_models.py DIR [NAME ...]

Exports the models of bench/inference that test/Inputs/models/make_large.py does not write down: DIR/NAME/model.onnx
with random weights (export.py's: none trivial, activations near 1) beside DIR/NAME/batch1/inputs/*.npy. Needs
requirements-bench.txt; bench/inference runs it where a model is not there yet.
"""
import argparse
import pathlib
import shutil
import sys

import numpy as np
import torch
import transformers
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test/Inputs/models"))
import export as exporter  # noqa: E402
from export import Bert, array, sentences, torchvision_model  # noqa: E402


class Unet(nn.Module):
    """Ronneberger et al. with padded convolutions and batch norms: five levels of twice the channels each."""

    def __init__(self, width=32, levels=5, classes=2):
        super().__init__()

        def block(inputs, outputs):
            layers = []
            for n in (inputs, outputs):
                layers += [nn.Conv2d(n, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
            return nn.Sequential(*layers)

        widths = [width << level for level in range(levels)]
        self.down = nn.ModuleList(block(a, b) for a, b in zip([3, *widths], widths))
        self.widen = nn.ModuleList(nn.ConvTranspose2d(2 * n, n, 2, stride=2) for n in reversed(widths[:-1]))
        self.up = nn.ModuleList(block(2 * n, n) for n in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, image):
        kept, x = [], image
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = torch.max_pool2d(x, 2)
        x = kept.pop()
        for widen, block in zip(self.widen, self.up):
            x = block(torch.cat([kept.pop(), widen(x)], 1))
        return self.head(x)


class WhisperEncoder(nn.Module):
    """Whisper base: 30 seconds of sound as 3000 frames of 80 bands, 6 layers of 512."""

    def __init__(self):
        super().__init__()
        from transformers.models.whisper.modeling_whisper import WhisperEncoder as Encoder
        self.model = Encoder(transformers.WhisperConfig(
            d_model=512, encoder_layers=6, encoder_attention_heads=8, encoder_ffn_dim=2048, decoder_layers=6))

    def forward(self, input_features):
        return self.model(input_features, return_dict=False)[0]


IMAGE = array("image", 3, 224, 224)
MODELS = {
    "vit-b": (torchvision_model("vit_b_16"), IMAGE, ["logits"]),
    "mobilenet-v3": (torchvision_model("mobilenet_v3_large"), IMAGE, ["logits"]),
    "efficientnet-b0": (torchvision_model("efficientnet_b0"), IMAGE, ["logits"]),
    "convnext-tiny": (torchvision_model("convnext_tiny"), IMAGE, ["logits"]),
    "swin-tiny": (torchvision_model("swin_t"), IMAGE, ["logits"]),
    "unet": (Unet, array("image", 3, 256, 256), ["mask"]),
    "whisper-base": (WhisperEncoder, array("input_features", 80, 3000), ["last_hidden_state"]),
    "minilm": (lambda: Bert(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536),
               sentences(30522, 128), ["last_hidden_state", "pooler_output"]),
}


def export(name, folder):
    make, make_inputs, outputs = MODELS[name]
    torch.manual_seed(exporter.SEED)
    model = exporter.randomise(make())
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "batch1/inputs").mkdir(parents=True)
    for key, value in make_inputs(1, exporter.generator(f"inputs of {name}")).items():
        np.save(folder / f"batch1/inputs/{key}.npy", value)
    example = {k: torch.from_numpy(v) for k, v in make_inputs(2, exporter.generator("example")).items()}
    batch = torch.export.Dim("batch", min=1, max=4096)
    path = folder / "exported.onnx"
    torch.onnx.export(model, tuple(example.values()), str(path), dynamo=True, external_data=True, verbose=False,
                      input_names=list(example), output_names=outputs,
                      dynamic_shapes=tuple({0: batch} for _ in example))
    exporter.strip(path)
    path.rename(folder / "model.onnx")  # last: a folder that has it is complete


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)} (default: all)")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(MODELS):
        parser.error(f"unknown models {sorted(unknown)}, expected some of {', '.join(MODELS)}")
    for name in arguments.names or MODELS:
        if not (arguments.folder / name / "model.onnx").exists():
            print(f"exporting {name}", file=sys.stderr, flush=True)
            export(name, arguments.folder / name)


if __name__ == "__main__":
    main()
