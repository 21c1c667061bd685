#!/usr/bin/env python3
"""meshes.py MODEL_FOLDER OUT [--batch N] [--inputs DIR] [--meshes SET] [--no-pipeline]

Runs a model over many meshes and compares every output with the recorded ones
(rtol 1e-3, atol 1e-5), and counted with planned bytes (equal). SET is `all`
(1, 2, 4 and 8 ranks; data, tensor, pipeline and their hybrids; automatic; five
random plans), `half` (every second of these; which ones differs between models),
`few` or `auto4`.
"""
import argparse
import json
import pathlib
import shutil

from compare import compare_folders
from kerf_tests import Checks, ending, in_parallel, kerf

MESHES = {
    "all": [(1, ""), (2, "dp=2"), (2, "tp=2"), (2, "pp=2"), (2, ""),
            (4, "dp=4"), (4, "tp=4"), (4, "pp=4"), (4, "dp=2,tp=2"), (4, "dp=2,pp=2"), (4, "tp=2,pp=2"), (4, ""),
            (8, "dp=8"), (8, "tp=8"), (8, "pp=8"), (8, "dp=2,tp=2,pp=2"), (8, "")],
    "few": [(1, ""), (2, "dp=2"), (2, "tp=2"), (2, "pp=2"), (4, "dp=2,tp=2"), (8, "dp=2,tp=2,pp=2"), (4, "")],
    "auto4": [(4, "")],
}
MESHES["half"] = MESHES["all"]
SEEDS = {"all": [(2, 1), (4, 2), (4, 3), (8, 4), (8, 5)], "few": [(4, 1), (8, 2)], "auto4": []}
SEEDS["half"] = SEEDS["all"]


def run(checks, arguments, name, ranks, flags):
    out = arguments.out / name.replace(" ", "-")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    folder = arguments.folder
    inputs = arguments.inputs or folder
    command = ["run", folder / "model.onnx", f"--devices=cpu:{ranks}", "--threads=1", "--timeout=120",
               f"--output-dir={out}", f"--stats={out / 'run.json'}", *flags]
    if arguments.batch:
        command.append(f"--dim=batch={arguments.batch}")
    for path in sorted((inputs / "inputs").glob("*.npy")):
        command += ["--input", f"{arguments.rename.get(path.stem, path.stem)}=@{path}"]
    result = kerf(*command, timeout=1200)
    said = f"  kerf {' '.join(map(str, command))}\n  {result.stderr.strip()[:2000]}"
    if result.returncode:
        checks.expect(name, False, f"  {ending(result.returncode)}\n{said}")
        return
    for output, agree, text in compare_folders(out, inputs / "outputs"):
        checks.expect(f"{name}: {output}", agree, f"  {text}\n{said}")
    communication = json.loads((out / "run.json").read_text())["communication"]
    counted, planned = communication["bytes_per_rank"], communication["planned_bytes_per_rank"]
    checks.expect(f"{name}: bytes", counted == planned, f"  counted {counted}, planned {planned}\n{said}")
    shutil.rmtree(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--inputs", type=pathlib.Path, help="folder with inputs/ and outputs/ (default: the model's)")
    parser.add_argument("--meshes", choices=MESHES, default="all")
    parser.add_argument("--rename", action="append", default=[], help="FILE=INPUT: a name that a file cannot have")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    arguments.rename = dict(text.split("=", 1) for text in arguments.rename)
    checks, jobs = Checks(), []
    for ranks, mesh in MESHES[arguments.meshes]:
        jobs.append((run, checks, arguments, f"{ranks} ranks {mesh or 'auto'}", ranks,
                     [f"--mesh={mesh}"] if mesh else []))
    for ranks, seed in SEEDS[arguments.meshes]:
        jobs.append((run, checks, arguments, f"{ranks} ranks random {seed}", ranks,
                     ["--solver=random", f"--seed={seed}"]))
    if arguments.meshes == "half":
        jobs = jobs[:1] + jobs[1 + len(arguments.folder.name) % 2::2]
    in_parallel(jobs, arguments.workers)
    checks.finish()


if __name__ == "__main__":
    main()
