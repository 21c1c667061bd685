# The messages of mpirun that docs/MultiNode.md explains are what mpirun says, and what the page says helps, helps.
#
# REQUIRES: kerf, kerf-run, mpi
# RUN: %python %s %t %inputs
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
PAGE = (INPUTS.resolve().parent.parent / "docs/MultiNode.md").read_text()
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
PLAIN = {key: value for key, value in os.environ.items() if not key.startswith("OMPI_")}
checks = Checks()
package = OUT / "mlp.kerf"
made = kerf("compile", INPUTS / "models/mlp/model.onnx", "--dim=batch=8", "--devices=cpu:2", "-o", package)
checks.expect("compiles", made.returncode == 0, made.stderr)
RUN = ["kerf-run", package, "--seed=1", "--threads=1"]


def mpirun(*arguments, **environment):
    result = subprocess.run(["mpirun", *map(str, arguments)], env={**PLAIN, **environment}, capture_output=True, text=True, timeout=120)
    return result.returncode, " ".join((result.stdout + result.stderr).split())


def says(name, message, answer):
    code, text = answer
    checks.expect(f"{name}: the page has the message", f"`{message}`" in PAGE)
    checks.expect(f"{name}: mpirun says it", code != 0 and message in text, f"{code} {text}")


def helps(name, told, answer):
    code, text = answer
    checks.expect(f"{name}: the page says {told}", told in PAGE)
    checks.expect(f"{name}: {told} helps", code == 0 and "logits: f32 8x24" in text, f"{code} {text}")


SLOTS = ["--host", "localhost:2"]  # however few cores there are
if os.getuid() == 0:
    says("root", "mpirun has detected an attempt to run as root", mpirun(*SLOTS, "-n", "2", *RUN))
    helps("root", "mpirun --allow-run-as-root", mpirun("--allow-run-as-root", *SLOTS, "-n", "2", *RUN))
    helps("root", "OMPI_ALLOW_RUN_AS_ROOT=1` and `OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", mpirun(*SLOTS, "-n", "2", *RUN, **ROOT))
says("slots", "There are not enough slots available in the system", mpirun("--host", "localhost:1", "-n", "2", *RUN, **ROOT))
helps("slots", "mpirun --oversubscribe", mpirun("--oversubscribe", "--host", "localhost:1", "-n", "2", *RUN, **ROOT))
says("no command", "No executable was specified", mpirun(*SLOTS, "-n", "2", **ROOT))
says("flags of Kerf's", "unknown option", mpirun(*SLOTS, "-n", "2", "--devices=cpu:2", "kerf", "run", **ROOT))
checks.finish()
