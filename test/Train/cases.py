# Every case of test/Inputs/autodiff (losses, reductions, label smoothing; optimizers with all that they take; clipping,
# parts of the weights) through `kerf train`: PyTorch's losses, gradient norms and weights on one rank, with the batch
# cut, by tensors, with what is cut drawn at random, and in stages. With --all every case on every mesh, otherwise each on
# one of them in turn, and without those that onnx-losses.py has.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np

from kerf_tests import Checks, fresh_folder, in_parallel, kerf, tensors

OUT = fresh_folder(sys.argv[1])
CASES = json.loads((INPUTS / "autodiff/cases.json").read_text())
MESHES = {"one": [], "dp": ["--devices=cpu:2", "--mesh=dp=2"], "tp": ["--devices=cpu:2", "--mesh=tp=2"],
          "pp": ["--devices=cpu:2", "--mesh=pp=2", "--micro-batches=2"],
          "random": ["--devices=cpu:2", "--mesh=tp=2", "--solver=random", "--seed=3"]}
checks = Checks()


def close(found, expected, tolerance):
    """Within the tolerance, relative to numbers larger than one."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    return found.shape == expected.shape and bool(np.all(np.abs(found - expected) <= tolerance * np.maximum(1, np.abs(expected))))


def run(number, case, mesh):
    name = f"{number:02}-{mesh} {case['name']}, {case['optimizer']}"
    files = OUT / f"{number:02}-{mesh}"
    integers = {"labels"} | ({"y"} if case["model"] in ("tokens", "columns") else set())
    np.savez(files.with_suffix(".npz"), **{
        key: np.array(value["data"], np.int64 if key in integers else np.float32).reshape(value["shape"])
        for key, value in case["inputs"].items()})
    options = case["options"]
    assert set(options) <= {"frozen", "trainable", "clip_norm"}, options
    flags = [f"--{key}={name}" for key in ("frozen", "trainable") for name in options.get(key, [])]
    if "clip_norm" in options:
        flags.append(f"--clip-norm={options['clip_norm']}")
    log, trained = files.with_suffix(".jsonl"), files.with_suffix(".safetensors")
    result = kerf("train", INPUTS / "autodiff" / f"{case['model']}.onnx", f"--loss={case['loss']}",
                  f"--optimizer={case['optimizer']}", f"--data={files.with_suffix('.npz')}",
                  f"--batch-size={batch(case)}", f"--steps={case['steps']}", "--shuffle=off", "--threads=1",
                  f"--log={log}", f"--save-safetensors={trained}", *flags, *MESHES[mesh])
    checks.expect(f"{name}: runs", result.returncode == 0, result.stderr)
    if result.returncode:
        return
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    losses = [line["loss"] for line in lines]
    checks.expect(f"{name}: losses", close(losses, case["losses"], 1e-5), f"{losses}, {case['losses']}")
    if case["norms"]:
        norms = [line["gradient_norm"] for line in lines]
        checks.expect(f"{name}: gradient norms", close(norms, case["norms"], 1e-5), f"{norms}, {case['norms']}")
    after = tensors(trained)
    for key, expected in case["parameters"].items():
        checks.expect(f"{name}: {key}", close(after.get(key, []), np.ravel(expected), 1e-5), f"{after.get(key)}, {expected}")


def batch(case):
    return next(iter(case["inputs"].values()))["shape"][0]


jobs = []
for number, case in enumerate(CASES):
    meshes = [mesh for mesh in MESHES if mesh != "pp" or batch(case) % 2 == 0]
    if "--all" not in sys.argv:
        meshes = [] if "_flat_" in case["model"] or "_grid_" in case["model"] else [meshes[number % len(meshes)]]
    jobs += [(run, number, case, mesh) for mesh in meshes]
in_parallel(jobs)
checks.finish()
