#!/usr/bin/env python3
"""speed.py [FOLDER] [--rounds R] [--steps N] [--json FILE] [--only CASE ...] [--dry]

On one GPU, in every round Kerf and PyTorch one right after the other; the figure
of a side is the median step, the table shows medians over the rounds.

    training   GPT-2 124M, bf16, AdamW, 1024 tokens, the largest batch that fits both,
               against torch.compile with its fused attention and fused AdamW: at least
               its throughput, at most its peak memory; MFU is stated. Kerf's whole step,
               with the mini-batch copied to the GPU; PyTorch's by events, its data there
    inference  BERT-base and ResNet-50 at batch 1 against torch.compile: what lies
               between inputs and outputs, by events, replayed as a graph on both sides
    matmul     GPT-2's and a large square in bf16 against cuBLASLt by torch.mm: 0.97
    kernels    bandwidth of elementwise and row kernels against a device copy: 0.9

The last two are durations of kernels as CUPTI records them, on both sides (Kerf's
--trace, torch.profiler); where there is no CUPTI, events.

--dry: Kerf's side alone, which the recording driver can play; no figure counts.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:  # --dry
    torch = F = None

    class nn:
        Module = object


PEAK_BF16 = 989e12  # dense, of an H100 or H200 with SXM


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


def torch_training(batch):
    """A function that takes a number of steps and gives median seconds and peak bytes."""
    gpt2 = Gpt2().cuda()
    update = torch.optim.AdamW(gpt2.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    ids = torch.randint(0, 50257, (batch, 1025), device="cuda")

    @torch.compile
    def loss_of(tokens, labels):
        logits = gpt2(tokens)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.reshape(-1))

    def step():
        update.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of(ids[:, :-1], ids[:, 1:])
        loss.backward()
        update.step()

    def measure(steps):
        torch.cuda.reset_peak_memory_stats()
        return timed(step, steps), torch.cuda.max_memory_allocated()
    return measure


def torch_inference(name):
    if name == "resnet50":
        model = resnet50().cuda().eval().to(torch.bfloat16).to(memory_format=torch.channels_last)
        x = torch.randn(1, 3, 224, 224, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    else:
        model = Gpt2(tokens=30522 if name == "bert-base" else 50257, causal=name != "bert-base").cuda().eval().to(torch.bfloat16)
        x = torch.randint(0, 30000, (1, 128), device="cuda")
    model = torch.compile(model, mode="reduce-overhead")

    def measure(steps):
        with torch.inference_mode():
            return timed(lambda: model(x), steps), 0
    return measure


def torch_kernel_seconds(step, steps):
    """The median over steps of the seconds that a step's kernels and copies run."""
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    times = sorted((e.time_range.start, e.time_range.elapsed_us()) for e in profile.events()
                   if e.device_type == torch.autograd.DeviceType.CUDA)
    each = len(times) // steps
    if not each:
        return timed(step, steps)
    return statistics.median(sum(t for _, t in times[i * each:(i + 1) * each]) for i in range(steps)) * 1e-6


ROWS = 16384
BYTES = {"softmax": 2, "gelu": 2, "add": 3, "transpose": 2, "layernorm": 2, "columns": 1}  # times those of x
TARGETS = {"train": 1.0, "matmul": 0.97, "kernel": 0.9}


def torch_operator(name):
    """Seconds of the same product by cuBLASLt, or that a device copy needs for the bytes of the kernel."""
    if name.startswith("matmul-"):
        m, n, k = map(int, name[7:].split("x"))
        x, y = torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        return lambda steps: (torch_kernel_seconds(lambda: torch.mm(x, y, out=out), steps), 0)
    x = torch.randn(ROWS, 4096, device="cuda")
    y = torch.empty_like(x)
    return lambda steps: (torch_kernel_seconds(lambda: y.copy_(x), steps) * BYTES[name] / 2, 0)


def torch_side(name):
    if name.startswith("train-"):
        return torch_training(int(name.rsplit("-", 1)[1]))
    return torch_operator(name[3:]) if name.startswith("op-") else torch_inference(name)


def kerf_kernel_seconds(trace):
    """What the kernels of the traced step took; 0 if the trace has none."""
    events = json.loads(trace.read_text())["traceEvents"]
    return sum(e["dur"] for e in events if e.get("cat") in ("kernel", "fill")) * 1e-6


