#!/usr/bin/env python3
"""bench/inference [MODEL ...] [--rounds R] [--json FILE] [--check] [--realtime]

Kerf beside ONNX Runtime and OpenVINO (its precision set to f32), on this machine's CPU. All outputs are compared: where
they differ no figure is printed. In every round each engine runs its steps right after the other; the figure of a round is the median step,
the ratio that of Kerf to the better of the two others (the one of the smaller median over all rounds), and the table
has the median ratio over the rounds with a 95% interval of the bootstrap. The shapes are fixed for all three. One rank
with 1 and 2 threads, and of some models two ranks of one thread beside two threads; 128 tokens, 224 x 224 images.

Then what it takes to the first output: the process of kerf-run from start to end, beside making a session (a compiled
model) and its first run in a process that has loaded the library, each with a file cache that is warm. And what
import, plan and compile take. MODEL is a name or NAME/BATCH.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime
import openvino

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("KERF_CACHE_DIR", ROOT / "build/models"))
KERF = ROOT / "build/bin/kerf"
OUT = ROOT / "build/bench"
WRITTEN = ["resnet50", "bert-base", "gpt2-124m"]  # by make_large.py; the others are exported by speed_models.py
MODELS = ["resnet50", "resnet50/8", "bert-base", "vit-b", "gpt2-124m", "mobilenet-v3", "efficientnet-b0",
          "convnext-tiny", "swin-tiny", "unet", "whisper-base", "minilm"]
SECONDS, LEAST_STEPS, MOST_STEPS = 0.3, 3, 30  # of an engine's steps in a round
CLOSE = 2e-3  # of the largest element: what outputs may differ by
ENGINES = ("ONNX Runtime", "OpenVINO")


# A process counts the memory of the one that started it, until it is its own
# program: so a small one stands between.
WRAPPER = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
seconds = time.perf_counter() - start
print(json.dumps([code, seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024]))
"""


def measured(*command):
    """(seconds, peak MiB) of a command; its errors end the benchmark. No kernels are kept from one to the next."""
    command = [str(part) for part in command]
    result = subprocess.run([sys.executable, "-c", WRAPPER, *command], stdout=subprocess.PIPE, check=True,
                            env=dict(os.environ, OMP_WAIT_POLICY="passive", XDG_CACHE_HOME="/dev/null"))
    code, seconds, mebibytes = json.loads(result.stdout)
    if code:
        sys.exit(f"error: {' '.join(command)}: exit {code}")
    return seconds, mebibytes


class Case:
    """A model at a batch size, with its inputs."""

    def __init__(self, name):
        self.name, _, batch = name.partition("/")
        self.batch, self.label = int(batch or 1), name
        self.model = CACHE / self.name / "model.onnx"
        if self.name in WRITTEN:
            make = [ROOT / "test/Inputs/models/make_large.py", self.name, self.model.parent]
        else:
            make = [ROOT / "bench/speed_models.py", CACHE, self.name]
        if self.name in WRITTEN or not self.model.exists():  # the exporter takes seconds to load
            subprocess.run([sys.executable, *make], check=True)
        single = {p.stem: np.load(p) for p in sorted((self.model.parent / "batch1/inputs").glob("*.npy"))}
        self.inputs = {key: np.concatenate([value] * self.batch) for key, value in single.items()}
        self.folder = OUT / f"{self.name}-{self.batch}"
        self.folder.mkdir(parents=True, exist_ok=True)
        for key, value in self.inputs.items():
            np.save(self.folder / f"{key}.npy", value)


class OnnxRuntime:
    """ONNX Runtime in this process, warm."""

    def __init__(self, case, threads):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_free_dimension_override_by_name("batch", case.batch)
        # Its idle threads must not spin on the cores while another has its turn.
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self.session = onnxruntime.InferenceSession(case.model, options, providers=["CPUExecutionProvider"])
        self.inputs = case.inputs

    def __call__(self):
        return dict(zip((o.name for o in self.session.get_outputs()), self.session.run(None, self.inputs)))


class OpenVino:
    """OpenVINO in this process, warm."""

    def __init__(self, case, threads):
        core = openvino.Core()
        model = core.read_model(case.model)
        model.reshape({key: list(value.shape) for key, value in case.inputs.items()})
        self.request = core.compile_model(model, "CPU", {
            "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads,
            "ENABLE_CPU_PINNING": False}).create_infer_request()
        self.names = [output.get_any_name() for output in model.outputs]
        self.inputs = case.inputs

    def __call__(self):
        result = self.request.infer(self.inputs, share_inputs=True, share_outputs=True)
        return {name: result[i] for i, name in enumerate(self.names)}


