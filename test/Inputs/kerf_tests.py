"""What the Python tests share: running kerf, and tables of expected failures.

A test that runs many commands in one lit test says which of them went wrong,
and goes on to the next: `Checks` counts, prints and exits.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys


def kerf(*arguments, tool="kerf", timeout=300, **options):
    """Runs a tool of the build (on PATH); the result has returncode, stdout, stderr."""
    return subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True, errors="replace",
                          timeout=timeout, stdin=subprocess.DEVNULL, **options)


def takes_interrupts():
    """For Popen's preexec_fn: a shell that runs the suite in the background has its children ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ending(code):
    """An exit code in words: a signal by its name."""
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


class Checks:
    """Counts named checks; finish() prints the failures' details and exits."""

    def __init__(self):
        self.passed, self.failed = 0, []

    def expect(self, name, fine, detail=""):
        if fine:
            self.passed += 1
        else:
            self.failed.append(name)
            print(f"FAILED {name}\n{detail}\n", flush=True)

    def finish(self):
        print(f"{self.passed} passed, {len(self.failed)} failed {self.failed if self.failed else ''}")
        sys.exit(bool(self.failed) or not self.passed)


def expect_error(checks, name, arguments, code, patterns, tool="kerf", absent=()):
    """The command must end with `code`, on stderr `error: ...` with every pattern, and leave none of `absent`."""
    try:
        result = kerf(*arguments, tool=tool, timeout=60)
    except subprocess.TimeoutExpired:
        checks.expect(name, False, f"  {tool} {' '.join(map(str, arguments))}\n  still runs after 60 s")
        return
    problems = []
    if result.returncode != code:
        problems.append(f"{ending(result.returncode)}, expected exit {code}")
    if not re.match(r"(note: .*\n)*error: ", result.stderr):  # notes on the plan come before a step that fails
        problems.append("the first line is no 'error: ...'")
    problems += [f"stderr lacks /{p}/" for p in patterns if not re.search(p, result.stderr)]
    # One cause, one message: never a stack trace, never a wall of text.
    for word in ("Stack dump", "LLVM ERROR", "Assertion", "PLEASE submit", "terminate called"):
        if word in result.stderr:
            problems.append(f"stderr has '{word}'")
    if len(result.stderr.splitlines()) > 25:
        problems.append(f"{len(result.stderr.splitlines())} lines on stderr")
    problems += [f"{path} was left behind" for path in absent if os.path.lexists(path)]
    checks.expect(name, not problems, "\n".join(f"  {line}" for line in (
        f"{tool} {' '.join(map(str, arguments))}", *problems, "stderr:", *result.stderr.splitlines()[:12])))


def tensors(path, shaped=False):
    """The tensors of f32 of a safetensors file by name, flat unless `shaped`."""
    import numpy as np  # few tests need it

    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[8 + size:][slice(*entry["data_offsets"])], np.float32)
            .reshape(entry["shape"] if shaped else -1)
            for name, entry in header.items() if entry["dtype"] == "F32"}


def in_parallel(jobs, workers=2):
    """Runs [(function, arguments...)] on a few threads, for commands that wait on processes."""
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(*job) for job in jobs]:
            future.result()


def fresh_folder(path):
    path = pathlib.Path(path)
    subprocess.run(["rm", "-rf", path], check=True)
    path.mkdir(parents=True)
    return path
