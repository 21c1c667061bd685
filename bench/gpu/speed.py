#!/usr/bin/env python3
"""speed.py [FOLDER] [--rounds R] [--steps N] [--json FILE]

On one GPU, in every round Kerf and PyTorch one right after the other; the figure
of a side is the median step, the table shows medians over the rounds.

    training   GPT-2 124M, bf16, AdamW, 1024 tokens, the largest batch that fits both,
               against torch.compile with its fused attention and fused AdamW; MFU
    inference  BERT-base and ResNet-50 at batch 1 against torch.compile
    matmul     4096^3 in bf16 against torch.mm (cuBLAS)
    kernels    bandwidth of elementwise and row kernels against a device copy
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

PEAK_BF16 = 989e12  # dense, of an H200


class Gpt2(nn.Module):
    def __init__(self, layers=12, heads=12, size=768, tokens=50257, positions=1024, causal=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.tokens, self.positions = nn.Embedding(tokens, size), nn.Embedding(positions, size)
        self.blocks = nn.ModuleList(nn.ModuleDict(dict(
            ln1=nn.LayerNorm(size), qkv=nn.Linear(size, 3 * size), out=nn.Linear(size, size),
            ln2=nn.LayerNorm(size), up=nn.Linear(size, 4 * size), down=nn.Linear(4 * size, size)))
            for _ in range(layers))
        self.norm = nn.LayerNorm(size)

    def forward(self, ids):
        b, s = ids.shape
        x = self.tokens(ids) + self.positions(torch.arange(s, device=ids.device))
        for block in self.blocks:
            q, k, v = block["qkv"](block["ln1"](x)).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
            x = x + block["out"](a.transpose(1, 2).reshape(b, s, -1))
            x = x + block["down"](F.gelu(block["up"](block["ln2"](x)), approximate="tanh"))
        return F.linear(self.norm(x), self.tokens.weight)


def resnet50():
    def conv(i, o, k, s=1):
        return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o))

    class Block(nn.Module):
        def __init__(self, i, m, s):
            super().__init__()
            self.body = nn.Sequential(conv(i, m, 1), nn.ReLU(), conv(m, m, 3, s), nn.ReLU(), conv(m, 4 * m, 1))
            self.side = conv(i, 4 * m, 1, s) if i != 4 * m or s != 1 else nn.Identity()

        def forward(self, x):
            return F.relu(self.body(x) + self.side(x))

    layers, channels = [conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for m, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Block(channels, m, stride if i == 0 else 1))
            channels = 4 * m
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def timed(step, steps):
    for _ in range(3):
        step()
    times = []
    for _ in range(steps):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        step()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def torch_training(batch, steps):
    model = torch.compile(Gpt2().cuda())
    update = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    ids = torch.randint(0, 50257, (batch, 1025), device="cuda")

    def step():
        update.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        loss.backward()
        update.step()

    torch.cuda.reset_peak_memory_stats()
    return timed(step, steps), torch.cuda.max_memory_allocated()


def torch_inference(name, steps):
    if name == "resnet50":
        model = resnet50().cuda().eval().to(torch.bfloat16).to(memory_format=torch.channels_last)
        x = torch.randn(1, 3, 224, 224, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    else:
        model = Gpt2(tokens=30522 if name == "bert-base" else 50257, causal=name != "bert-base").cuda().eval().to(torch.bfloat16)
        x = torch.randint(0, 30000, (1, 128), device="cuda")
    model = torch.compile(model, mode="reduce-overhead")
    with torch.inference_mode():
        return timed(lambda: model(x), steps), 0


def torch_operator(name, steps):
    shape = (4096, 4096) if name == "matmul" else (8192, 4096)
    x, y = (torch.randn(shape, device="cuda", dtype=torch.bfloat16 if name == "matmul" else torch.float32) for _ in "xy")
    z = torch.empty_like(x)
    return timed({"matmul": lambda: torch.mm(x, y)}.get(name, lambda: z.copy_(x)), steps), 0


def kerf_step(kerf_run, package, steps):
    """Median seconds; negative if it did not run."""
    with tempfile.TemporaryDirectory() as folder:
        stats = pathlib.Path(folder) / "run.json"
        result = subprocess.run([str(kerf_run), str(package), "--seed=1", f"--repeat={steps + 3}", "-q", f"--stats={stats}"],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode:
            print(f"{package.name}: {result.stdout.strip()[:300]}", file=sys.stderr)
            return -1.0
        return json.loads(stats.read_text())["time"]["step_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    root, kerf_run = arguments.folder, arguments.folder / "kerf-run"
    torch.backends.cuda.matmul.allow_tf32 = True
    rows = []
    print(f"{'case':28}{'Kerf ms':>10}{'PyTorch ms':>12}{'PyTorch/Kerf':>14}")
    for package in sorted((root / "speed").glob("*.kerf")):
        name = package.stem
        pairs, peak = [], 0
        for _ in range(arguments.rounds):
            ours = kerf_step(kerf_run, package, arguments.steps)
            if ours < 0:
                break
            try:
                if name.startswith("train-"):
                    theirs, peak = torch_training(int(name.rsplit("-", 1)[1]), arguments.steps)
                elif name.startswith("op-"):
                    theirs, peak = torch_operator(name[3:], arguments.steps)
                else:
                    theirs, peak = torch_inference(name, arguments.steps)
            except torch.OutOfMemoryError:
                break
            finally:
                torch.cuda.empty_cache()
            pairs.append((ours, theirs))
        if not pairs:
            print(f"{name:28}  did not run")
            continue
        ours, theirs = (statistics.median(column) for column in zip(*pairs))
        row = dict(case=name, kerf_seconds=ours, pytorch_seconds=theirs,
                   ratio=statistics.median(t / o for o, t in pairs), pytorch_peak_bytes=peak)
        if name.startswith("train-"):
            tokens = int(name.rsplit("-", 1)[1]) * 1024
            row["mfu"] = 6 * 124e6 * tokens / ours / PEAK_BF16
        rows.append(row)
        print(f"{name:28}{ours * 1e3:10.3f}{theirs * 1e3:12.3f}{row['ratio']:14.2f}"
              + (f"   MFU {row['mfu']:.1%}" if "mfu" in row else ""), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