REFERENCES = dict(zip(ENGINES, (OnnxRuntime, OpenVino)))


def seconds_of(reference, steps):
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        reference()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


class Kerf:
    """A package in a process of its own; its statistics leave out load and warm-up."""

    def __init__(self, case, ranks, threads):
        self.package = OUT / f"{case.name}-{case.batch}-{ranks}.kerf"
        self.compile_seconds, _ = measured(KERF, "compile", case.model, "--dim", f"batch={case.batch}",
                                           f"--devices=cpu:{ranks}", "-o", self.package, "-q")
        self.flags = [f"--threads={threads}", "-q"]
        for key in case.inputs:
            self.flags += ["--input", f"{key}=@{case.folder / key}.npy"]
        self.out = case.folder / "outputs"

    def seconds(self, steps):
        stats = OUT / "run.json"
        measured(f"{KERF}-run", self.package, *self.flags, f"--repeat={steps}", f"--stats={stats}")
        return json.loads(stats.read_text())["time"]["step_seconds"]

    def first_seconds(self):
        return measured(f"{KERF}-run", self.package, *self.flags)[0]

    def __call__(self):
        measured(f"{KERF}-run", self.package, *self.flags, f"--output-dir={self.out}")
        return {path.stem: np.load(path) for path in self.out.glob("*.npy")}


def compare(case, kerf, references):
    """Ends the benchmark where outputs differ by more than rounding does."""
    expected = references[ENGINES[0]]()
    for what, outputs in (("Kerf", kerf()), (ENGINES[1], references[ENGINES[1]]())):
        for name, value in expected.items():
            far = np.abs(outputs[name] - value).max() / np.abs(value).max()
            if not far <= CLOSE:
                sys.exit(f"error: {case.label}: {name} of {what} is {far:.1e} of the largest element from {ENGINES[0]}'s")


FIRST = """
import pathlib, sys, time
sys.path.insert(0, sys.argv[1])
import inference
case = inference.Case(sys.argv[2])
with inference.Realtime(sys.argv[5] == "True"):
    start = time.perf_counter()
    inference.REFERENCES[sys.argv[3]](case, int(sys.argv[4]))()
    print(time.perf_counter() - start)
"""


def first_seconds(engine, case, threads, realtime):
    command = [sys.executable, "-c", FIRST, pathlib.Path(__file__).parent, case.label, engine, str(threads), str(realtime)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def interval(samples, figure):
    """A 95% interval of a figure of samples, by the bootstrap, drawn from one seed."""
    draw = random.Random(0)
    figures = sorted(figure(draw) for _ in range(2000))
    return figures[50], figures[1949]


class Realtime:
    """Engines that are made in here run before all other work of the machine; only for root."""

    def __init__(self, wanted):
        self.wanted = wanted

    def __enter__(self):
        if self.wanted:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))

    def __exit__(self, *_):
        if self.wanted:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def drawn(draw, samples):
    return statistics.median(draw.choices(samples, k=len(samples)))


