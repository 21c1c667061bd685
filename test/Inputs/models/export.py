#!/usr/bin/env python3
"""Exports the models of the tests with PyTorch and records ONNX Runtime's numbers.

    export.py [NAME ...]              the small models, beside this script (committed)
    export.py --large DIR [NAME ...]  the full-size ones, into DIR (never committed)
    export.py --large DIR --initial   with the weights that PyTorch starts from

Each model is a folder: model.onnx as torch.onnx.export(..., dynamo=True) writes
it, inputs/NAME.npy and outputs/NAME.npy (one pair of folders per batch size for
the large ones: batch1/, batch4/). Weights are random, but no bias, norm or
statistic is left at 0 or 1: a dropped addition must show. Everything follows
from the seed and the parameters' names. At full size these weights make GPT-2's
logits as large as 48, where ONNX Runtime itself is further than the tests' bar
from float64 near zero; --initial leaves PyTorch's initialisation. Needs torch 2.15, torchvision,
transformers, onnx and onnxruntime; the test suite itself needs none but the
last two.
"""
import argparse
import hashlib
import math
import pathlib
import shutil
import sys

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from torch import nn

SEED = 20260101


def generator(name):
    """A random stream of its own for everything that has a name."""
    digest = hashlib.sha256(f"{SEED}/{name}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def randomise(model):
    """Fills parameters and statistics so that activations stay near 1 and none is trivial."""
    seen = set()
    with torch.no_grad():
        for prefix, module in model.named_modules():
            for leaf, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
                if tensor.data_ptr() in seen or not tensor.is_floating_point():
                    continue
                seen.add(tensor.data_ptr())
                normal = generator(f"{prefix}.{leaf}").standard_normal(tuple(tensor.shape))
                if leaf == "running_var":
                    value = 0.5 + np.abs(normal)
                elif leaf in ("bias", "running_mean"):
                    value = 0.1 * normal
                elif isinstance(module, nn.Embedding):
                    value = normal / math.sqrt(tensor.shape[1])
                elif tensor.ndim < 2:
                    value = 1 + 0.1 * normal
                else:
                    # Linear and convolution are [out, in, ...]; GPT-2's Conv1D is [in, out].
                    fan_in = tensor.shape[0] if type(module).__name__ == "Conv1D" else math.prod(tensor.shape[1:])
                    value = normal / math.sqrt(fan_in)
                tensor.copy_(torch.from_numpy(np.asarray(value, np.float32)))
    return model.eval()


class Mlp(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.nn.functional.gelu(layer(x))
        return self.layers[-1](x)


class ConvNet(nn.Module):
    """Strided and grouped convolutions, both poolings, local response normalisation: AlexNet in small."""

    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 12, 5, stride=2, padding=2)
        self.lrn = nn.LocalResponseNorm(5)
        self.conv2 = nn.Conv2d(12, 24, 3, padding=1, groups=2)
        self.conv3 = nn.Conv2d(24, 20, 3, padding=1)
        self.fc1 = nn.Linear(20 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, classes)

    def forward(self, image):
        x = self.lrn(torch.relu(self.conv1(image)))
        x = torch.max_pool2d(x, 3, stride=2, padding=1)
        x = torch.relu(self.conv2(x))
        x = torch.nn.functional.avg_pool2d(torch.relu(self.conv3(x)), 2, stride=2)
        return torch.softmax(self.fc2(torch.relu(self.fc1(x.flatten(1)))), 1)


class Gpt2(nn.Module):
    def __init__(self, **sizes):
        super().__init__()
        self.model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            bos_token_id=0, eos_token_id=0, use_cache=False, **sizes))

    def forward(self, input_ids):
        return self.model(input_ids, use_cache=False, return_dict=False)[0]


class Bert(nn.Module):
    def __init__(self, **sizes):
        super().__init__()
        self.model = transformers.BertModel(transformers.BertConfig(**sizes))

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids,
                          return_dict=False)


def tokens(vocabulary, length):
    return lambda batch, random: {"input_ids": random.integers(0, vocabulary, (batch, length))}


