#!/usr/bin/env python3
"""Exports the models of the training tests and records PyTorch's loss curves.

    make.py [NAME ...]      models, data and curves, beside this script (committed)
    make.py --only-bf16     measures `bf16` in the curves that there are
    make.py --only-batch-norm

Each case is a folder: model.onnx as torch.onnx.export(..., dynamo=True) writes it,
data.npz (arrays named after the model's inputs, and labels; step i takes rows
[i B, i B + B) of what it holds, round and round) and curves.json (R is the learning rate of SGD):

    {"batch": B, "rate": R, "steps": S, "micro_batches": {"1": {"sgd": CURVE, ...}, ...}}
    CURVE = {"losses": [...], "spread": s, "bf16": b}

`spread` is how far PyTorch is from itself, as the largest relative difference of
a loss over the S steps: with two threads in place of one, and with the
samples of each batch in eight other orders. `bf16` is how far its bfloat16
(autocast) is from its float32: the most of the model as it is and of 32 that begin 0.1% beside it (16 with 2
micro-batches, 8 with 4), both precisions from the same weights. (Orders and threads hardly change what is rounded to 8
bits; each beginning draws other roundings.)
The models have BatchNorm statistics per micro-batch, so the convolutional net has a
curve for each number of micro-batches.

S is 100, and these models are smooth: their activations have derivatives everywhere and they pool by means or strides, so
that one rounding decides nothing. A max pool's gradient goes to one place of a window; where two places are equal but for
rounding, rounding decides, and losses differ from then on by as much as that moves them. The models with max pools and ReLU
(conv-max-pool, alexnet) hence have few steps, and make.py refuses to record them unless, in float64, the two largest values
of every window of every step are further apart than 2^-20: 16 units in float32's last place.

conv-batch-norm/batch-norm.json has what other statistics give, as {"frozen": {"sgd": CURVE, ...}, "local": {"2":
{"sgd": CURVE, "running": {NAME: [...]}, ...}, "4": ...}}: `frozen` normalises by the running statistics of the file (modules
in eval mode, gamma and beta trained); `local` is DistributedDataParallel on 2 and 4 processes without SyncBatchNorm.
`running`, after 3 steps of SGD, is the mean of the processes' running statistics, each of them its own (broadcast_buffers=False).

Needs torch 2.15, transformers, onnx; the test suite needs none of them.
"""
import argparse
import json
import math
import pathlib
import socket
import sys

import numpy as np
import onnxscript.optimizer
import torch
from torch import nn

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "models"))
from export import Gpt2, Mlp, generator, randomise, strip  # noqa: E402

STEPS = 100
TIE = 2.0**-20
OPTIMIZERS = {
    "sgd": lambda p, rate: torch.optim.SGD(p, lr=rate),
    "momentum": lambda p, rate: torch.optim.SGD(p, lr=rate / 4, momentum=0.9, weight_decay=1e-3),
    "adam": lambda p, rate: torch.optim.Adam(p, lr=2e-3),
    "adamw": lambda p, rate: torch.optim.AdamW(p, lr=2e-3, weight_decay=0.1),
}


