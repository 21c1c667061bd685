#!/usr/bin/env python3
"""cuda_recorded.py OUT LIBRARY CASE ... [--seeds N] [--cublaslt]

The CUDA host side without a GPU (docs/CudaRuntime.md): each case is compiled for
GPUs with host kernels and for the CPU on the same mesh, both run from the same
inputs, the first over the recording driver LIBRARY in several random orders of
execution. Results must be equal to 1e-5 of the largest magnitude, most are to the
bit, and the driver reports nothing. In bf16 and f16, where what is fused and stored, and so
where it is rounded, differs, they must be as near to those in float32 as the CPU's
are, up to a quarter, or as one unit in the last place.

A case is FOLDER[:FLAGS], FOLDER one of a model, with `train` among the flags a
step of training: `models/mlp:--mesh=tp=2`, `training/gpt2:train --mesh=pp=2`.

With --cublaslt products are LIBRARY's, too, instead of the CPU's, and each must do
what it is offered to do beside (docs/Package.md).
"""
import argparse
import json
import os
import pathlib

import numpy as np

from kerf_tests import Checks, fresh_folder, kerf

STEPS = 3  # enqueued, captured, replayed
UNITS = {"f32": 1e-5, "bf16": 2**-8, "f16": 2**-11}
SCALARS = {"train.learning_rate": 0.002}


def compile_package(checks, name, model, target, flags):
    result = kerf("compile", model, "--dim=batch=8", *flags, "-o", target, timeout=900)
    checks.expect(f"{name}: compiles", result.returncode == 0, f"  {flags}\n  {result.stderr[:2000]}")
    return result.returncode == 0


def run(package, out, environment, ranks, loudness="-q"):
    manifest = json.loads((package / "manifest.json").read_text())
    scalars = [f"--input={i['name']}={SCALARS.get(i['name'], 0.1)}" for i in manifest["inputs"]
               if i["name"].startswith("train.")]
    return kerf(package, "--seed=1", loudness, f"--repeat={STEPS}", f"--output-dir={out}", "--threads=1", "--timeout=60",
                *scalars, tool="kerf-run", env=dict(os.environ, **environment), timeout=600)


def check_case(checks, arguments, number, case):
    folder, _, text = case.partition(":")
    flags = text.split()
    name = f"{pathlib.Path(folder).name} {text}"
    if "train" in flags:
        flags.remove("train")
        flags += ["--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=0.002,wd=0.1"]
    sizes = [int(part.split("=")[1]) for flag in flags if flag.startswith("--mesh=") for part in flag[7:].split(",")]
    ranks = int(np.prod(sizes)) if sizes else 1
    model = pathlib.Path(folder) / "model.onnx"
    gpu, cpu = arguments.out / f"{number}.gpu.kerf", arguments.out / f"{number}.cpu.kerf"
    if not (compile_package(checks, name, model, gpu,
                            [f"--devices=cuda:0-{ranks - 1}", "--host-kernels", "--ptxas=none", *flags]) and
            compile_package(checks, name, model, cpu, [f"--devices=cpu:{ranks}", "--target-cpu=x86-64-v2",
                                                *(flag for flag in flags if flag != "--fused-attention")])):
        return
    if "--fused-attention" in flags:
        library = json.loads((gpu / "manifest.json").read_text())["library"]
        fused = {call["kind"] for call in library if call["kind"].startswith("attention")}
        wanted = {"attention", "attention_gradient"} if "--train" in flags else {"attention"}
        checks.expect(f"{name}: attention is one call", fused == wanted, str(fused))
    want = arguments.out / f"{number}.want"
    result = run(cpu, want, {}, ranks)
    checks.expect(f"{name}: on the CPU", result.returncode == 0, f"  {result.stderr}")
    exact = None
    precision = next((flag[12:] for flag in flags if flag.startswith("--precision=")), "f32")
    if precision != "f32":
        wide, exact = arguments.out / f"{number}.wide.kerf", arguments.out / f"{number}.wide"
        kept = [flag for flag in flags if flag not in ("--fused-attention", f"--precision={precision}")]
        if not compile_package(checks, name, model, wide, [f"--devices=cpu:{ranks}", "--target-cpu=x86-64-v2", *kept]):
            return
        result = run(wide, exact, {}, ranks)
        checks.expect(f"{name}: in float32", result.returncode == 0, f"  {result.stderr}")
    same = True
    for seed in range(1, arguments.seeds + 1):
        got = arguments.out / f"{number}.got"
        environment = {"KERF_CUDA_DRIVER": str(arguments.library), "KERF_NCCL": str(arguments.library),
                       "KERF_RECORDING": f"seed={seed}"}
        if arguments.cublaslt:
            environment |= {"KERF_CUBLASLT": str(arguments.library), "KERF_CUDA_CACHE": "none"}
        result = run(gpu, got, environment, ranks, "-v" if arguments.cublaslt else "-q")
        checks.expect(f"{name}: order {seed}", result.returncode == 0, f"  {result.stderr}")
        if result.returncode:
            continue
        if arguments.cublaslt:
            check_offers(checks, name, gpu, result.stdout + result.stderr)
        for file in sorted(want.glob("*.npy")):
            a, b = np.load(file), np.load(got / file.name)
            limit = UNITS[precision] * np.max(np.abs(a), initial=0)
            same = same and np.array_equal(a, b)
            if exact:
                a, rounded = np.load(exact / file.name), a
                limit += 2 * np.max(np.abs(a - rounded), initial=0)
            checks.expect(f"{name}: {file.stem} in order {seed}",
                          a.shape == b.shape and np.isfinite(a).all() and (np.abs(a - b) <= limit).all(),
                          f"  differs by {np.max(np.abs(a - b), initial=0)}, allowed are {limit}")
    print(f"{name}: {arguments.seeds} orders of execution, {'equal to the bit' if same else 'within the bounds'}", flush=True)


def check_offers(checks, name, package, said):
    library = json.loads((package / "manifest.json").read_text())["library"]
    offered = sum("bias_gradient" in call or "relu_gradient" in call for call in library)
    checks.expect(f"{name}: offers", offered and f"{offered} of {offered} kernels are done by products" in said,
                  f"  {offered} in the package, {said}")


def check_needed(checks, arguments, number, needed):
    """Without any one of the first waits on a device the driver must report a race."""
    device, count = map(int, needed.split(":"))
    for index in range(count):
        result = run(arguments.out / f"{number}.gpu.kerf", arguments.out / f"{number}.dropped",
                     {"KERF_CUDA_DRIVER": str(arguments.library), "KERF_NCCL": str(arguments.library),
                      "KERF_RECORDING": f"drop=wait:{device}:{index}"}, 0)
        checks.expect(f"device {device} without wait {index}", result.returncode == 70 and "race: " in result.stderr,
                      f"  exit {result.returncode}: {result.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cublaslt", action="store_true")
    parser.add_argument("--needed", action="append", default=[], metavar="DEVICE:COUNT",
                        help="the first COUNT waits on DEVICE are needed: dropping one must be noticed")
    arguments = parser.parse_args()
    fresh_folder(arguments.out)  # files of another case of the same number would be compared
    checks = Checks()
    for number, case in enumerate(arguments.cases):
        check_case(checks, arguments, number, case)
        for needed in arguments.needed:
            check_needed(checks, arguments, number, needed)
    checks.finish()


if __name__ == "__main__":
    main()
