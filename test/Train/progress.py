# The line that a terminal shows while a model is trained: step, loss, tokens or samples a second, bytes of a step, time
# left, each in agreement with the log; nothing of it where standard error is no terminal, or with -q.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import json
import os
import pathlib
import pty
import re
import subprocess
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
LINE = re.compile(r"step (\d+)/(\d+)  loss ([-+0-9.e]+)  ([0-9.]+) (\w+)/s  ([0-9.]+) KiB/step  (\d\d):(\d\d):(\d\d) left")
STEPS = 300
checks = Checks()


def on_terminal(command):
    """(exit code, what the terminal got)"""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(["kerf", *map(str, command)], stderr=theirs, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    os.close(theirs)
    text = b""
    try:
        while chunk := os.read(ours, 4096):
            text += chunk
    except OSError:  # how Linux ends a terminal that nobody holds any more
        pass
    os.close(ours)
    return process.wait(), text.decode(errors="replace")


for name, batch, unit, each in (("gpt2", 8, "tokens", 8 * 16), ("mlp", 16, "samples", 16)):
    folder, log = INPUTS / "training" / name, OUT / f"{name}.jsonl"
    command = ["train", folder / "model.onnx", f"--batch-size={batch}", "--loss=cross_entropy(logits,labels)",
               "--optimizer=sgd,lr=0.1", f"--data={folder / 'data.npz'}", f"--steps={STEPS}", "--threads=1",
               "--devices=cpu:2", "--mesh=dp=2", f"--log={log}", "--no-output"]
    code, text = on_terminal(command)
    checks.expect(f"{name} runs", code == 0, text)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    shown = list(LINE.finditer(text))
    checks.expect(f"{name}: the last step is shown", shown and shown[-1][1] == str(STEPS), text[-500:])
    checks.expect(f"{name}: each over the one before, the last wiped out", text.count("\r\x1b[Kstep") == len(shown)
                  and "\r\x1b[K" in text[shown[-1].end():] if shown else False, repr(text[-500:]))
    seconds, before = 0.0, 0
    for match in shown:
        step = int(match[1])
        entry = lines[step - 1]
        # The first step, in which buffers are touched for the first time, counts only while it is alone.
        seconds += sum(line["seconds"] for line in lines[max(before, 1):step])
        before = step
        per_step = seconds / (step - 1) if step > 1 else lines[0]["seconds"]
        left = int(match[7]) * 3600 + int(match[8]) * 60 + int(match[9])
        fine = (match[2] == str(STEPS) and match[3] == f"{entry['loss']:#.5g}" and match[5] == unit
                and match[6] == f"{entry['bytes_per_rank'] / 1024:.1f}" and entry["bytes_per_rank"] > 0
                and abs(float(match[4]) * per_step / each - 1) < 0.02
                and abs(left - per_step * (STEPS - step)) <= 1 + 0.01 * left)
        checks.expect(f"{name}: step {step}", fine, f"{match[0]}\n{entry}, {per_step} seconds a step")
    checks.expect(f"{name}: nothing with -q", not LINE.search(on_terminal([*command, "-q"])[1]))
    checks.expect(f"{name}: nothing without a terminal", not LINE.search(kerf(*command).stderr))
checks.finish()
