#!/usr/bin/env python3
"""bench/figures.py [NAME ...] [--check]

docs/Performance.md: what the programs of bench/ print, each with its command, the
commit and the machine on which it ran. NAME runs one of them (none: all that this
machine can run) and keeps its output in bench/figures/; the page is written from what
is kept there, so that figures of different days stand side by side, each with its
own. --check only says whether the page is what would be written.
"""
import argparse
import datetime
import pathlib
import platform
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT, PAGE = ROOT / "bench/figures", ROOT / "docs/Performance.md"
# name -> (title, what the figures say, command)
FIGURES = {
    "inference": ("Inference beside ONNX Runtime and OpenVINO", """\
All three run in turn on the same cores, OpenVINO with its precision set to f32 and its hint to latency; the ratio is
Kerf's time over that of the better of the two others, the median over the rounds with a 95% interval of it (below 1 is
faster; * is above 1.1). Two ranks of one thread each are cut as planned, against two threads. Other work runs on the
machine: --realtime gives the steps of all three the cores, but not caches and memory, which is what intervals show.
Then what the first output takes: kerf-run from start to end, beside session and first run in a process that has loaded
the library; and what import, plan and compile take.""", ["bench/inference", "--rounds", "5", "--realtime"]),
    "threads": ("Threads by work", """\
One rank: the least time of a step on one thread, with every call on all threads, and as it is by default, each call on
one or all by its work; the ratio is the default's to the better of the two.""",
                ["build/venv/bin/python", "bench/threads.py"]),
    "recurrent": ("Recurrent cells and loops", """\
One layer, batch 2, 64 inputs, 128 hidden, one thread. Compiling without kept kernels and with them, in seconds on the
clock and of all threads; then runs in turn with ONNX Runtime's (ratio: below 1 is faster).""",
                  ["build/venv/bin/python", "bench/recurrent.py"]),
    "training": ("A training step beside PyTorch", """\
Eager PyTorch on the same cores, in turn; two data-parallel ranks beside DistributedDataParallel over gloo.""",
                 ["build/venv/bin/python", "bench/training.py"]),
    "overlap": ("Communication that a step hides", """\
Kerf alone, two data-parallel ranks of one thread: 1 means that the shorter of compute and communication is hidden.
Thread ranks add up gradients on the cores that compute, so there is little to hide.""",
                ["build/venv/bin/python", "bench/training.py", "--overlap"]),
    "collectives": ("All-reduce between ranks of one host", """\
Thread ranks beside one memcpy of the same bytes, and beside Open MPI.""", ["bench/collectives/run.sh"]),
    "memory": ("Memory: what planning predicts, by what is laid out", """\
Least, median and most over the devices of each kind of mesh, and every device out of its bars.""",
               ["build/venv/bin/python", "bench/memory_prediction.py", "--all"]),
    "prediction": ("Time: what plans predict, by what is measured", """\
Steps of inference on one and two ranks of one thread, after `kerf calibrate`. Kendall's tau over pairs whose measured
times are 10% apart: 1 means that predictions order all of them as they run.""",
                   ["build/venv/bin/python", "bench/prediction.py"]),
    "growth": ("Planning and compiling as models grow deeper", """\
A training step of GPT-2, 256 wide: seconds of the search and of each process, its memory, and the exponent of growth
(1: linear).""", ["build/venv/bin/python", "bench/compile-growth.py"]),
    "deadline": ("How a deadline of planning is kept", """\
Requests that take longer than that: seconds of the search (median and worst of the rounds, and the worst as a share of
the deadline), of the whole command with the model's import, and the gap that is left.""",
                 ["build/venv/bin/python", "bench/deadline.py"]),
    "embedding": ("What passes cost in another compiler", """\
Modules of linalg, math and arith: microseconds for each op, the least of the runs. Aimed at: kerf-propagate and
kerf-partition together below 50 us, whatever the size. Then planning, as linalg beside the same net as nn; aimed at: a
ratio of 1.2 or less.""", ["build/venv/bin/python", "bench/embedding.py", "--repeat", "25"]),
    "gpu": ("One GPU beside PyTorch", """\
bench/gpu/speed.py: in every round Kerf and PyTorch one right after the other; ratios above 1 are in Kerf's favour.
Training: throughput against torch.compile with fused attention and fused AdamW. Inference at batch 1, replayed as a
graph on both sides. Products against cuBLASLt by torch.mm, other kernels against a device copy of as many bytes. Then
the idle time of a training step and the kernels that take most of it. Kept by `bench/figures.py gpu --results=FOLDER`.""",
            None),
    "speed": ("This build beside an earlier one", """\
The same packages' programs by two builds in alternating runs: median ratio of the newer to the older one, with a 95%
interval.""", None),
}
HEAD = """\
# Performance

Written by `bench/figures.py` from what the programs of `bench/` printed; each table has its command, the commit and the
machine. Ratios are between two sides that ran in turn on the same machine, so they carry over better than seconds do.
What has run on which hardware is in [Hardware.md](Hardware.md); GPUs are measured by `bench/gpu/run.sh`.
"""


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                 platform.processor())
    flags = next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "")
    units = [name for name, flag in (("AVX2", " avx2 "), ("AVX-512", " avx512f "), ("AMX", " amx_tile")) if flag in flags]
    memory = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    cores = len(__import__("os").sched_getaffinity(0))
    return f"{cores} cores of {model} ({', '.join(units)}), {memory / 2**20:.0f} GiB"


