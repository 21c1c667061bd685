#!/usr/bin/env python3
"""cuda_packages.py OUT MODEL_FOLDER ... [--train DIR ...] [--devices cuda:0-7] [--ptxas PATH|none|found]

Compiles each model for GPUs and checks the package (docs/Cuda.md): every kernel
has an entry that the PTX defines, every launch is one that a GPU takes, the PTX
names nothing outside of itself and keeps nothing in local memory, files have
their sizes, and the runtime that finds no GPU says so. With ptxas, cubins for
three GPUs; a kernel that spills registers is listed, and a failure.
"""
import argparse
import json
import pathlib
import re
import shutil

from kerf_tests import Checks, kerf

ARCHS = ["sm_80", "sm_90", "sm_100"]


def find_ptxas():
    for place in (shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas"):
        if place and pathlib.Path(place).exists():
            return place
    return None


def check_entry(checks, name, cuda, entries):
    grid, block = cuda["grid"], cuda["block"]
    threads = block[0] * block[1] * block[2]
    fine = (cuda["entry"] in entries and 1 <= threads <= 1024 and threads % 32 == 0 and
            0 <= grid[0] < 2**31 and grid[1] == grid[2] == 1 and
            len(cuda["bytes"]) == len(cuda["access"]) == cuda["buffers"] and
            # One pointer per buffer, and the record of failures.
            entries.get(cuda["entry"]) == cuda["buffers"] + cuda["scalars"] + bool(cuda.get("fails")))
    checks.expect(f"{name}: entry {cuda['entry']}", fine, f"  {cuda}, {entries.get(cuda['entry'])} parameters in the PTX")


def check_library(checks, name, call):
    """The post-ops that cuBLASLt and cuDNN have (docs/CudaRuntime.md); all others are kernels."""
    ops = [op["kind"] for op in call.get("post_ops", [])]
    left = list(ops)
    if call["kind"] == "matmul" and "bias" not in call and left[:1] == ["linear"] and not call["post_ops"][0].get("beta"):
        left.pop(0)
    if left[:1] in (["add"], ["sum"]):
        left.pop(0)
    if left == ["gelu_tanh_gradient"] and call["kind"] == "matmul" and "bias" not in call and "cuda" in call:
        left = []  # and a kernel for where cuBLASLt refuses it
    if left[:1] in (["relu"], ["gelu_tanh"] if call["kind"] == "matmul" else ["relu"]):
        left.pop(0)
    checks.expect(f"{name}: {call['kind']} at {call.get('node')} is one of the library's", not left, f"  post-ops {ops}")


def check_package(checks, name, folder, with_ptxas):
    manifest = json.loads((folder / "manifest.json").read_text())
    target = manifest["target"]
    checks.expect(f"{name}: target", target["device"] == "cuda" and target["cpu"] == "x86-64-v2", f"  {target}")
    files = {f["path"]: f["bytes"] for f in manifest["files"]}
    wanted = ["program.so", target["cuda"]["ptx"]] + [c["file"] for c in target["cuda"]["cubins"]]
    for file in wanted:
        checks.expect(f"{name}: {file}", files.get(file) == (folder / file).stat().st_size)
    ptx = (folder / target["cuda"]["ptx"]).read_text()
    entries = {match[1]: match[2].count(".param") for match in
               re.finditer(r"\.visible \.entry (\w+)\(([^)]*)\)", ptx)}
    for call in manifest["library"]:
        if call["kind"] == "matmul" or "cuda" not in call:
            check_library(checks, name, call)
    calls = [call["cuda"] for call in manifest["library"] if "cuda" in call]
    for cuda in [kernel["cuda"] for kernel in manifest["kernels"]] + calls:
        check_entry(checks, name, cuda, entries)
    for word in (".extern", ".local", "call.uni", "__nv"):
        found = [line for line in ptx.splitlines() if word in line]
        checks.expect(f"{name}: no {word}", not found, "  " + "\n  ".join(found[:5]))
    archs = [cubin["arch"] for cubin in target["cuda"]["cubins"]]
    checks.expect(f"{name}: cubins", archs == (ARCHS if with_ptxas else []), f"  {archs}")
    return f"{len(manifest['kernels'])} kernels, {len(calls)} calls, {len(entries)} entries"


def compile_model(checks, arguments, name, folder, flags, ptxas):
    package = arguments.out / f"{name}.kerf"
    model = folder / "model.onnx"
    command = ["compile", model, f"--devices={arguments.devices}", f"--ptxas={ptxas or 'none'}", "-o", package, *flags]
    result = kerf(*command, timeout=1800)
    said = f"  kerf {' '.join(map(str, command))}\n  {result.stderr.strip()[:2000]}"
    checks.expect(f"{name}: compiles", result.returncode == 0, said)
    if result.returncode:
        return
    spills = [line for line in result.stderr.splitlines() if "spill" in line]
    checks.expect(f"{name}: no spills", not spills, "  " + "\n  ".join(spills))
    summary = check_package(checks, name, package, bool(ptxas))
    print(f"{name}: {summary}, {'cubins' if ptxas else 'PTX alone'}; {result.stdout.strip()}", flush=True)
    run = kerf("run", package, "--random-inputs", timeout=60)
    checks.expect(f"{name}: no GPU here", run.returncode == 0 or "CUDA" in run.stderr,
                  f"  {run.returncode}: {run.stderr}")
    shutil.rmtree(package)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("folders", type=pathlib.Path, nargs="*")
    parser.add_argument("--train", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--devices", default="cuda:0-7")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--ptxas", default="found")
    parser.add_argument("--flag", action="append", default=[])
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    ptxas = find_ptxas() if arguments.ptxas == "found" else arguments.ptxas
    ptxas = None if ptxas == "none" else ptxas
    checks = Checks()
    batch = [f"--dim=batch={arguments.batch}"] if arguments.batch else []
    for folder in arguments.folders:
        compile_model(checks, arguments, folder.name, folder, batch + arguments.flag, ptxas)
    for folder in arguments.train:
        flags = batch + ["--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=0.002,wd=0.1"]
        compile_model(checks, arguments, f"{folder.name}-train", folder, flags + arguments.flag, ptxas)
    checks.finish()


if __name__ == "__main__":
    main()
