# One run at a time writes checkpoints to a folder, and its log to a file: a second one is refused from the first step on, not only
# behind the first checkpoint, with --resume too. A run that is killed holds them no more.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, expect_error, fresh_folder

OUT, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
MLP = INPUTS / "training/mlp"
checks = Checks()
folder = OUT / "checkpoints"
command = ["train", MLP / "model.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd", f"--data={MLP / 'data.npz'}", "--batch-size=16",
           "--no-output", "--threads=1", f"--checkpoint-dir={folder}"]


def started():
    """A run that goes on for long and has no checkpoint yet."""
    log = OUT / "log.jsonl"
    log.unlink(missing_ok=True)
    process = subprocess.Popen(["kerf", *map(str, command), "--steps=100000000", f"--log={log}"], stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if process.poll() is not None or (log.exists() and log.stat().st_size > 0):
            break
        time.sleep(0.05)
    checks.expect("a run goes on", process.poll() is None)
    return process


first = started()
for flags in ([], ["--resume"]):
    expect_error(checks, f"a second run {flags}", [*command, "--steps=2", *flags], 2,
                 ["checkpoints: another run that goes on writes its checkpoints there: give this one another folder"])
expect_error(checks, "a second log", [*command[:-1], "--steps=2", f"--log={OUT / 'log.jsonl'}"], 2,
             ["log.jsonl: another run that goes on writes its log there: give this one another file"])
first.kill()
first.wait()
checks.expect("nothing is left", list(folder.iterdir()) == [], list(folder.iterdir()))
second = started()
second.send_signal(signal.SIGTERM)
second.wait()
checks.expect("its checkpoint", len(list(folder.iterdir())) == 1, list(folder.iterdir()))
expect_error(checks, "a new run behind it", [*command, "--steps=2"], 2, ["checkpoints: holds checkpoints of a run: --resume goes on with it"])
checks.finish()
