# Rows of 16-bit products that are made longer, with numbers behind them that matter, and what is stored in 16 bits compute what
# they did: unit tests, which --without=NAME repeats without one precondition, to see that they notice (preconditions.py).
#
# REQUIRES: kerf-commands
# RUN: %python %s %t %inputs
import os
import pathlib
import shutil
import subprocess
import sys

without = [argument.split("=")[1] for argument in sys.argv[3:] if argument.startswith("--without=")]
test = pathlib.Path(shutil.which("kerf-commands")).parent.parent / "unittests/KerfLowerTests"
run = subprocess.run([test, "--gtest_filter=PadProducts.*:NarrowStorage.*"], capture_output=True, text=True,
                     env=dict(os.environ, **({"KERF_WITHOUT": without[0]} if without else {})))
lines = [line for line in run.stdout.splitlines() if "Failure" in line or "[  PASSED  ]" in line or "[  FAILED  ]" in line]
print(lines[0] if lines else run.stdout + run.stderr)
assert lines, "the unit test did not run"
raise SystemExit((run.returncode == 0) if without else run.returncode)
