# `kerf run --repeat`: Ctrl-C ends it after a step, with the times so far; the first step, which warms up, is no part of
# what a step's collectives take.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf, takes_interrupts

OUT, MODELS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]) / "models"
checks = Checks()

process = subprocess.Popen(["kerf", "run", MODELS / "mlp/model.onnx", "--dim=batch=8", "--seed=1", "--threads=1", "--repeat=1000000000",
                            f"--stats={OUT / 'ended.json'}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           preexec_fn=takes_interrupts)
time.sleep(5)
process.send_signal(signal.SIGINT)
out, err = process.communicate(timeout=60)
done = re.search(r"^note: ended by Ctrl-C after (\d+) of 1000000000 steps$", err, re.M)
checks.expect("ended", process.returncode == 130 and done and int(done[1]) > 1, f"{process.returncode} {out}{err}")
shown = re.search(r"^(\d+) steps: median .*, least .* samples/s$", out, re.M)
checks.expect("the times so far", done and shown and shown[1] == done[1] and out.startswith("logits: "), out)
checks.expect("the report", (OUT / "ended.json").exists() and done and json.loads((OUT / "ended.json").read_text())["repeat"] == int(done[1]))
# Rates have three digits and no exponent, however many samples there are in a second.
out = kerf("run", MODELS / "mlp/model.onnx", "--dim=batch=65536", "--seed=1", "--threads=1", "--repeat=3").stdout
rate = re.search(r"; (\d{1,3}(?:,\d{3})+) samples/s$", out, re.M)
checks.expect("a large rate", rate and re.fullmatch("[1-9]\\d{0,2}0*", rate[1].replace(",", "")), out)

# Ended before its first step a run says so: while it is compiled, and as a package that is being opened. So does training.
def interrupted(name, command, begun, writes=("--output-dir={}",)):
    """What is said of a run that gets SIGINT once `begun` is there, which holds it up."""
    out, folder = OUT / f"{name}-outputs", OUT / f"{name}-temporary"
    folder.mkdir()
    process = subprocess.Popen([*command, *(flag.format(out) for flag in writes)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "TMPDIR": str(folder)}, preexec_fn=takes_interrupts)
    while not begun(folder) and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    said = re.search(r"^note: ended by Ctrl-C, before the first step\b.*: nothing is written$", stderr, re.M)
    checks.expect(f"{name}: said", process.returncode == -signal.SIGINT and stdout == "" and said, f"{process.returncode} {stdout}{stderr}")
    checks.expect(f"{name}: nothing is left", not list(folder.iterdir()) and not list(out.glob("*")) and
                  not list(OUT.glob(f"{name}-outputs.*")), list(folder.rglob("*")))


interrupted("compiling", ["kerf", "run", MODELS / "gpt2-small/model.onnx", "--dim=batch=2", "--seed=1", "--threads=1", "--devices=cpu:1"],
            lambda folder: list(folder.glob("*/*"))) # planned: before, Ctrl-C ends the search, and the run goes on
TRAIN = MODELS.parent / "training/gpt2"
interrupted("training", ["kerf", "train", TRAIN / "model.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd", f"--data={TRAIN / 'data.npz'}",
                         "--batch-size=8", "--steps=9"],
            lambda folder: list(folder.glob("*/*")), ["--checkpoint-dir={}", "--output={}.onnx", "--log={}.jsonl"])
# The ranks of a job wait for the others, here for one that never comes.
package = OUT / "two.kerf"
kerf("compile", MODELS / "gpt2-small/model.onnx", "--dim=batch=2", "--devices=cpu:2", "--mesh=tp=2", "-q", "-o", package)
for tool in ("kerf", "kerf-run"):
    begin = time.monotonic()
    interrupted(f"package-{tool}", [tool, *(["run"] if tool == "kerf" else []), package, "--seed=1", "--inject=rank=1,collective=0,fault=hang"],
                lambda folder: time.monotonic() - begin > 2)

# What is compiled for a run goes with it, whichever signal ends it.
for ending in (signal.SIGTERM, signal.SIGHUP):
    folder = OUT / f"temporary-{ending}"
    folder.mkdir()
    process = subprocess.Popen(["kerf", "run", MODELS / "mlp/model.onnx", "--dim=batch=8", "--seed=1", "--threads=1", "--repeat=1000000000", "-q"],
                               env={**os.environ, "TMPDIR": str(folder)}, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
    while not list(folder.glob("*/*/manifest.json")) and process.poll() is None:
        time.sleep(0.1)
    process.send_signal(ending)
    code = process.wait(timeout=60)
    checks.expect(f"nothing is left by {ending.name}", code == -ending and list(folder.iterdir()) == [], (code, list(folder.rglob("*"))))

# A killed command can remove nothing: the next one does, but not what is in use, of others or of another make.
folder = OUT / "killed"
folder.mkdir()
there = {**os.environ, "TMPDIR": str(folder)}
MLP = ["kerf", "run", MODELS / "mlp/model.onnx", "--dim=batch=8", "--seed=1", "--threads=1", "-q"]
others = {folder / "kerf-0123ab", folder / "kerf-of-mine"}
for other in others:
    other.mkdir()
    (other / "notes.txt").write_text("mine")


def endless():
    before = set(folder.glob("*/*/manifest.json"))
    process = subprocess.Popen([*MLP, "--repeat=1000000000"], env=there)
    while not (new := set(folder.glob("*/*/manifest.json")) - before) and process.poll() is None:
        time.sleep(0.1)
    return process, {each.parents[1] for each in new}


running, kept = endless()
killed, left = endless()
killed.kill()
killed.wait(timeout=60)
checks.expect("it is left", len(left) == 1 and set(folder.iterdir()) == others | kept | left, (left, list(folder.iterdir())))
code = subprocess.run(MLP, env=there, stdout=subprocess.DEVNULL, timeout=60).returncode
checks.expect("the next one removes it", code == 0 and len(kept) == 1 and set(folder.iterdir()) == others | kept, list(folder.iterdir()))
checks.expect("what is in use stays whole", running.poll() is None and all(list(each.glob("*/manifest.json")) for each in kept), list(folder.rglob("*")))
running.terminate()
running.wait(timeout=60)
checks.expect("others stay", all((other / "notes.txt").exists() for other in others), list(folder.rglob("*")))

# So it is where a package is made: of what is linked nothing stays.
for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    folder = OUT / f"compiling-{ending}"
    folder.mkdir()
    for _ in range(20):  # it may be over by the time that the signal is there
        process = subprocess.Popen(
            ["kerf", "compile", MODELS / "gpt2-small/model.onnx", "--dim=batch=2", "--no-kernel-cache", "-q", "-o", OUT / f"{ending}.kerf"],
            stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)},
            preexec_fn=lambda: [signal.signal(each, signal.SIG_DFL) for each in (signal.SIGINT, signal.SIGHUP)])
        while not list(folder.glob("*/[!.]*")) and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(ending)
        said = process.communicate(timeout=60)[1]
        code = process.returncode
        if code != 0:
            break
        shutil.rmtree(OUT / f"{ending}.kerf")
    checks.expect(f"{ending.name} is told", said == ("note: ended by Ctrl-C, before the package was written\n" if ending == signal.SIGINT else ""), said)
    checks.expect(f"no objects are left by {ending.name}", code == -ending and list(folder.iterdir()) == [] and not list(OUT.glob(f"{ending}.kerf*")),
                  (code, list(folder.rglob("*")), list(OUT.glob("*.kerf*"))))

# Threads of ranks start in the first step: it may take many times as long as others, most of it waiting in collectives.
ran = kerf("run", MODELS / "gpt2-small/model.onnx", "--dim=batch=2", "--seed=1", "--threads=1", "--devices=cpu:2", "--mesh=tp=2", "--repeat=9",
           "-q", f"--stats={OUT / 'run.json'}")
report = json.loads((OUT / "run.json").read_text()) if ran.returncode == 0 else {}
collectives = report["communication"]["collectives"] if report else []
steps = report["time"]["step_seconds_all"] if report else []
taken = sum(each["seconds"] for each in collectives)
checks.expect("is left out", collectives and 0 < taken <= max(steps[1:]), (taken, steps, ran.stderr))
checks.finish()
