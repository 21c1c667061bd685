#!/usr/bin/env python3
"""bench/training.py [--rounds R] [--steps N] [--json FILE] [--overlap] [CASE ...]

A training step of Kerf beside PyTorch's, eager, on the CPU. In every round each
side runs N steps in a process of its own, one right after the other; the figure
of a side is the median step after two that warm up, the ratio that of the round;
the table shows medians over the rounds. Cases:

    gpt2-124m   4 x 128 tokens, AdamW       resnet18   16 images of 224, SGD with momentum

each on one rank of two threads against PyTorch with two threads, and on two ranks
of one thread, data parallel, against DistributedDataParallel over gloo with two
processes of one thread. Needs requirements-bench.txt.

--overlap measures Kerf alone, two ranks of one thread, and prints
    efficiency = (compute + communication - step) / min(compute, communication)
step: a step of two ranks. compute: a step of one rank with half the batch, while
a second such process keeps the other core as busy. communication: the step's
all-reduces, each alone and out of place (target kerf-bench-collectives), summed. 1 means
that the shorter of the two is hidden, 0 that they run one after the other. Thread
ranks add up gradients on the cores that compute, so what they can hide is waiting
and the meeting of ranks alone; below 0 they cost each other time.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "build/bench/training"
KERF = ROOT / "build/bin/kerf"
COLLECTIVES = ROOT / "build/bin/kerf-bench-collectives"
CASES = {"gpt2-124m": dict(key="input_ids", batch=4, optimizer="adamw,lr=1e-4,wd=0.01"),
         "resnet18": dict(key="image", batch=16, optimizer="sgd,lr=0.01,momentum=0.9")}


def model_of(case):
    import torch
    torch.manual_seed(0)
    if case == "gpt2-124m":
        sys.path.insert(0, str(ROOT / "test/Inputs/models"))
        from export import Gpt2
        return Gpt2(attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)
    import torchvision
    return torchvision.models.resnet18()


def data_of(case):
    """Four batches: inputs and labels."""
    import numpy as np
    random, batch = np.random.default_rng(1), 4 * CASES[case]["batch"]
    if case == "gpt2-124m":
        tokens = random.integers(0, 50257, (batch, 129))
        return tokens[:, :-1].copy(), tokens[:, 1:].copy()
    return random.standard_normal((batch, 3, 224, 224), dtype=np.float32), random.integers(0, 1000, batch)


def prepare(case):
    """The exported model and its data, made once."""
    import numpy as np
    import torch
    folder = OUT / case
    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    model, (inputs, labels) = model_of(case), data_of(case)
    norms = case == "resnet18"
    torch.onnx.export(model.train(norms), (torch.from_numpy(inputs[:2]),), str(folder / "model.onnx"), dynamo=True,
                      external_data=True, optimize=not norms, input_names=[CASES[case]["key"]],
                      output_names=["logits"],
                      dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=4096)},))
    np.savez(folder / "data.npz", **{CASES[case]["key"]: inputs, "labels": labels})
    (folder / "done").touch()


def worker(case, steps, rank, size):
    """PyTorch's side; prints the seconds of each step."""
    import torch
    torch.set_num_threads(1 if size > 1 else 2)
    model, (inputs, labels) = model_of(case).train(), data_of(case)
    if size > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
        torch.distributed.init_process_group("gloo", rank=rank, world_size=size)
        model = torch.nn.parallel.DistributedDataParallel(model)
    kind = torch.optim.AdamW if case == "gpt2-124m" else torch.optim.SGD
    options = dict(lr=1e-4, weight_decay=0.01) if case == "gpt2-124m" else dict(lr=0.01, momentum=0.9)
    update = kind(model.parameters(), **options)
    share = CASES[case]["batch"] // size
    seconds = []
    for i in range(steps + 2):
        begin = i % 4 * CASES[case]["batch"] + rank * share
        x, y = (torch.from_numpy(a[begin:begin + share]) for a in (inputs, labels))
        start = time.perf_counter()
        update.zero_grad()
        logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
        loss.backward()
        update.step()
        float(loss)
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps(seconds[2:]))


def torch_step(case, steps, size):
    command = [sys.executable, __file__, "--worker", case, str(steps)]
    environment = dict(os.environ, OMP_NUM_THREADS="1" if size > 1 else "2")
    ranks = [subprocess.Popen([*command, str(rank), str(size)], stdout=subprocess.PIPE, text=True,
                              env=environment, stderr=subprocess.DEVNULL) for rank in range(size)]
    outputs = [rank.communicate()[0] for rank in ranks]
    return statistics.median(json.loads(outputs[0]))