def kerf_step(kerf_run, package, kind, steps):
    """Median seconds and peak bytes; negative if it did not run."""
    manifest = json.loads((package / "manifest.json").read_text())
    scalars = [f"--input={i['name']}={1e-4 if i['name'] == 'train.learning_rate' else 0.1}"
               for i in manifest["inputs"] if i["name"].startswith("train.")]
    operator = kind in ("matmul", "kernel")
    with tempfile.TemporaryDirectory() as folder:
        stats, trace = pathlib.Path(folder) / "run.json", pathlib.Path(folder) / "trace.json"
        result = subprocess.run([str(kerf_run), str(package), "--seed=1", f"--repeat={5 if operator else steps + 3}", "-q",
                                 f"--stats={stats}", *([f"--trace={trace}"] if operator else []), *scalars],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode:
            print(f"{package.name}: {result.stdout.strip()[:300]}", file=sys.stderr)
            return -1.0, 0
        root = json.loads(stats.read_text())
        seconds = kerf_kernel_seconds(trace) if operator else 0
        if not seconds:
            seconds = statistics.median(root["time"]["step_seconds_all" if kind == "train" else "device_seconds_all"][3:])
        return seconds, root["memory"]["per_device"][0]["peak"]


def kind_of(name):
    return "train" if name.startswith("train-") else "matmul" if name.startswith("op-matmul") else \
        "kernel" if name.startswith("op-") else "inference"


def measure(name, package, arguments):
    """Medians of both sides and their peaks; None if one of them does not run."""
    pairs, ours_peak, theirs_peak, reference = [], 0, 0, None
    for _ in range(arguments.rounds):
        ours, ours_peak = kerf_step(arguments.folder / "kerf-run", package, kind_of(name), arguments.steps)
        if ours < 0:
            return None
        if arguments.dry:
            pairs.append((ours, ours))
            continue
        try:
            reference = reference or torch_side(name)  # compiled once, in the first round
            theirs, theirs_peak = reference(arguments.steps)
        except torch.OutOfMemoryError:
            print(f"{name}: PyTorch is out of memory", file=sys.stderr)
            return None
        finally:
            torch.cuda.empty_cache()  # Kerf's next round needs the memory
        pairs.append((ours, theirs))
    if torch and not arguments.dry:
        reference = None
        torch.compiler.reset()
        torch.cuda.empty_cache()
    ours, theirs = (statistics.median(column) for column in zip(*pairs))
    return dict(case=name, kerf_seconds=ours, pytorch_seconds=theirs, ratio=statistics.median(t / o for o, t in pairs),
                kerf_peak_bytes=ours_peak, pytorch_peak_bytes=theirs_peak)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--only", nargs="+", default=[""], help="cases whose names begin so")
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.resolve()
    if torch is None and not arguments.dry:
        sys.exit("error: this Python has no PyTorch")
    if torch and not arguments.dry:
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cuda.preferred_blas_library("cublaslt")
    packages = {package.stem: package for package in (arguments.folder / "speed").glob("*.kerf")
                if package.stem.startswith(tuple(arguments.only))}
    training = sorted((name for name in packages if name.startswith("train-")),
                      key=lambda name: -int(name.rsplit("-", 1)[1]))
    rows = []
    print(f"{'case':28}{'Kerf ms':>10}{'PyTorch ms':>12}{'PyTorch/Kerf':>14}")
    # What takes longest to compile comes last.
    others = sorted(set(packages) - set(training), key=lambda name: (not name.startswith("op-"), name))
    for name in others + training:
        if name.startswith("train-") and any(row["case"].startswith("train-") for row in rows):
            continue  # a larger batch fits both
        row = measure(name, packages[name], arguments)
        if not row:
            print(f"{name:28}  did not run")
            continue
        text = ""
        kind = kind_of(name)
        if kind in TARGETS:
            row["target"] = TARGETS[kind]
            text += f"   {'reaches' if row['ratio'] >= TARGETS[kind] else 'BELOW'} {TARGETS[kind]}"
        if kind == "train":
            tokens = int(name.rsplit("-", 1)[1]) * 1024
            row["mfu"] = 6 * 124e6 * tokens / row["kerf_seconds"] / PEAK_BF16
            row["tokens_per_second"] = tokens / row["kerf_seconds"]
            peaks = row["kerf_peak_bytes"], row["pytorch_peak_bytes"]
            text += f", MFU {row['mfu']:.1%}, peak {peaks[0] / 2**30:.1f} GiB against {peaks[1] / 2**30:.1f} GiB"
            text += "" if peaks[0] <= peaks[1] else " (MORE)"
        if kind == "kernel":
            row["bytes_per_second"] = BYTES[name[3:]] * ROWS * 4096 * 4 / row["kerf_seconds"]
            text += f", {row['bytes_per_second'] / 1e12:.2f} TB/s"
        rows.append(row)
        print(f"{name:28}{row['kerf_seconds'] * 1e3:10.3f}{row['pytorch_seconds'] * 1e3:12.3f}{row['ratio']:14.2f}" + text,
              flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
