# Each precondition of a pattern or library form (include/kerf/Support/Preconditions.def), taken away, is noticed by the
# product test that it names: a case fails that passes with it.
#
# REQUIRES: kerf-commands, onnx, onnxruntime, full
# RUN: %python %s %t %inputs
import pathlib
import re
import subprocess
import sys

out, inputs = map(pathlib.Path, sys.argv[1:])
here = pathlib.Path(__file__).resolve().parent
table = (inputs.resolve().parent.parent / "include/kerf/Support/Preconditions.def").read_text()
entries = re.findall(r'^KERF_PRECONDITION\(\w+, "([\w-]+)",\s*"(\w+)"', table, re.MULTILINE)
assert len(entries) == table.count("\nKERF_PRECONDITION("), "an entry is not understood"
unnoticed = []
for name, suite in entries:
    run = subprocess.run([sys.executable, here / f"{suite}.py", out / name, inputs, f"--without={name}"],
                         capture_output=True, text=True)
    print(f"{name}: {(run.stdout.splitlines() or [run.stderr])[0]}", flush=True)
    if run.returncode:
        unnoticed.append(name)
print(f"{len(entries)} preconditions, {len(unnoticed)} not noticed {unnoticed or ''}")
raise SystemExit(bool(unnoticed) or not entries)
