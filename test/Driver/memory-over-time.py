# What plan.json says of memory over a step, against the lowered program: which buffers are between their first and their
# last use at each call. The page draws it.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import json
import math
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
checks = Checks()
BYTES = {"f32": 4, "i64": 8, "i32": 4, "i1": 1, "f64": 8, "bf16": 2, "i8": 1}


def size(memref):
    *dims, kind = memref.split("x")
    return BYTES[kind] * math.prod(map(int, dims))


def curve(calls, buffers):
    """Bytes in use at each of the calls, which are sets of names."""
    uses = {name: [at for at, call in enumerate(calls) if name in call] for name in buffers}
    return [sum(buffers[name] for name, at in uses.items() if at and at[0] <= place <= at[-1]) for place in range(len(calls))]


def names(line, views):
    return {views.get(name, name) for name in re.findall(r"%\w+", line)}


def body(lines):
    """The calls of a function or a stage, and its buffers."""
    calls, buffers, views = [], {}, {}
    for line in lines:
        if found := re.match(r"\s*(%\w+) = exec\.(?:arena|slot) .*memref<([^,>]*)", line):
            buffers[found[1]] = size(found[2])
        elif found := re.match(r"\s*(%\w+) = exec\.view (%\w+)", line):
            views[found[1]] = views.get(found[2], found[2])
        elif re.match(r"\s*exec\.return", line):
            continue
        elif re.search(r"exec\.\w+ .*%\w+", re.sub(r"^\s*%\w+ =", "", line)):
            calls.append((line, names(line, views)))
    return calls, buffers


def expected(text):
    """By stage: bytes of its arena in use, call by call."""
    blocks, lines = [], None
    for line in text.splitlines():
        if found := re.match(r"  exec\.(func|stage) (?:@(\w+)|(\d+))", line):
            lines = []
            blocks.append((found[2] or int(found[3]), lines))
        elif line == "  }":
            lines = None
        elif lines is not None:
            lines.append(line)
    functions, stages = {}, []
    for name, lines in blocks:
        calls, buffers = body(lines)
        inside = curve([used for _, used in calls], buffers)
        if isinstance(name, str):
            functions[name] = inside or [0]
            continue
        stages.append([])
        for (line, _), held in zip(calls, inside):
            callee = re.search(r"exec\.run @(\w+)", line)
            stages[-1] += [held + own for own in (functions[callee[1]] if callee else [0])]
    return stages


STEP = ["--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adam"]
for name, flags in (("one rank", ["models/convnet/model.onnx", "--dim=batch=2"]),
                    ("stages", ["models/mlp/model.onnx", "--dim=batch=8", "--devices=cpu:2", "--mesh=pp=2", "--micro-batches=2"]),
                    ("a step", ["training/mlp/model.onnx", "--dim=batch=16", *STEP, "--devices=cpu:4", "--mesh=pp=2,dp=2", "--micro-batches=4"])):
    plan = OUT / "plan.json"
    made = kerf("plan", INPUTS / flags[0], *flags[1:], "-q", "-o", plan)
    lowered = kerf("plan", INPUTS / flags[0], *flags[1:], "--stop-after=lower")
    if made.returncode or lowered.returncode:
        checks.expect(name, False, made.stderr + lowered.stderr)
        continue
    devices, wanted = json.loads(plan.read_text())["memory"]["per_device"], expected(lowered.stdout)
    checks.expect(f"{name}: stages", len(devices) == len(wanted), f"{len(devices)} {len(wanted)}")
    for stage, (device, calls) in enumerate(zip(devices, wanted)):
        said, arena = device["over_time"], device["activations"] + device["gradients"]
        group = math.ceil(len(calls) / 200)
        most = [max(calls[at:at + group]) for at in range(0, len(calls), group)]
        checks.expect(f"{name}: stage {stage}", said["calls"] == len(calls) and said["bytes"] == most, f"{said}\n{len(calls)} {most}")
        checks.expect(f"{name}: stage {stage}, within its arena", 0 < max(most) <= arena, f"{max(most)} {arena}")
    page = OUT / "page.html"
    kerf("report", plan, "--html", page)
    checks.expect(f"{name}: drawn", page.read_text().count("<polygon class=d") == len(wanted))
checks.finish()