def run(name, command):
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    process = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if not process.stdout.strip():
        sys.exit(f"{' '.join(command)}: printed nothing (exit {process.returncode})")
    stamp = f"{datetime.date.today()}, commit {commit}, {machine()}"
    (KEPT / f"{name}.txt").write_text(f"{' '.join(command)}\n{stamp}\n{process.stdout}")
    print(process.stdout, end="", flush=True)


def gpu(results):
    """What bench/gpu/run.sh left in the folder `results`."""
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    name, driver, _, _ = (results / "machine.txt").read_text().splitlines()[1].split(", ")
    day = datetime.date.fromtimestamp((results / "speed.txt").stat().st_mtime)
    rows = [line.rstrip().replace(", peak", f"\n{'':64} peak") for line in (results / "speed.txt").read_text().splitlines()
            if re.match(r"(case|op-|bert|gpt|resnet|train-)", line)]
    for file in sorted(results.glob("gaps-*.txt")):
        rows += ["", *(line[:105] for line in file.read_text().splitlines()[:14])]
    text = "\n".join([f"{day}, commit {commit}, {name}, driver {driver}", *rows])
    (KEPT / "gpu.txt").write_text(f"bench/gpu/run.sh\n{text}\n")


def wrapped(text):
    """As .mdformat.toml has it."""
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def page():
    text = HEAD
    for name, (title, meaning, _) in FIGURES.items():
        path = KEPT / f"{name}.txt"
        if not path.exists():
            continue
        command, stamp, output = path.read_text().split("\n", 2)
        source = f"`{command.removeprefix('build/venv/bin/')}` ({stamp}):"
        text += f"\n## {title}\n\n{wrapped(meaning)}\n\n{wrapped(source)}\n\n```\n{output.rstrip()}\n```\n"
    earlier = KEPT / "earlier.txt"
    return text + (f"\n## Earlier figures\n\n{earlier.read_text()}" if earlier.exists() else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FIGURES)}")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--old", help="for speed: the build folder of the earlier build")
    parser.add_argument("--results", type=pathlib.Path, help="for gpu: the folder that bench/gpu/run.sh wrote")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(FIGURES):
        parser.error(f"unknown figures {sorted(unknown)}, expected some of {', '.join(FIGURES)}")
    if arguments.check:
        if PAGE.read_text() != page():
            sys.exit("docs/Performance.md is not what bench/figures.py writes")
        return
    if "speed" in arguments.names and not arguments.old:
        parser.error("speed needs --old=BUILD")
    if "gpu" in arguments.names:
        if not arguments.results:
            parser.error("gpu needs --results=FOLDER")
        gpu(arguments.results)
        arguments.names.remove("gpu")
        if not arguments.names:
            return PAGE.write_text(page())
    for name in arguments.names or [name for name in FIGURES if name not in ("gpu", "speed")]:
        command = FIGURES[name][2] or ["build/venv/bin/python", "bench/compare_builds.py", arguments.old, "build", "--speed", "20"]
        run(name, command)
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
