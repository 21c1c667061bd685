# Files that released versions have written (docs/Compatibility.md): each is read by the program of today and gives what
# it gave then. The same files with the number of another version are refused by name, with both versions and what to do.
# test/Inputs/compatibility.py has made them.
#
# REQUIRES: kerf, kerf-run, onnx
# RUN: %python %s %t %S %inputs
import json
import pathlib
import re
import shutil
import sys

import numpy as np

sys.path.insert(0, sys.argv[3])
from kerf_tests import Checks, expect_error, fresh_folder, kerf, tensors

OUT, HERE = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
checks = Checks()
NEWEST = {"kerf.machine": 2, "kerf.checkpoint": 3}  # which read the files of 0.2.0 too
TRAIN = ["--loss=cross_entropy(logits,labels)", "--optimizer=adam,lr=1e-2", "--batch-size=4", "--devices=1", "--steps=6",
         "--resume", "-q"]


def succeeds(name, *arguments, tool="kerf"):
    result = kerf(*arguments, tool=tool)
    checks.expect(name, result.returncode == 0, result.stderr)
    return result.returncode == 0


def read(files, out):
    """What the files of a release give today."""
    name, model = files.name, [files / "model.onnx", "--dim=batch=4"]
    for tool in (["kerf-run"], ["kerf", "run"]):
        if succeeds(f"{name}: {' '.join(tool)}", *tool[1:], files / "package", f"--input=x=@{files / 'x.npy'}", f"--output-dir={out / 'run'}",
                    tool=tool[0]):
            np.testing.assert_allclose(np.load(out / "run/logits.npy"), np.load(files / "expected/logits.npy"), rtol=1e-4, atol=1e-5)
    if succeeds(f"{name}: plan", "plan", *model, f"--plan={files / 'plan.json'}", "-q", "-o", out / "plan.json"):
        then, now = (json.loads((folder / "plan.json").read_text()) for folder in (files, out))
        for key in ("mesh", "mesh_axes", "schedule", "values", "communication"):
            if key == "communication":  # seconds are of the machine at hand
                then, now = ({key: {k: plan[key][k] for k in ("bytes_per_rank", "total_bytes")}} for plan in (then, now))
            checks.expect(f"{name}: {key} of the plan", then[key] == now[key], f"  {then[key]}\n  {now[key]}")
    for file in sorted(files.glob("machine*.json")):
        if succeeds(f"{name}: {file.name}", "plan", *model, f"--machine={file}", "-q", "-o", out / "other.json"):
            machine = json.loads((out / "other.json").read_text())["machine"]
            checks.expect(f"{name}: the numbers of {file.name}", machine == json.loads(file.read_text()), machine)
    sent = json.loads((files / "run.json").read_text())["communication"]["bytes_per_rank"]
    report = kerf("report", files / "run.json").stdout
    checks.expect(f"{name}: run.json", "mesh      tp=2 on 2 devices" in report and sent > 0 and f"{sent} B sent by the busiest rank" in report, report)
    for folder in sorted(files.glob("checkpoints*")):
        shutil.copytree(folder, out / folder.name)
        if not succeeds(f"{name}: {folder.name}", "train", files / "model.onnx", *TRAIN, f"--data={files / 'train.npz'}",
                        f"--checkpoint-dir={out / folder.name}", f"--save-safetensors={out / 'trained.safetensors'}"):
            continue
        then, now, start = (tensors(path, shaped=True) for path in (
            files / "expected/trained.safetensors", out / "trained.safetensors", next(folder.glob("*-000000003.safetensors"))))
        checks.expect(f"{name}: names of what was trained", then.keys() == now.keys() and then, list(now))
        for key, value in then.items():
            np.testing.assert_allclose(now[key], value, rtol=1e-4, atol=1e-5)
            checks.expect(f"{name}: {key} was trained on", not np.allclose(start[key], value, rtol=1e-3))



def rewrite(path, old, new):
    """Puts the number of another version into a file; a checkpoint keeps a hash that is right."""
    data = path.read_bytes()
    assert data.count(old.encode()) == 1 and len(old) == len(new), (path, old, new)
    data = data.replace(old.encode(), new.encode())
    if path.suffix == ".safetensors":  # the hash of the file in which it is zeros: the refusal of those says it
        data = re.sub(rb'("xxh3":")[0-9a-f]{16}', rb"\g<1>" + b"0" * 16, data)
        path.write_bytes(data)
        digits = re.search(r"has hash ([0-9a-f]{16}), expected 0{16}", kerf(*resume(path.parent)).stderr)[1]
        data = data.replace(b'"xxh3":"' + b"0" * 16, b'"xxh3":"' + digits.encode())
    path.write_bytes(data)


def resume(folder):
    files = folder.parent
    return ["train", files / "model.onnx", *TRAIN, f"--data={files / 'train.npz'}", f"--checkpoint-dir={folder}", "--no-output"]


def refused(files, out):
    """Every reader refuses the files with the next and with the last number, and changes nothing."""
    shutil.copytree(files, out)
    compiled = out / "compiled.kerf"
    succeeds(f"{files.name}: dumps", "compile", out / "model.onnx", "--dim=batch=4", f"--plan={out / 'plan.json'}", f"--dump-dir={out / 'dump'}",
             "-q", "-o", compiled)
    checkpoint = next((out / "checkpoints").glob("*-000000003.safetensors"))
    model = [out / "model.onnx", "--dim=batch=4"]
    for file, schema, readers in (
            (out / "package/manifest.json", "kerf.package", [["kerf-run", out / "package", "--seed=1"], ["kerf", "run", out / "package", "--seed=1"]]),
            (out / "plan.json", "kerf.plan", [
                ["kerf", "plan", *model, f"--plan={out / 'plan.json'}"], ["kerf", "report", out / "plan.json"],
                ["kerf", "report", out / "run.json", f"--diff={out / 'plan.json'}"],
                ["kerf", "compile", out / "dump/03-partition.mlir", "--from=partition", f"--plan={out / 'plan.json'}", "-o", out / "x.kerf"]]),
            (out / "machine.json", "kerf.machine", [["kerf", "plan", *model, f"--machine={out / 'machine.json'}"]]),
            (out / "run.json", "kerf.run", [["kerf", "report", out / "run.json"]]),
            (checkpoint, "kerf.checkpoint", [["kerf", *resume(out / "checkpoints")]])):
        whole = file.read_bytes()
        here = re.search(rf'"{schema}/([0-9]+)"', whole.decode(errors="replace"))
        newest = NEWEST.get(schema, int(here[1]))
        for number, word in ((newest + 1, "newer"), (int(here[1]) - 1, "older")):
            rewrite(file, here[0], f'"{schema}/{number}"')
            before = file.read_bytes()
            for tool, *arguments in readers:
                expect_error(checks, f"{files.name}: {word} {schema} and {tool} {arguments[0]}", arguments, 2,
                             [re.escape(str(file if file.name != "manifest.json" else file.name)),
                              rf'"{schema}/{number}", {word} than "{schema}/{newest}", which this Kerf reads: .*, or use the Kerf that wrote it'],
                             tool=tool, absent=[out / "x.kerf"])
            checks.expect(f"{files.name}: {file.name} is as it was", file.read_bytes() == before)
            file.write_bytes(whole)


releases = sorted(path for path in HERE.iterdir() if path.is_dir())
for release in releases:
    (OUT / release.name).mkdir()
    read(release, OUT / release.name)
refused(releases[-1], OUT / "other")
checks.finish()
