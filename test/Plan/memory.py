"""Memory of a plan: predicted, laid out, and really touched.

    memory.py GRAPHS TRAINING [--all]

`kerf plan` lowers what it chose, so `peak` is what the package lays out, and
`predicted` what the search went by. Full-size models: within 5% of each other
in training, 2% in inference; small ones, where a few buffers of packed
gradients weigh much, within 10%. Then packages run: what a larger batch makes
the process touch more must be what the plans say, within 5% (both processes are
larger than this one, whose size a new process starts with).

REQUIRES: kerf
RUN: %python %s %inputs/graphs %inputs/training
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

GRAPHS, TRAINING = sys.argv[1:3]
EVERYTHING = "--all" in sys.argv
LOSS = ["--train", "--loss=cross_entropy(logits,labels)"]
ADAMW = [*LOSS, "--optimizer=adamw,lr=0.001"]
failed = False


def say(fine, text):
    global failed
    failed |= not fine
    print(f"{'ok' if fine else 'WRONG':6}{text}", flush=True)


def mesh_flags(mesh):
    degrees = [int(part.split("=")[1]) for part in mesh.split(",") if part]
    count = 1
    for degree in degrees:
        count *= degree
    return ["--memory-limit=1TiB", *([f"--devices={count}", f"--mesh={mesh}"] if mesh else [])]


def compare(model, batch, options, meshes, bar):
    for mesh in meshes:
        command = ["kerf", "plan", f"{model}/model.onnx", "--dim", f"batch={batch}", "--json", *options,
                   *mesh_flags(mesh)]
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode:
            say(False, f"{' '.join(command)}\n{process.stderr}")
            continue
        for number, device in enumerate(json.loads(process.stdout)["memory"]["per_device"]):
            parts = ("parameters", "optimizer", "gradients", "activations", "workspace")
            ratio = device["predicted"]["peak"] / device["peak"]
            say(abs(ratio - 1) <= bar and sum(device[part] for part in parts) == device["peak"],
                f"{pathlib.Path(model).name}, {'training' if options else 'inference'}, mesh {mesh or 1}, stage {number}: "
                f"{device['peak']} bytes, predicted {ratio:.3f} of it")


def touched(model, batch, mesh, folder):
    """Peak of the process's resident memory, of the plan, of the manifest's arenas and parameters."""
    package = folder / f"{batch}.kerf"
    subprocess.run(["kerf", "compile", f"{TRAINING}/{model}/model.onnx", "--dim", f"batch={batch}", *ADAMW,
                    *mesh_flags(mesh), "-o", str(package)], check=True, capture_output=True)
    plan = json.loads((package / "plan.json").read_text())
    stages = plan["memory"]["per_device"]
    ranks = plan["devices"] // len(stages)
    arenas = sum(stage["arena_bytes"] for stage in json.loads((package / "manifest.json").read_text())["stages"])
    laid_out = sum(stage["gradients"] + stage["activations"] for stage in stages)
    say(arenas == laid_out, f"{model}, batch {batch}, mesh {mesh or 1}: arenas of {arenas} bytes, planned {laid_out}")
    process = subprocess.Popen(["kerf-run", str(package), "--seed=1", "--repeat=2", "--threads=1", "-q"],
                               stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        say(False, f"kerf-run of {model}: status {status}")
    return usage.ru_maxrss * 1024, sum(stage["peak"] for stage in stages) * ranks


def main():
    compare(f"{GRAPHS}/gpt2-124m", 4, ADAMW, ["", "dp=2", "tp=2", "pp=2", "pp=2,dp=2", "pp=4"] if EVERYTHING
            else ["dp=2", "pp=2"], 0.05)
    compare(f"{GRAPHS}/gpt2-124m", 4, [], ["", "dp=2", "tp=2", "pp=2"] if EVERYTHING else ["tp=2"], 0.02)
    compare(f"{GRAPHS}/resnet50", 32, [*LOSS, "--batch-norm=local"], ["", "dp=2", "tp=2", "pp=2"] if EVERYTHING
            else ["dp=2"], 0.05)
    compare(f"{GRAPHS}/resnet50", 4, [], ["", "dp=2", "tp=2"], 0.02)
    compare(f"{GRAPHS}/vgg16", 32, LOSS, ["", "dp=2", "dp=4"], 0.05)
    compare(f"{GRAPHS}/vgg16", 4, [], ["", "dp=2", "tp=2"], 0.02)
    compare(f"{TRAINING}/gpt2", 8, ADAMW, ["", "dp=2", "tp=2", "pp=2"], 0.10)
    compare(f"{TRAINING}/llama", 8, ADAMW, ["", "dp=2", "tp=2", "pp=2", "pp=2,dp=2"], 0.10)
    for model, small, large in (("gpt2", 512, 4096), ("llama", 512, 4096)):
        for mesh in ("", "dp=2", "tp=2", "pp=2") if EVERYTHING else ("", "tp=2"):
            with tempfile.TemporaryDirectory() as folder:
                before = touched(model, small, mesh, pathlib.Path(folder))
                after = touched(model, large, mesh, pathlib.Path(folder))
            ratio = (after[0] - before[0]) / (after[1] - before[1])
            say(abs(ratio - 1) <= 0.05, f"{model}, mesh {mesh or 1}: {after[1] - before[1]} bytes more are planned, "
                f"{ratio:.3f} of it touched")
    sys.exit(failed)


main()
