"""Memory that the ranks of a run really touch, as the system counts it.

Weights need not exist: a hole of the right length in a file stands for them,
which costs no disk and reads as zeros.
"""
import json
import math
import pathlib
import subprocess
import time

import numpy as np
import onnx


def with_weights(model, folder):
    """A copy of `model` in `folder`, with a file of zeros where its external data is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    ends = {}
    for tensor in onnx.load(model, load_external_data=False).graph.initializer:
        where = {entry.key: entry.value for entry in tensor.external_data}
        if where:
            end = int(where.get("offset", 0)) + int(where["length"])
            ends[where["location"]] = max(ends.get(where["location"], 0), end)
    for name, end in ends.items():
        with open(folder / name, "wb") as file:
            file.truncate(end)
    (folder / "model.onnx").write_bytes(pathlib.Path(model).read_bytes())
    return folder / "model.onnx"


def status(pid):
    """Resident bytes of a process now, and the most so far; None where it is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in text.splitlines())
    return tuple(int(fields[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM")) if "VmRSS" in fields else None


def touched(package, steps, timeout=1500):
    """Resident bytes while steps run, and the most ever, of a process whose threads are the ranks.

    Loading comes first: what is looked at is the last quarter of the samples. Integers are zeros: each row that is
    looked up of a weight that a library has packed brings back 64 KiB of the file, which the system may take away again.
    """
    command = ["kerf-run", str(package), f"--repeat={steps}", "--threads=1", "-q"]
    inputs = json.loads((package / "manifest.json").read_text())["inputs"]
    if any(each["dtype"] != "i64" for each in inputs):
        command.append("--seed=1")
    for each in inputs:
        if each["dtype"] == "i64":
            zeros = package.parent / f"{each['name']}.npy"
            np.save(zeros, np.zeros(each["global_shape"], np.int64))
            command.append(f"--input={each['name']}=@{zeros}")
    start = time.time()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    samples = []
    while process.poll() is None and time.time() - start < timeout:
        if found := status(process.pid):
            samples.append(found)
        time.sleep(0.005)
    if process.poll() is None:
        process.kill()
    said = process.stderr.read()
    if process.wait():
        raise RuntimeError(f"{' '.join(command)}: {process.returncode}\n{said}")
    if len(samples) < 40:  # too soon over, or this process was not let in
        return touched(package, 4 * steps, timeout)
    rest = samples[len(samples) * 3 // 4:]
    return max(now for now, _ in rest), max(most for _, most in rest)


SIZES = {"f64": 8, "i64": 8, "u64": 8, "f16": 2, "bf16": 2, "i16": 2, "u16": 2, "i8": 1, "u8": 1, "bool": 1}


def bytes_of(shape, dtype):
    return math.prod(shape) * SIZES.get(dtype, 4)


def laid_out(package):
    """What the plan says of all ranks together, less what threads share; bytes that the caller holds beside.

    Ranks share parts of weights that are equal, unless steps write them. An output that each rank gives as one run of
    bytes (of each micro-batch) lies in the caller's memory in place of the arena's.
    """
    plan = json.loads((package / "plan.json").read_text())
    manifest = json.loads((package / "manifest.json").read_text())
    devices = plan["memory"]["per_device"]
    for device, stage in zip(devices, manifest["stages"]):
        assert device["gradients"] + device["activations"] == stage["arena_bytes"], (device, stage["arena_bytes"])
    ranks = plan["devices"] // len(devices)
    size = {axis["name"]: axis["size"] for axis in manifest["mesh"]["axes"]}
    parts = {each["name"]: math.prod(axis.get("size", size[axis["axis"]]) for dim in each["sharding"] for axis in dim)
             for each in manifest["parameters"] if "sharding" in each}
    together = sum(device["peak"] for device in devices) * ranks
    for each in manifest["parameters"]:
        # What is derived is shared by ranks that hold all the same parts.
        different = parts.get(each["name"], 1 if max(parts.values()) == 1 else ranks)
        stages = len(each.get("stages") or devices)
        if not each.get("mutable") and not each.get("init_only"):
            together -= bytes_of(each["local_shape"], each["dtype"]) * (ranks * stages - different)
    beside = sum(bytes_of(each["global_shape"], each["dtype"]) for each in manifest["inputs"])
    for each in manifest["outputs"]:
        cut = [dim for dim, axes in enumerate(each["sharding"]) if axes]
        is_one_run = not cut or math.prod(each["local_shape"][:cut[-1]]) == 1
        in_arenas = bytes_of(each["local_shape"], each["dtype"]) * ranks if is_one_run else 0
        beside += max(0, bytes_of(each["global_shape"], each["dtype"]) - in_arenas)
    return together, beside