def steady(cases, arguments):
    """The table of steps, and what it says of all models."""
    print(f"{'model':16}{'ranks x threads':>16}{'Kerf':>12}{ENGINES[0]:>15}{ENGINES[1]:>12}{'ratio':>8}   95% interval")
    rows, packages = [], {}
    for case in cases:
        for ranks, threads in ((1, 1), (1, 2), (2, 1))[:3 if case.label in WRITTEN else 2]:
            key = case.label, ranks
            kerf = packages.get(key) or packages.setdefault(key, Kerf(case, ranks, threads))
            kerf.flags[0] = f"--threads={threads}"
            with Realtime(arguments.realtime):
                references = {name: make(case, ranks * threads) for name, make in REFERENCES.items()}
                once = min(seconds_of(reference, 2) for reference in references.values())
                steps = max(LEAST_STEPS, min(MOST_STEPS, int(SECONDS / once)))
                rounds = [] if arguments.check else [
                    [kerf.seconds(steps), *(seconds_of(reference, steps) for reference in references.values())]
                    for _ in range(arguments.rounds)]
            compare(case, kerf, references)
            if arguments.check:
                print(f"{case.label:16}{f'{ranks} x {threads}':>16}  outputs agree", flush=True)
                continue
            ours, *theirs = (statistics.median(column) for column in zip(*rounds))
            better = 1 + theirs.index(min(theirs))
            ratios = [row[0] / row[better] for row in rounds]
            ratio = statistics.median(ratios)
            low, high = interval(ratios, lambda draw: drawn(draw, ratios))
            print(f"{case.label:16}{f'{ranks} x {threads}':>16}{ours * 1e3:9.1f} ms{theirs[0] * 1e3:12.1f} ms"
                  f"{theirs[1] * 1e3:9.1f} ms{ratio:8.2f}   ({low:.2f}..{high:.2f}){' *' if ratio > 1.1 else ''}", flush=True)
            rows.append({"model": case.label, "ranks": ranks, "threads": threads, "kerf_seconds": ours,
                         "onnxruntime_seconds": theirs[0], "openvino_seconds": theirs[1], "ratio": ratio,
                         "interval": [low, high], "ratios": ratios})
    for threads in (1, 2):
        ratios = [row["ratios"] for row in rows if (row["ranks"], row["threads"]) == (1, threads)]
        if len(ratios) > 1:
            mean = statistics.geometric_mean([statistics.median(r) for r in ratios])
            low, high = interval(ratios, lambda draw: statistics.geometric_mean([drawn(draw, r) for r in ratios]))
            print(f"{'geometric mean':16}{f'1 x {threads}':>16}{mean:47.2f}   ({low:.2f}..{high:.2f})")
    return rows, packages


def first(cases, packages, arguments):
    """The table of first outputs, on two threads."""
    print(f"\n{'first output':16}{'Kerf':>16}{ENGINES[0]:>15}{ENGINES[1]:>12}{'ratio':>8}   (min..max of rounds), of {ENGINES[0]}")
    for case in cases:
        kerf = packages[case.label, 1]
        kerf.flags[0] = "--threads=2"
        kerf.first_seconds()
        rounds = []
        for _ in range(max(3, arguments.rounds // 2)):
            with Realtime(arguments.realtime):
                rounds.append([kerf.first_seconds()])
            rounds[-1] += [first_seconds(engine, case, 2, arguments.realtime) for engine in ENGINES]
        ours, *theirs = (statistics.median(column) for column in zip(*rounds))
        ratios = [row[0] / row[1] for row in rounds]
        print(f"{case.label:16}{ours:14.2f} s{theirs[0]:13.2f} s{theirs[1]:10.2f} s{statistics.median(ratios):8.2f}   "
              f"({min(ratios):.2f}..{max(ratios):.2f})", flush=True)
        yield {"model": case.label, "kerf_first_seconds": ours, "onnxruntime_first_seconds": theirs[0],
               "openvino_first_seconds": theirs[1]}


def phases(cases, packages):
    print(f"\n{'model':16}{'import':>18}{'plan, 4 ranks':>22}{'compile, 4 ranks':>22}{'compile, 1 rank':>18}")
    for case in cases:
        if case.batch > 1:
            continue
        model = [case.model, "--dim", "batch=4"]
        row, text = {"model": case.name}, f"{case.label:16}"
        for phase, command in (("import", ["inspect", *model]),
                               ("plan", ["plan", *model, "--devices=cpu:4", "-q"]),
                               ("compile", ["compile", *model, "--devices=cpu:4", "-q", "-o", OUT / "time.kerf"])):
            seconds, mebibytes = measured(KERF, *command)
            row[phase] = {"seconds": seconds, "peak_mebibytes": mebibytes}
            text += f"{seconds:12.2f} s {mebibytes:5.0f} MiB"
        row["compile_one"] = packages[case.label, 1].compile_seconds
        print(f"{text}{row['compile_one']:16.2f} s", flush=True)
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="compare outputs only")
    parser.add_argument("--realtime", action="store_true", help="steps run before all other work of the machine (root)")
    arguments = parser.parse_args()
    if unknown := {name.partition("/")[0] for name in arguments.models} - {name.partition("/")[0] for name in MODELS}:
        parser.error(f"unknown models {sorted(unknown)}, expected some of {MODELS}")
    OUT.mkdir(parents=True, exist_ok=True)
    cases = [Case(name) for name in arguments.models or MODELS]
    rows, packages = steady(cases, arguments)
    if not arguments.check:
        rows += first(cases, packages, arguments)
        rows += phases(cases, packages)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
