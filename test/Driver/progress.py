# On a terminal a phase that takes longer than a second shows a line, which is wiped; Ctrl-C ends the search for a plan
# with the best so far, and what is printed says so. Elsewhere there is nothing of it, and --deadline is kept. With --all
# (progress-full.test) also of a search that says nothing, and notes of a longer one.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import os
import pathlib
import pty
import re
import resource
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf, takes_interrupts

OUT, INPUTS, EVERYTHING = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]), "--all" in sys.argv
checks = Checks()
# Bounds of every candidate take a while: more than the seconds that this test waits for.
LONG = ["plan", INPUTS / "graphs/gpt2-124m/model.onnx", "--dim=batch=64", "--machine=h100-8x8", "--train",
        "--loss=cross_entropy(logits,labels)", "--optimizer=sgd", "--objective=volume"]


def on_terminal(arguments, interrupt_at):
    """stderr of a command on a terminal, which gets Ctrl-C once `interrupt_at` is shown."""
    ours, theirs = pty.openpty()
    with open(OUT / "stdout", "wb") as stdout:
        process = subprocess.Popen(["kerf", *map(str, arguments)], stdout=stdout, stderr=theirs, stdin=subprocess.DEVNULL,
                                   preexec_fn=takes_interrupts)
    os.close(theirs)
    shown, interrupted, end = b"", None, time.monotonic() + 600
    while time.monotonic() < end:
        ready, _, _ = select.select([ours], [], [], 0.1)
        try:
            data = os.read(ours, 65536) if ready else b""
        except OSError:  # the other side is gone
            break
        shown += data
        if ready and not data:
            break
        if interrupted is None and re.search(interrupt_at, shown):
            interrupted = time.monotonic()
            process.send_signal(signal.SIGINT)
    code = process.wait(timeout=300)
    os.close(ours)
    return code, shown.decode(errors="replace"), (OUT / "stdout").read_text(), interrupted


code, shown, printed, interrupted = on_terminal([*LONG, "-o", OUT / "plan.json"], rb"planning, \d+ of \d+ meshes, best so far [^,]+, gap [0-9.]+%, \d+ s; Ctrl-C")
checks.expect("shows how far planning is", interrupted is not None, shown[-2000:])
checks.expect("Ctrl-C gives the best plan so far", code == 0 and "objective volume" in printed, f"{code}\n{shown[-2000:]}\n{printed}")
checks.expect("and says so", "the search was ended by Ctrl-C" in shown, shown[-2000:])
lines = re.findall(r"planning[^\r]*", shown)
checks.expect("nothing is offered that there is not", all(("best so far " in line) or "Ctrl-C ends planning" in line for line in lines), lines)
checks.expect("the line is wiped", shown.rfind("\r\033[K") >= max(shown.rfind("planning, "), shown.rfind("compiling, ")), shown[-500:])
if code == 0:
    plan = json.loads((OUT / "plan.json").read_text())
    reasons = [each.get("reason", "") for each in plan["runners_up"]]
    # Those that are tried only where others have no plan count once they are.
    meshes = {int(line.split(" of ")[1].split(" ")[0]) for line in lines if " of " in line}
    checks.expect("no more meshes than are reported", max(meshes) <= len(reasons) and f"; {len(reasons)} meshes" in printed, (meshes, len(reasons)))
    checks.expect("what was not searched", "not searched: planning was ended" in reasons, reasons)
    checks.expect("the bound counts it", plan["objective"]["lower_bound"] <= plan["objective"]["cost"], plan["objective"])

# SIGINT has the same effect without one, once notes in a file say that there is a plan, or after a while.
for name, flags in (("noted", ["--note-after=1"]), *([("quiet", ["-q"])] if EVERYTHING else [])):
    with open(OUT / "stderr", "wb") as stderr:
        process = subprocess.Popen(["kerf", *map(str, LONG), *flags, "-o", OUT / f"{name}.json"], stdout=subprocess.DEVNULL,
                                   stderr=stderr, preexec_fn=takes_interrupts)
    end = time.monotonic() + (6 if name == "quiet" else 60)
    while time.monotonic() < end and "best so far" not in (OUT / "stderr").read_text():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    code = process.wait(timeout=60)
    reasons = [each.get("reason", "") for each in json.loads((OUT / f"{name}.json").read_text())["runners_up"]] if code == 0 else []
    said = (OUT / "stderr").read_text()
    checks.expect(f"without a terminal, {name}", "not searched: planning was ended" in reasons, f"{code} {reasons} {said}")
    lines = re.findall(r"^note: planning, .*, (\d+) s; Ctrl-C", said, re.M)
    checks.expect(f"notes in a file, {name}", 1 <= len(lines) <= 6 if name == "noted" else not lines, said)

# A phase that takes long is noted each time after twice as long.
if EVERYTHING:
    noted = kerf(*LONG, "--deadline=12", "--note-after=1")
    lines = re.findall(r"^note: planning, .*, (\d+) s; Ctrl-C", noted.stderr, re.M)
    checks.expect("notes of 12 s", noted.returncode == 0 and 1 <= len(lines) <= 5, noted.stderr)

# Not on a terminal: no line. Each of these takes 20 s and more without a deadline. That a search ends within a tenth of it
# is for bench/deadline.py, on a machine that does nothing else. Here it is seconds of a processor, which other work does
# not make more: those 2.2, and 2 for reading the model, making its training step and what is printed.
TRAIN = ["--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw"]
for model, flags in (("gpt2-124m", [*TRAIN, "--objective=volume"]), ("resnet50", TRAIN)):
    name = f"{model} {'training' if flags[0] == '--train' else 'inference'}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = kerf("plan", INPUTS / f"graphs/{model}/model.onnx", "--dim=batch=64", "--machine=h100-8x8", *flags, "--deadline=2", "--json")
    checks.expect(f"{name}: no line in a file", run.returncode == 0 and "\r" not in run.stderr and "meshes, best" not in run.stderr, run.stderr[-500:])
    plan = json.loads(run.stdout or "{}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    checks.expect(f"{name}: the deadline is kept", seconds <= 2 * 1.1 + 2, f"{seconds} s, planning took {plan.get('planning_seconds')} s")
    left = [each["reason"] for each in plan.get("runners_up", []) if each.get("reason") == "not searched: the deadline came first"]
    checks.expect(f"{name}: not all was searched, and it says so", plan and (left or plan["objective"]["gap"] > 0), plan.get("objective"))
checks.finish()
