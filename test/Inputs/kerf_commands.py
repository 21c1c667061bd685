"""Thousands of `kerf` commands in a few seconds: a process of kerf-commands runs them one after another.

    with Commands() as kerf:
        result = kerf("run", "model.onnx", "--devices=cpu:2", "--output-dir=out")

A result has code (a signal is negative, as subprocess has it; TIMEOUT after `timeout` seconds), stdout, stderr and
seconds. A process that crashes or hangs is replaced; the next command finds a fresh one.
"""
import collections
import json
import os
import pathlib
import select
import subprocess
import tempfile

Result = collections.namedtuple("Result", "code stdout stderr seconds")
TIMEOUT = -1000


class Commands:
    def __init__(self, timeout=60, tool="kerf-commands"):
        self.timeout, self.tool, self.process = timeout, tool, None
        self.folder = tempfile.TemporaryDirectory(prefix="kerf-commands-")
        self.out, self.err = (pathlib.Path(self.folder.name) / name for name in ("stdout", "stderr"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.folder.cleanup()

    def stop(self):
        if self.process:
            self.process.stdin.close()
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None

    def __call__(self, *arguments):
        if not self.process:
            # Ranks are threads; a library's own threads would only be in each other's way on small models.
            self.process = subprocess.Popen(
                [self.tool, self.out, self.err], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env={"OMP_WAIT_POLICY": "passive", **os.environ})
        try:
            self.process.stdin.write(json.dumps([str(each) for each in arguments]) + "\n")
            self.process.stdin.flush()
            ready, _, _ = select.select([self.process.stdout], [], [], self.timeout)
            line = self.process.stdout.readline() if ready else None
        except BrokenPipeError:
            line = ""
        if line:
            answer = json.loads(line)
            code, seconds = answer["code"], answer["seconds"]
        elif line is None:
            self.process.kill()
            code, seconds = TIMEOUT, float(self.timeout)
        else:
            code, seconds = self.process.wait(), 0.0
            code = code or -6  # it ended in the middle of a command: never fine
        texts = [path.read_text(errors="replace") if path.exists() else "" for path in (self.out, self.err)]
        if not line:
            self.stop()
        return Result(code, *texts, seconds)
