#!/usr/bin/env python3
"""bench/compare_builds.py OLD NEW [--only TEXT] [--full] [--speed [PAIRS]] [--out DIR]

Whether a change of the compiler changed what it gives. OLD and NEW are build
folders. Every case (a model of the suite, a mesh, inference or training, CPU or
GPU) is compiled by both, and compared are

  plan      plan.json but for the time that planning took and the memory that was
            laid out: cost, bound, shardings
  package   manifest, code and weights, byte for byte; where they are equal, so
            is all that follows
  arena     bytes that each stage's arena and parameters take: equal or smaller
  bytes     what ranks send, planned and counted by a run
  results   of three steps from drawn inputs: to the bit on one rank, elsewhere
            within 1e-5 of the largest magnitude (2e-2 for 16-bit types)

GPU packages have host kernels and run over the recording driver of their build.
What differs is listed; the exit code is 1 if something got worse: another
plan cost, more bytes, a larger arena, other results.

--full takes every mesh of every model, else a third of the cases. --speed runs
the packages of ResNet-50, BERT, GPT-2 and two training steps in alternating
pairs (20) and prints the median ratio of their step times, new by old, with a
95% interval of the bootstrap; the same for the times to plan and to compile.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Each compilation is to be a whole one: no kernels are kept from one to the next.
os.environ["XDG_CACHE_HOME"] = "/dev/null"
MODELS = ROOT / "test/Inputs/models"
TRAINED = ROOT / "test/Inputs/training"
STEPS = 3
SCALARS = {"train.learning_rate": 0.002}
MESHES = ["", "--mesh=dp=2", "--mesh=tp=2", "--mesh=tp=3", "--mesh=dp=2,tp=2", "--mesh=pp=2 --micro-batches=2",
          "--mesh=pp=2,tp=2 --micro-batches=4"]
OPTIMIZERS = ["adamw,lr=0.002,wd=0.1", "sgd,lr=0.002,momentum=0.9"]
LARGE = ["resnet50", "bert-base", "gpt2-124m"]


def cases(full):
    """(name, model, flags, device kind) of every comparison."""
    found = []
    for device in ("cpu", "cuda"):
        for folder in sorted(MODELS.iterdir()):
            if (folder / "model.onnx").exists():
                for mesh in MESHES:
                    for precision in ("", "--precision=bf16"):
                        found.append((folder / "model.onnx", [*mesh.split(), *precision.split()], device))
        for index, folder in enumerate(sorted(TRAINED.iterdir())):
            if (folder / "model.onnx").exists():
                for mesh in MESHES:
                    for precision in ("", "--precision=bf16"):
                        found.append((folder / "model.onnx", [
                            "--train", "--loss=cross_entropy(logits,labels)", f"--optimizer={OPTIMIZERS[index % 2]}",
                            *mesh.split(), *precision.split()], device))
    if not full:
        found = found[::3]
    for model, flags, device in found:
        mesh = " ".join(f for f in flags if not f.startswith(("--loss", "--optimizer")))
        yield f"{device} {model.parent.name} {mesh}".strip(), model, flags, device


def ranks_of(flags):
    sizes = [int(axis.split("=")[1]) for flag in flags if flag.startswith("--mesh=") for axis in flag[7:].split(",")]
    return int(np.prod(sizes)) if sizes else 1


def command(*arguments, environment=None):
    result = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=900,
                            env={**os.environ, "OMP_WAIT_POLICY": "passive", **(environment or {})})
    return result.returncode, (result.stderr.splitlines() or [""])[0]


def compiled(build, model, flags, device, package):
    ranks = ranks_of(flags)
    place = [f"--devices=cpu:{ranks}"] if device == "cpu" else [f"--devices=cuda:0-{ranks - 1}", "--host-kernels",
                                                              "--ptxas=none"]
    return command(build / "bin/kerf", "compile", model, "--dim=batch=8", "--target-cpu=x86-64-v3", *place, *flags, "-q",
                   "-o", package)


def executed(build, package, out, device, steps=STEPS):
    manifest = json.loads((package / "manifest.json").read_text())
    scalars = [f"--input={i['name']}={SCALARS.get(i['name'], 0.1)}" for i in manifest["inputs"]
               if i["name"].startswith("train.")]
    library = str(build / "lib/libkerf_recording_cuda.so")
    environment = {} if device == "cpu" else {"KERF_CUDA_DRIVER": library, "KERF_NCCL": library,
                                              "KERF_RECORDING": "seed=1"}
    out.mkdir(exist_ok=True)
    return command(build / "bin/kerf-run", package, "--seed=1", "-q", f"--repeat={steps}", "--threads=1",
                   f"--output-dir={out}", f"--stats={out / 'run.json'}", "--timeout=60", *scalars, environment=environment)


def decided(value):
    """A plan as it is decided: no seconds that planning took, and no memory. What was laid out is compared as arenas,
    what was predicted by bench/memory_prediction.py."""
    if isinstance(value, dict):
        return {key: decided(v) for key, v in value.items()
                if key not in ("planning_seconds", "per_device", "peak_memory_bytes")}
    return [decided(v) for v in value] if isinstance(value, list) else value


def differing(old, new, path=""):
    """Paths at which two documents differ, the first few."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [p for key in sorted(set(old) | set(new)) for p in differing(old.get(key), new.get(key), f"{path}.{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [p for i, (a, b) in enumerate(zip(old, new)) for p in differing(a, b, f"{path}[{i}]")]
    return [] if old == new else [path.lstrip(".")]


def compare_results(old, new, ranks, narrow):
    worse = []
    for file in sorted(old.glob("*.npy")):
        a, b = np.load(file), np.load(new / file.name)
        if a.shape == b.shape and a.tobytes() == b.tobytes():
            continue
        scale = np.max(np.abs(a[np.isfinite(a)]), initial=0) if a.dtype.kind == "f" else 0
        gap = np.max(np.abs(a.astype(np.float64) - b), initial=0) if a.shape == b.shape else np.inf
        text = f"result {file.stem} differs by {gap:.3g} of {scale:.3g}"
        worse.append((text, ranks == 1 or not gap <= (2e-2 if narrow else 1e-5) * scale))
    return worse


def compare_case(builds, out, case):
    """Lines on what differs, each with whether it is worse."""
    name, model, flags, device = case
    packages = [out / "old.kerf", out / "new.kerf"]
    subprocess.run(["rm", "-rf", *packages, out / "old", out / "new"], check=True)
    endings = [compiled(build, model, flags, device, package) for build, package in zip(builds, packages)]
    if any(code for code, _ in endings):
        same = endings[0][0] == endings[1][0]
        return "refused by both" if same else "", [] if same else [(f"old: {endings[0]}, new: {endings[1]}",
                                                                   not endings[0][0])]
    plans = [decided(json.loads((package / "plan.json").read_text())) for package in packages]
    lines = [(f"plan {path}", True) for path in differing(*plans)[:6]]
    files = {p.relative_to(packages[0]) for p in packages[0].rglob("*") if p.is_file() and p.name != "plan.json"}
    if all((packages[1] / f).exists() and (packages[0] / f).read_bytes() == (packages[1] / f).read_bytes() for f in files):
        return "same package", lines
    manifests = [json.loads((package / "manifest.json").read_text()) for package in packages]
    lines += [(f"manifest {path}", False) for path in differing(*[
        {k: v for k, v in m.items() if k != "files"} for m in manifests])[:4]]
    for stage, (a, b) in enumerate(zip(manifests[0]["stages"], manifests[1]["stages"])):
        for key in ("arena_bytes", "planned_bytes"):
            if a[key] != b[key]:
                lines.append((f"stage {stage}: {key} {a[key]} -> {b[key]}", b[key] > a[key]))
    for build, package, folder in zip(builds, packages, ("old", "new")):
        code, error = executed(build, package, out / folder, device)
        if code:
            return "", [*lines, (f"{folder}: run ends with {code}: {error}", True)]
    sent = [json.loads((out / folder / "run.json").read_text())["communication"] for folder in ("old", "new")]
    for key in ("bytes_per_rank", "planned_bytes_per_rank", "total_bytes"):
        if sent[0][key] != sent[1][key]:
            lines.append((f"{key} {sent[0][key]} -> {sent[1][key]}", sent[1][key] > sent[0][key]))
    lines += compare_results(out / "old", out / "new", ranks_of(flags), "--precision=bf16" in flags)
    return "other package", lines


def interval(ratios):
    """Median and a 95% interval of it by the bootstrap, drawn from one seed."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return statistics.median(ratios), medians[50], medians[1949]


def step_seconds(build, package, out):
    code, error = executed(build, package, out, "cpu", steps=10)
    if code:
        sys.exit(f"error: {package}: {error}")
    return statistics.median(json.loads((out / "run.json").read_text())["time"]["step_seconds_all"][2:])


def compare_speed(builds, out, pairs):
    cache = pathlib.Path(os.environ.get("KERF_CACHE_DIR", ROOT / "build/models"))
    runs = [(name, cache / name / "model.onnx", []) for name in LARGE if (cache / name / "model.onnx").exists()]
    for name in ("gpt2", "conv-batch-norm"):
        runs.append((f"{name} step", TRAINED / name / "model.onnx",
                     ["--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=0.002"]))
    for name, model, flags in runs:
        ratios = {"plan": [], "compile": [], "step": []}
        for pair in range(pairs):
            seconds = {}
            for which in ((0, 1), (1, 0))[pair % 2]:
                build, package = builds[which], out / f"{which}.kerf"
                for what, verb in (("plan", ["plan"]), ("compile", ["compile", "-o", package])):
                    if what == "compile":
                        subprocess.run(["rm", "-rf", package], check=True)
                    start = time.perf_counter()
                    code, error = command(build / "bin/kerf", verb[0], model, "--dim=batch=8", "--devices=cpu:2", *flags,
                                          "-q", *verb[1:])
                    if code:
                        sys.exit(f"error: {name}: {error}")
                    seconds[what, which] = time.perf_counter() - start
                seconds["step", which] = step_seconds(build, package, out / "speed")
            for what, values in ratios.items():
                values.append(seconds[what, 1] / seconds[what, 0])
        print(name, *(f"{what} {m:.3f} [{low:.3f}, {high:.3f}]" for what, (m, low, high) in
                      ((what, interval(values)) for what, values in ratios.items())), sep="  ", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--speed", type=int, nargs="?", const=20)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/compare")
    arguments = parser.parse_args()
    builds = [arguments.old.resolve(), arguments.new.resolve()]
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.speed:
        compare_speed(builds, arguments.out, arguments.speed)
        return
    counts, worse = {}, 0
    for case in cases(arguments.full):
        if arguments.only not in case[0]:
            continue
        ending, lines = compare_case(builds, arguments.out, case)
        counts[ending] = counts.get(ending, 0) + bool(ending)
        for text, is_worse in lines:
            worse += is_worse
            print(f"{'WORSE' if is_worse else 'other'}  {case[0]}: {text}", flush=True)
    print(", ".join(f"{count} {ending}" for ending, count in sorted(counts.items()) if ending) + f"; {worse} worse")
    sys.exit(bool(worse))


main()
