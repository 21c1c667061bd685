# What was trained is not lost: without -o the model goes to a place that is said, beside a model with external data its
# own gets another name, space is counted before the first step, a place that vanishes meanwhile costs neither the run nor
# its result, and a log that cannot be written ends nothing.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
MLP = INPUTS / "training/mlp"
checks = Checks()
BASE = ["--batch-size=16", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=0.01", f"--data={MLP / 'data.npz'}",
        "--threads=1"]


def command(*flags, model=MLP / "model.onnx", steps=3):
    return ["train", model, *BASE, f"--steps={steps}", *flags]


def weights(path):
    return {t.name: numpy_helper.to_array(t).tobytes() for t in onnx.load(path).graph.initializer}


# Without -o.
expected = OUT / "expected.onnx"
result = kerf(*command("-q", "-o", expected))
checks.expect("with -o", result.returncode == 0 and expected.exists(), result.stderr)
result = kerf(*command(), cwd=OUT)
default = OUT / "model.trained.onnx"
checks.expect("default place", result.returncode == 0 and default.exists() and
              "note: the trained model goes to model.trained.onnx" in result.stderr, result.stderr)
checks.expect("default model", default.exists() and default.read_bytes() == expected.read_bytes())
for flags in (["--no-output"], [f"--save-safetensors={OUT / 'w.safetensors'}"], [f"--checkpoint-dir={OUT / 'kept'}"]):
    default.unlink(missing_ok=True)
    result = kerf(*command(*flags), cwd=OUT)
    checks.expect(f"{flags}", result.returncode == 0 and not default.exists(), result.stderr)
expect_error(checks, "both", command("--no-output", "-o", OUT / "x.onnx"), 2, ["--no-output", "excludes"])

# Beside a model with external data, twice: the second time its own files are replaced.
beside = OUT / "beside"
beside.mkdir()
onnx.save(onnx.load(MLP / "model.onnx"), beside / "model.onnx", save_as_external_data=True, location="model.onnx.data",
          size_threshold=0)
(beside / "sub").mkdir()
before = {path.name: path.read_bytes() for path in beside.glob("model*")}
for _ in range(2):
    result = kerf(*command("-q", "-o", "trained.onnx", model="model.onnx"), cwd=beside)
    checks.expect("beside", result.returncode == 0, result.stderr)
checks.expect("the original stays", before == {path.name: path.read_bytes() for path in beside.glob("model*")})
checks.expect("its own data", (beside / "trained.onnx.data").exists() and
              weights(beside / "trained.onnx") == weights(expected), os.listdir(beside))
# In another folder, where a backup of the model lies and what was trained before: neither changes.
shutil.copy(beside / "model.onnx", beside / "sub/model.onnx")
shutil.copy(beside / "model.onnx.data", beside / "sub/model.onnx.data")
for name, flags in (("trained", []), ("other", ["--seed=9"])):
    result = kerf(*command("-q", *flags, "-o", f"sub/{name}.onnx", model="model.onnx"), cwd=beside)
    checks.expect(f"{name} in another folder", result.returncode == 0 and (beside / f"sub/{name}.onnx.data").exists(), result.stderr)
checks.expect("the first stays", weights(beside / "sub/trained.onnx") == weights(expected))
checks.expect("the second is another", weights(beside / "sub/other.onnx") != weights(expected))
checks.expect("the backup stays", before == {path.name: path.read_bytes() for path in (beside / "sub").glob("model*")})

# Before the first step: the largest file that may be written.
graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("MatMul", ["y", "v"], ["logits"])],
                          "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 20])],
                          [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 8])],
                          [numpy_helper.from_array(np.ones((20, 2340), np.float32), "w"),
                           numpy_helper.from_array(np.ones((2340, 8), np.float32), "v")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), OUT / "wide.onnx")
limited = subprocess.run(["kerf", *map(str, command("-o", OUT / "large.onnx", model=OUT / "wide.onnx"))],
                         capture_output=True, text=True, stdin=subprocess.DEVNULL,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200 << 10, 200 << 10)))
checks.expect("too large for ulimit", limited.returncode == 2 and
              re.search(r"-o needs a file of \d+ bytes, this process may write 204800", limited.stderr), f"{limited}")
checks.expect("nothing is left", not (OUT / "large.onnx").exists())


def started(*flags, **options):
    """A run that is at its steps: its log has lines."""
    log = OUT / "log.jsonl"
    log.unlink(missing_ok=True)
    process = subprocess.Popen(["kerf", *map(str, command(*flags, f"--log={log}", steps=30000))], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, cwd=OUT, **options)
    for _ in range(6000):
        if process.poll() is not None or log.exists() and log.stat().st_size:
            break
        time.sleep(0.005)
    return process, log


# The model's folder goes while the run is under way: its state is saved elsewhere, and a command writes the model.
folder = OUT / "goes"
folder.mkdir()
process, log = started("-o", folder / "trained.onnx")
shutil.rmtree(folder)
_, stderr = process.communicate(timeout=120)
saved = re.search(r"note: the run's state after step 30000 is saved in (\S+):", stderr)
checks.expect("saved elsewhere", process.returncode == 5 and "goes/trained.onnx: cannot write" in stderr and saved, stderr)
if saved:
    folder.mkdir()
    place = OUT / saved.group(1)
    result = kerf(*command("-q", "-o", folder / "trained.onnx", f"--checkpoint-dir={place}", "--resume", steps=30000))
    checks.expect("written after all", result.returncode == 0 and (folder / "trained.onnx").exists(), result.stderr)
    whole = kerf(*command("-q", "-o", OUT / "whole.onnx", steps=30000))
    checks.expect("the same model", (folder / "trained.onnx").read_bytes() == (OUT / "whole.onnx").read_bytes(), whole.stderr)
    shutil.rmtree(place)

# A log that may not grow: one warning, whole lines, and the run ends as if nothing had been.
process, log = started("--no-output")
limit = log.stat().st_size + 1000
resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
_, stderr = process.communicate(timeout=120)
text = log.read_text()
checks.expect("log", process.returncode == 0 and stderr.count("lines are missing, the run goes on") == 1, stderr)
checks.expect("whole lines", text.endswith("\n") and all(json.loads(line)["step"] for line in text.splitlines()))

# A disk that is too small, where one can be made.
disk = OUT / "disk"
disk.mkdir()
if os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True).returncode == 0:
    try:
        expect_error(checks, "small disk", command("-o", disk / "a.onnx", f"--checkpoint-dir={disk / 'c'}", "--checkpoint-every=1"),
                     2, [r"\d+ bytes are needed for -o, --checkpoint-dir, \d+ are free"], absent=[disk / "a.onnx"])
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
checks.finish()