def kerf_command(case, steps, size, threads, share=1, name="log"):
    """A run of `steps` steps after two that warm up, and its log."""
    folder, log = OUT / case, OUT / f"{name}.jsonl"
    log.unlink(missing_ok=True)
    batch = CASES[case]["batch"] // share
    command = [KERF, "train", folder / "model.onnx", f"--dim=batch={batch}", f"--batch-size={batch}",
               "--loss=cross_entropy(logits,labels)", f"--optimizer={CASES[case]['optimizer']}",
               f"--data={folder / 'data.npz'}", "--shuffle=off", f"--steps={steps + 2}", f"--log={log}",
               f"--devices=cpu:{size}", f"--threads={threads}", "-q", "--no-output"]
    if size > 1:
        # As DistributedDataParallel: each process has BatchNorm statistics of its own.
        command += [f"--mesh=dp={size}", "--batch-norm=local"]
    return command, log


def median_of(log):
    return statistics.median([json.loads(line)["seconds"] for line in log.read_text().splitlines()
                              if '"loss"' in line][2:])


def kerf_step(case, steps, size):
    command, log = kerf_command(case, steps, size, 1 if size > 1 else 2)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return median_of(log)


def overlap(case, steps):
    """Seconds of a step of two ranks, of its compute and of its communication."""
    statistics_file = OUT / "overlap.json"
    command, log = kerf_command(case, steps, 2, 1)
    subprocess.run([*command, f"--stats={statistics_file}"], check=True, stdout=subprocess.DEVNULL)
    step = median_of(log)
    halves = [kerf_command(case, steps, 1, 1, 2, f"half{i}") for i in range(2)]
    for process in [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command, _ in halves]:
        if process.wait() != 0:
            sys.exit("error: a run of one rank failed")
    compute = statistics.median(median_of(log) for _, log in halves)
    sizes = {}
    for entry in json.loads(statistics_file.read_text())["communication"]["collectives"]:
        if entry["op"] == "all_reduce":
            sizes[entry["buffer_bytes"]] = sizes.get(entry["buffer_bytes"], 0) + entry["count"]
    communication = 0
    for size, count in sizes.items():
        output = subprocess.run([COLLECTIVES, "2", str(size), "15"], check=True, stdout=subprocess.PIPE, text=True)
        communication += count * float(output.stdout.split()[0]) * 1e-6
    return step, compute, communication


def overlap_table(cases, rounds, steps):
    rows = []
    print(f"{'case':12}{'step':>12}{'compute':>12}{'communication':>15}{'efficiency':>12}   (min..max of rounds)")
    for case in cases:
        prepare(case)
        parts = [overlap(case, steps) for _ in range(rounds)]
        figures = [(compute + communication - step) / min(compute, communication)
                   for step, compute, communication in parts]
        step, compute, communication = map(statistics.median, zip(*parts))
        print(f"{case:12}{step * 1e3:9.0f} ms{compute * 1e3:9.0f} ms{communication * 1e3:12.1f} ms"
              f"{statistics.median(figures):12.2f}   ({min(figures):.2f}..{max(figures):.2f})", flush=True)
        rows.append({"case": case, "step_seconds": step, "compute_seconds": compute,
                     "communication_seconds": communication, "overlap_efficiency": statistics.median(figures)})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--overlap", action="store_true", help="the overlap of Kerf's own data-parallel ranks")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"unknown cases {sorted(unknown)}, expected some of {list(CASES)}")
    if arguments.overlap:
        rows = overlap_table(arguments.cases or CASES, arguments.rounds, arguments.steps)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
        return
    rows = []
    print(f"{'case':12}{'ranks x threads':>16}{'Kerf':>12}{'PyTorch':>12}{'ratio':>8}   (min..max of rounds)")
    for case in arguments.cases or CASES:
        prepare(case)
        for size in (1, 2):
            pairs = [(kerf_step(case, arguments.steps, size), torch_step(case, arguments.steps, size))
                     for _ in range(arguments.rounds)]
            ratios = [a / b for a, b in pairs]
            ours, theirs = (statistics.median(column) * 1e3 for column in zip(*pairs))
            print(f"{case:12}{f'{size} x {3 - size}':>16}{ours:9.0f} ms{theirs:9.0f} ms"
                  f"{statistics.median(ratios):8.2f}   ({min(ratios):.2f}..{max(ratios):.2f})", flush=True)
            rows.append({"case": case, "ranks": size, "threads": 3 - size, "kerf_seconds": ours / 1e3,
                         "pytorch_seconds": theirs / 1e3, "ratio": statistics.median(ratios)})
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], *map(int, sys.argv[3:6]))
    else:
        main()
