"""Memory that the processes of a run really touch, as the system counts it.

Weights need not exist: a hole of the right length in a file stands for them,
which costs no disk and reads as zeros.
"""
import json
import math
import os
import pathlib
import subprocess
import time

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
    """Resident bytes of a process now, the most so far, its parent, and whether it runs a rank; None where it is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in text.splitlines())
    if "VmRSS" not in fields:
        return None
    kilobytes = lambda key: int(fields[key].split()[0]) * 1024
    return kilobytes("VmRSS"), kilobytes("VmHWM"), int(fields["PPid"])


def touched(package, steps, processes, timeout=1500):
    """[(resident bytes while steps run, the most ever)] of the process, or of each rank's own.

    Loading comes first: what is looked at is the last quarter of the samples.
    """
    command = ["kerf-run", str(package), "--seed=1", f"--repeat={steps}", "--threads=1", "-q",
               *(["--processes"] if processes else [])]
    start = time.time()
    main = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    samples = {}
    while main.poll() is None and time.time() - start < timeout:
        for entry in os.listdir("/proc") if processes else [str(main.pid)]:
            found = status(int(entry)) if entry.isdigit() else None
            if found and (found[2] == main.pid if processes else True):
                samples.setdefault(int(entry), []).append(found[:2])
        time.sleep(0.03)
    if main.poll() is None:
        main.kill()
    said = main.stderr.read()
    if main.wait():
        raise RuntimeError(f"{' '.join(command)}: {main.returncode}\n{said}")
    result = []
    for pid in sorted(samples):
        rest = samples[pid][len(samples[pid]) * 3 // 4:]
        result.append((max(now for now, _ in rest), max(most for _, most in rest)))
    return result


def laid_out(package):
    """What the plan says of each rank, bytes of the caller's inputs, and of its outputs."""
    plan = json.loads((package / "plan.json").read_text())
    manifest = json.loads((package / "manifest.json").read_text())
    devices = plan["memory"]["per_device"]
    for device, stage in zip(devices, manifest["stages"]):
        assert device["gradients"] + device["activations"] == stage["arena_bytes"], (device, stage["arena_bytes"])
    stages = [device["peak"] for device in devices]
    size = {"f64": 8, "i64": 8, "u64": 8, "f16": 2, "bf16": 2, "i16": 2, "u16": 2, "i8": 1, "u8": 1, "bool": 1}
    bytes_of = lambda tensors: sum(math.prod(each["global_shape"]) * size.get(each["dtype"], 4) for each in tensors)
    ranks = [stage for stage in stages for _ in range(plan["devices"] // len(stages))]
    return ranks, bytes_of(manifest["inputs"]), bytes_of(manifest["outputs"])