class ConvBatchNorm(nn.Module):
    def __init__(self, size=12):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 8, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(8)
        # No biases: their gradient in front of BatchNorm is zero, and Adam makes steps of the rounding errors.
        self.conv2 = nn.Conv2d(8, 12, 3, stride=2, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(12)
        self.fc1 = nn.Linear(12 * (size // 4) ** 2, 24)
        self.fc2 = nn.Linear(24, 5)

    def forward(self, image):
        x = self.pool(self.activation(self.norm1(self.conv1(image))), 2)
        x = self.activation(self.norm2(self.conv2(x)))
        return self.fc2(self.activation(self.fc1(x.flatten(1))))

    def activation(self, x):
        return nn.functional.silu(x)

    def pool(self, x, size):
        return nn.functional.avg_pool2d(x, size)


class ConvMaxPool(ConvBatchNorm):
    """With what is not smooth."""

    def activation(self, x):
        return torch.relu(x)

    def pool(self, x, size):
        return torch.max_pool2d(x, size)


class AlexNet(nn.Module):
    """AlexNet in small: two convolutions with poolings, three fully connected layers."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.fc1, self.fc2, self.fc3 = nn.Linear(16 * 3 * 3, 64), nn.Linear(64, 64), nn.Linear(64, 8)

    def forward(self, image):
        x = torch.max_pool2d(torch.relu(self.conv1(image)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc1(x.flatten(1)))
        return self.fc3(torch.relu(self.fc2(x)))


class RotaryAttention(nn.Module):
    """Grouped queries: every key head serves several query heads."""

    def __init__(self, width, heads, key_heads):
        super().__init__()
        self.heads, self.key_heads, self.size = heads, key_heads, width // heads
        self.query = nn.Linear(width, heads * self.size, bias=False)
        self.key = nn.Linear(width, key_heads * self.size, bias=False)
        self.value = nn.Linear(width, key_heads * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def rotate(self, x):
        length, half = x.shape[2], self.size // 2
        angle = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        cos, sin = torch.cos(angle), torch.sin(angle)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, x):
        batch, length, width = x.shape
        split = lambda y, n: y.view(batch, length, n, self.size).transpose(1, 2)
        q = self.rotate(split(self.query(x), self.heads))
        k = self.rotate(split(self.key(x), self.key_heads))
        v = split(self.value(x), self.key_heads)
        group = self.heads // self.key_heads
        q = q.reshape(batch, self.key_heads, group, length, self.size)
        scores = q @ k.unsqueeze(2).transpose(-1, -2) / math.sqrt(self.size)
        mask = torch.triu(torch.full((length, length), -1e9), 1)
        y = torch.softmax(scores + mask, -1) @ v.unsqueeze(2)
        return self.out(y.reshape(batch, self.heads, length, self.size).transpose(1, 2).reshape(batch, length, width))


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, key_heads, inner):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.attention = RotaryAttention(width, heads, key_heads)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """LLaMA in small: RMSNorm, rotary positions, grouped-query attention, gated SiLU."""

    def __init__(self, vocabulary, width, layers, heads, key_heads, inner):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, key_heads, inner) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def classes(name, shape, count, samples):
    """Labels that a hidden linear map of the input gives: something to learn."""
    random = generator(f"data of {name}")
    x = random.standard_normal((samples, *shape)).astype(np.float32)
    teacher = random.standard_normal((math.prod(shape), count))
    return x, (x.reshape(samples, -1) @ teacher).argmax(1).astype(np.int64)


def sequences(name, vocabulary, length, samples):
    """Walks in which the next token mostly follows from the last; a tenth of the labels is ignored."""
    random = generator(f"data of {name}")
    step = random.permutation(vocabulary)
    tokens = np.empty((samples, length + 1), np.int64)
    tokens[:, 0] = random.integers(0, vocabulary, samples)
    for i in range(length):
        stray = random.random(samples) < 0.2
        tokens[:, i + 1] = np.where(stray, random.integers(0, vocabulary, samples), step[tokens[:, i]])
    labels = tokens[:, 1:].copy()
    labels[random.random(labels.shape) < 0.1] = -100
    return tokens[:, :-1].copy(), labels


# name -> (module, input, batch, (inputs, labels), rate of SGD, numbers of micro-batches). A rate at which losses jump
# back makes chaos of a rounding: GPT-2's bfloat16 is 6% from float32 at 0.1, and 0.1% at 0.05.
CASES = {
    "mlp": (lambda: Mlp([20, 48, 40, 8]), "x", 16, classes("mlp", (20,), 8, 160), 0.1, (1,)),
    "conv-batch-norm": (ConvBatchNorm, "image", 16, classes("conv", (2, 12, 12), 5, 80), 0.05, (1, 2, 4)),
    "conv-max-pool": (lambda: ConvMaxPool(8), "image", 8, classes("conv-max-pool", (2, 8, 8), 5, 40), 0.05, (1, 2, 4)),
    "alexnet": (AlexNet, "image", 16, classes("alexnet", (2, 12, 12), 8, 80), 0.05, (1,)),
    "gpt2": (lambda: Gpt2(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0,
                          embd_pdrop=0.0, attn_pdrop=0.0),
             "input_ids", 8, sequences("gpt2", 64, 16, 80), 0.05, (1,)),
    "llama": (lambda: Llama(60, 32, 2, 4, 2, 48), "input_ids", 8, sequences("llama", 60, 12, 80), 0.025, (1,)),
}


# Only for where values lie: SGD in float32.
LAYOUTS = {"alexnet"}
# With max pools: as many steps as have no ties, in float32 (8 bits tie all the time).
SHORT = {"conv-max-pool": 20, "alexnet": 30}


def make(name):
    torch.manual_seed(0)
    model = randomise(CASES[name][0]()).train()
    # Running statistics start as PyTorch starts them.
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
    return model


def curve(name, optimizer, micro_batches=1, threads=1, order=None, bf16=False, draw=None):
    """The loss before each update, as the mean over the valid labels of the whole batch."""
    _, _, batch, (inputs, labels), rate, _ = CASES[name]
    torch.set_num_threads(threads)
    model = make(name)
    if draw is not None:
        random = generator(f"beginning {draw}")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(torch.from_numpy(1 + 1e-3 * random.standard_normal(parameter.shape)).float())
    update = OPTIMIZERS[optimizer](model.parameters(), rate)
    losses = []
    for i in range(SHORT.get(name, STEPS)):
        rows = (np.arange(i * batch, i * batch + batch)) % len(inputs)
        parts = np.split(rows, micro_batches)
        if order is not None:
            parts = [generator(f"order {order} of step {i}").permutation(p) for p in parts]
        x = [torch.from_numpy(inputs[p]) for p in parts]
        y = [torch.from_numpy(labels[p]) for p in parts]
        valid = sum(int((part != -100).sum()) for part in y)
        update.zero_grad()
        total = 0.0
        for each, target in zip(x, y):
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                logits = model(each)
            logits = logits.float().reshape(-1, logits.shape[-1])
            loss = nn.functional.cross_entropy(logits, target.reshape(-1), reduction="sum") / valid
            loss.backward()
            total += float(loss.detach())
        update.step()
        losses.append(total)
    return np.array(losses)


def difference(a, b):
    return float(np.max(np.abs(a - b) / np.abs(b)))


def smallest_gap(name, optimizer, micro_batches):
    """How near, in float64, the two largest values of a max pool's window ever are, relative to the largest."""
    _, _, batch, (inputs, labels), rate, _ = CASES[name]
    torch.set_num_threads(1)
    model = make(name).double()
    update = OPTIMIZERS[optimizer](model.parameters(), rate)
    gaps, pool = [math.inf], torch.max_pool2d

    def watched(x, size):
        n, c, h, w = x.shape
        windows = x.detach().reshape(n, c, h // size, size, w // size, size).transpose(3, 4).flatten(4)
        first, second = windows.topk(2, dim=-1).values.unbind(-1)
        gaps.append(float(((first - second) / first).where(first > 0, torch.inf).min()))
        return pool(x, size)

    torch.max_pool2d = watched
    try:
        for i in range(SHORT.get(name, STEPS)):
            rows = (np.arange(i * batch, i * batch + batch)) % len(inputs)
            update.zero_grad()
            for part in np.split(rows, micro_batches):
                logits, target = model(torch.from_numpy(inputs[part]).double()), torch.from_numpy(labels[part])
                (nn.functional.cross_entropy(logits, target, reduction="sum") / batch).backward()
            update.step()
    finally:
        torch.max_pool2d = pool
    return min(gaps)


def bf16_spread(name, optimizer, count, losses):
    return max(difference(curve(name, optimizer, count, bf16=True), losses),
               *(difference(curve(name, optimizer, count, bf16=True, draw=k), curve(name, optimizer, count, draw=k))
                 for k in range(32 // count)))


def record_bf16(name):
    path = HERE / name / "curves.json"
    curves = json.loads(path.read_text())
    for count, table in curves["micro_batches"].items():
        for optimizer, entry in table.items():
            spread = bf16_spread(name, optimizer, int(count), np.array(entry["losses"]))
            entry["bf16"] = float(f"{spread:.3g}")
            print(f"{name}, {count} micro-batches, {optimizer}: bf16 {spread:.1e}", flush=True)
    path.write_text(json.dumps(curves, indent=1) + "\n")


def rows_of(step, batch, inputs, rank, ranks, order):
    """What a rank reads: a part of the batch, in another order of its samples."""
    part = np.split((np.arange(step * batch, step * batch + batch)) % len(inputs), ranks)[rank]
    return part if order is None else generator(f"order {order} of step {step}").permutation(part)


def distributed(rank, ranks, optimizer, steps, order, port, queue):
    """One process of DistributedDataParallel; gradients are means over processes, and so is the loss."""
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    _, _, batch, (inputs, labels), rate, _ = CASES["conv-batch-norm"]
    model = nn.parallel.DistributedDataParallel(make("conv-batch-norm"), broadcast_buffers=False)
    update = OPTIMIZERS[optimizer](model.parameters(), rate)
    losses = []
    for step in range(steps):
        rows = rows_of(step, batch, inputs, rank, ranks, order)
        update.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.from_numpy(inputs[rows])), torch.from_numpy(labels[rows]))
        loss.backward()
        update.step()
        total = loss.detach().double()
        dist.all_reduce(total)
        losses.append(float(total) / ranks)
    running = {}
    for key, value in model.module.state_dict().items():
        if "running" in key:
            dist.all_reduce(value)
            running[key] = (value / ranks).tolist()
    if rank == 0:
        queue.put((losses, running))
    dist.destroy_process_group()


def local_curve(ranks, optimizer, steps=STEPS, order=None):
    context = torch.multiprocessing.get_context("spawn")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    queue = context.Queue()
    processes = [context.Process(target=distributed, args=(r, ranks, optimizer, steps, order, port, queue))
                 for r in range(ranks)]
    for process in processes:
        process.start()
    losses, running = queue.get()
    for process in processes:
        process.join()
    return np.array(losses), running


def frozen_curve(optimizer, order=None):
    torch.set_num_threads(1)
    _, _, batch, (inputs, labels), rate, _ = CASES["conv-batch-norm"]
    model = make("conv-batch-norm").eval()
    update = OPTIMIZERS[optimizer](model.parameters(), rate)
    losses = []
    for step in range(STEPS):
        rows = rows_of(step, batch, inputs, 0, 1, order)
        update.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.from_numpy(inputs[rows])), torch.from_numpy(labels[rows]))
        loss.backward()
        update.step()
        losses.append(float(loss.detach()))
    return np.array(losses)


def record_batch_norm():
    def entry(make_curve):
        losses = make_curve(None)
        spread = max(difference(make_curve(order), losses) for order in range(3))
        print(f"{losses[0]:.4f} -> {losses[-1]:.4f}, spread {spread:.1e}", flush=True)
        return {"losses": [float(f"{v:.9g}") for v in losses], "spread": float(f"{spread:.3g}")}

    table = {"frozen": {}, "local": {}}
    for optimizer in ("sgd", "adamw"):
        table["frozen"][optimizer] = entry(lambda order: frozen_curve(optimizer, order))
    for ranks in (2, 4):
        table["local"][ranks] = {optimizer: entry(lambda order: local_curve(ranks, optimizer, order=order)[0])
                                 for optimizer in ("sgd", "adamw")}
        table["local"][ranks]["running"] = local_curve(ranks, "sgd", steps=3)[1]
    (HERE / "conv-batch-norm" / "batch-norm.json").write_text(json.dumps(table, indent=1) + "\n")


def record(name):
    _, _, batch, _, rate, counts = CASES[name]
    table = {}
    for count in counts:
        table[str(count)] = {}
        for optimizer in ["sgd"] if name in LAYOUTS else OPTIMIZERS:
            gap = smallest_gap(name, optimizer, count) if name in SHORT else math.inf
            if gap < TIE:
                sys.exit(f"error: {name}, {count} micro-batches, {optimizer}: a window's largest values differ by {gap:.1e}")
            losses = curve(name, optimizer, count)
            spread = max(difference(curve(name, optimizer, count, threads=2), losses),
                         *(difference(curve(name, optimizer, count, order=k), losses) for k in range(8)))
            entry = {"losses": [float(f"{v:.9g}") for v in losses], "spread": float(f"{spread:.3g}")}
            if name not in SHORT:
                entry["bf16"] = float(f"{bf16_spread(name, optimizer, count, losses):.3g}")
            table[str(count)][optimizer] = entry
            print(f"{name}, {count} micro-batches, {optimizer}: {losses[0]:.4f} -> {losses[-1]:.4f}, "
                  f"spread {spread:.1e}, bf16 {entry.get('bf16')}, gap {gap:.1e}", flush=True)
    text = json.dumps({"batch": batch, "rate": rate, "steps": SHORT.get(name, STEPS), "micro_batches": table}, indent=1)
    (HERE / name / "curves.json").write_text(text + "\n")


def export(name):
    _, key, batch, (inputs, labels), _, _ = CASES[name]
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    np.savez_compressed(folder / "data.npz", **{key: inputs, "labels": labels})
    model = make(name)
    # The exporter folds BatchNorm away unless it is told not to optimise a model in training mode.
    norms = any(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    example = torch.from_numpy(inputs[:batch])
    program = torch.onnx.export(model if norms else model.eval(), (example,), dynamo=True, optimize=False,
                                input_names=[key], output_names=["logits"],
                                dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=4096)},))
    # The exporter's optimizer would replace small weights by what is computed from them: transposed copies under
    # other names, a tied weight by two, a table of angles that looks like a weight. Only GPT-2's sequences need it.
    if name == "gpt2":
        onnxscript.optimizer.optimize(program.model, input_size_limit=100, output_size_limit=100)
    program.save(folder / "model.onnx", external_data=False)
    strip(folder / "model.onnx")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-curves", action="store_true", help="models and data alone")
    parser.add_argument("--only-curves", action="store_true", help="leave models and data")
    parser.add_argument("--only-bf16", action="store_true", help="how far bfloat16 is, in the curves that there are")
    parser.add_argument("--only-batch-norm", action="store_true", help="local and frozen statistics")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(CASES)
    if unknown:
        sys.exit(f"error: unknown cases {sorted(unknown)}, expected some of {list(CASES)}")
    if arguments.only_batch_norm:
        return record_batch_norm()
    for name in arguments.names or CASES:
        if arguments.only_bf16:
            if name not in SHORT:
                record_bf16(name)
            continue
        if not arguments.only_curves:
            export(name)
        if not arguments.no_curves:
            record(name)
    if not arguments.names and not arguments.no_curves and not arguments.only_bf16:
        record_batch_norm()


if __name__ == "__main__":
    main()