def sentences(vocabulary, length):
    """Token pairs of different lengths: the mask and the types do something."""
    def make(batch, random):
        ends = random.integers(length // 2, length + 1, (batch, 1))
        positions = np.arange(length)
        return {"input_ids": random.integers(0, vocabulary, (batch, length)),
                "attention_mask": (positions < ends).astype(np.int64),
                "token_type_ids": (positions >= ends // 2).astype(np.int64)}
    return make


def array(name, *shape):
    return lambda batch, random: {name: random.standard_normal((batch, *shape)).astype(np.float32)}


def resnet_small():
    from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet
    net = ResNet(Bottleneck, [1, 1, 1, 1], num_classes=10, width_per_group=16)
    # The same structure, narrow: 8 to 64 planes in place of 64 to 512.
    net.inplanes = 8
    net.conv1 = nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False)
    net.bn1 = nn.BatchNorm2d(8)
    net.layer1 = net._make_layer(Bottleneck, 8, 1)
    net.layer2 = net._make_layer(Bottleneck, 12, 2, stride=2)
    net.layer3 = net._make_layer(BasicBlockOf(BasicBlock), 48, 1, stride=1)
    net.layer4 = nn.Identity()
    net.fc = nn.Linear(48, 10)
    return net


def BasicBlockOf(block):
    """ResNet's 3x3 block checks for the standard width; the factor is all it needs here."""
    class Block(block):
        def __init__(self, inplanes, planes, stride=1, downsample=None, groups=1, base_width=64, dilation=1,
                     norm_layer=None):
            super().__init__(inplanes, planes, stride, downsample, 1, 64, dilation, norm_layer)
    return Block


def torchvision_model(name, **options):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(weights=None, **options)
    return make


def vit_small():
    from torchvision.models.vision_transformer import VisionTransformer
    return VisionTransformer(image_size=16, patch_size=4, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64,
                             num_classes=10)


# name -> (module, inputs, output names)
SMALL = {
    "mlp": (lambda: Mlp([32, 96, 80, 24]), array("x", 32), ["logits"]),
    "gpt2-small": (lambda: Gpt2(vocab_size=256, n_positions=16, n_embd=64, n_layer=2, n_head=4),
                   tokens(256, 16), ["logits"]),
    # Nothing divides: 6 heads, a prime vocabulary, 13 tokens, an inner size of 200.
    "gpt2-odd": (lambda: Gpt2(vocab_size=211, n_positions=24, n_embd=54, n_layer=2, n_head=6, n_inner=200),
                 tokens(211, 13), ["logits"]),
    "bert-small": (lambda: Bert(vocab_size=150, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
                                intermediate_size=96, max_position_embeddings=24),
                   sentences(150, 16), ["last_hidden_state", "pooler_output"]),
    "convnet": (lambda: ConvNet(10), array("image", 3, 32, 32), ["probabilities"]),
    "resnet-small": (resnet_small, array("image", 3, 32, 32), ["logits"]),
    "vit-small": (vit_small, array("image", 3, 16, 16), ["logits"]),
}
LARGE = {
    "gpt2-124m": (lambda: Gpt2(), tokens(50257, 128), ["logits"]),
    # Training at full length, for speed alone (bench/gpu): nothing is recorded.
    "gpt2-124m-1024": (lambda: Gpt2(), tokens(50257, 1024), ["logits"]),
    "bert-base": (lambda: Bert(), sentences(30522, 128), ["last_hidden_state", "pooler_output"]),
    "resnet50": (torchvision_model("resnet50"), array("image", 3, 224, 224), ["logits"]),
    "vit-b": (torchvision_model("vit_b_16"), array("image", 3, 224, 224), ["logits"]),
}
NOT_RECORDED = {"gpt2-124m-1024"}


def strip(path):
    """Takes out the exporter's stack traces: they name folders of the machine that exported."""
    proto = onnx.load(path, load_external_data=False)
    for entry in (*proto.graph.node, *proto.graph.value_info, *proto.graph.initializer, *proto.graph.input,
                  *proto.graph.output, proto.graph, proto):
        kept = [(p.key, p.value) for p in entry.metadata_props if "name_scopes" in p.key]
        del entry.metadata_props[:]
        for key, value in kept:
            entry.metadata_props.add(key=key, value=value)
    path.write_bytes(proto.SerializeToString(deterministic=True))


def record(model, folder, name, make_inputs, batch):
    """ONNX Runtime's outputs beside their inputs, both as .npy files."""
    inputs = make_inputs(batch, generator(f"inputs of {name}"))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    outputs = dict(zip(names, session.run(names, inputs)))
    for kind, arrays in (("inputs", inputs), ("outputs", outputs)):
        shutil.rmtree(folder / kind, ignore_errors=True)
        (folder / kind).mkdir(parents=True)
        for array_name, value in arrays.items():
            np.save(folder / kind / f"{array_name}.npy", value)
    return inputs, outputs


def export(name, entry, root, large, initial):
    make, make_inputs, output_names = entry
    torch.manual_seed(SEED)
    model = make().eval() if initial else randomise(make())
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    example = {k: torch.from_numpy(v) for k, v in make_inputs(2, generator("example")).items()}
    batch = torch.export.Dim("batch", min=1, max=4096)
    path = folder / "model.onnx"
    torch.onnx.export(model, tuple(example.values()), str(path), dynamo=True, external_data=large,
                      input_names=list(example), output_names=output_names,
                      dynamic_shapes=tuple({0: batch} for _ in example))
    strip(path)
    if name in NOT_RECORDED:
        return
    for batch_size, target in ((1, folder / "batch1"), (4, folder / "batch4")) if large else ((8, folder),):
        inputs, outputs = record(str(path), target, name, make_inputs, batch_size)
        with torch.no_grad():
            expected = model(*(torch.from_numpy(v) for v in inputs.values()))
        for key, value in zip(outputs, expected if isinstance(expected, tuple) else (expected,)):
            difference = np.abs(outputs[key] - value.numpy()).max()
            print(f"{name} batch {batch_size}: {key} {outputs[key].shape} std {outputs[key].std():.3f}, "
                  f"ONNX Runtime against PyTorch: {difference:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", metavar="DIR", type=pathlib.Path)
    parser.add_argument("--initial", action="store_true", help="keep the weights that PyTorch initialises")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if arguments.initial and not arguments.large:
        parser.error("--initial is for --large models")
    table = LARGE if arguments.large else SMALL
    unknown = set(arguments.names) - set(table)
    if unknown:
        sys.exit(f"error: unknown models {sorted(unknown)}, expected some of {list(table)}")
    for name in arguments.names or table:
        export(name, table[name], arguments.large or pathlib.Path(__file__).parent, bool(arguments.large),
               arguments.initial)


if __name__ == "__main__":
    main()
