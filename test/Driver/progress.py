# On a terminal a phase that takes longer than a second shows a line, which is wiped; Ctrl-C ends the search for a plan
# with the best so far, and what is printed says so. Elsewhere there is nothing of it, and --deadline is kept.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
checks = Checks()
# Bounds of every candidate take a while: more than the seconds that this test waits for.
LONG = ["plan", INPUTS / "graphs/gpt2-124m/model.onnx", "--dim=batch=64", "--machine=h100-8x8", "--train",
        "--loss=cross_entropy(logits,labels)", "--optimizer=sgd", "--objective=volume"]


def on_terminal(arguments, interrupt_at):
    """stderr of a command on a terminal, which gets Ctrl-C once `interrupt_at` is shown."""
    ours, theirs = pty.openpty()
    with open(OUT / "stdout", "wb") as stdout:
        process = subprocess.Popen(["kerf", *map(str, arguments)], stdout=stdout, stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    shown, interrupted, end = b"", None, time.monotonic() + 120
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
    code = process.wait(timeout=60)
    os.close(ours)
    return code, shown.decode(errors="replace"), (OUT / "stdout").read_text(), interrupted


code, shown, printed, interrupted = on_terminal([*LONG, "-o", OUT / "plan.json"], rb"planning, \d+ of \d+ meshes, best so far [^,]+, gap [0-9.]+%, \d+ s; Ctrl-C")
checks.expect("shows how far planning is", interrupted is not None, shown[-2000:])
checks.expect("Ctrl-C gives the best plan so far", code == 0 and "objective volume" in printed, f"{code}\n{shown[-2000:]}\n{printed}")
checks.expect("and says so", "the search was ended by Ctrl-C" in shown, shown[-2000:])
checks.expect("the line is wiped", shown.rfind("\r\033[K") >= max(shown.rfind("planning, "), shown.rfind("compiling, ")), shown[-500:])
if code == 0:
    plan = json.loads((OUT / "plan.json").read_text())
    reasons = [each.get("reason", "") for each in plan["runners_up"]]
    checks.expect("what was not searched", "not searched: planning was ended" in reasons, reasons)
    checks.expect("the bound counts it", plan["objective"]["lower_bound"] <= plan["objective"]["cost"], plan["objective"])

# Not on a terminal: no line.
quick = kerf(*LONG, "--deadline=3", "-o", OUT / "quick.json")
checks.expect("no line in a file", quick.returncode == 0 and "\r" not in quick.stderr and "meshes, best" not in quick.stderr, quick.stderr[-500:])
seconds = json.loads((OUT / "quick.json").read_text())["planning_seconds"] if quick.returncode == 0 else None
checks.expect("the deadline is kept", seconds is not None and seconds <= 3 * 1.1, seconds)
checks.finish()
