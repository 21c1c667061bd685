# What planning predicts that unrolled recurrent operators hold is what is laid out: the steps' results are written where
# their concatenation lies, so the first direction's gates are not held until the second has ended. A limit a little above
# what is laid out is kept, not refused.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import itertools
import json
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf
from recurrent_models import operator

OUT = fresh_folder(sys.argv[1])
checks = Checks()


def device(model, *flags):
    """What is said of the only device, or of the fuller of two; None: refused."""
    planned = kerf("plan", model, "--json", *flags)
    if planned.returncode:
        return None
    return max(json.loads(planned.stdout)["memory"]["per_device"], key=lambda each: each["peak"])


for kind, directions, (steps, batch) in itertools.product(("RNN", "GRU", "LSTM"), (1, 2), ((200, 1), (40, 16), (30, 256))):
    path = OUT / f"{kind}-{directions}-{batch}.onnx"
    operator(kind, True, directions)(path, steps, batch, 48, 64)
    for mesh in ("", "dp=2") if batch > 1 else ("",):
        found = device(path, *(["--devices=2", f"--mesh={mesh}"] if mesh else ["--devices=1"]))
        ratio = found["predicted"]["peak"] / found["peak"]
        name = f"{kind}, {directions} directions, {steps} steps, batch {batch}, mesh {mesh or 1}"
        checks.expect(name, abs(ratio - 1) <= 0.08, f"predicted {ratio:.3f} of {found['peak']} bytes laid out")
    if directions == 2:
        alone = device(path, "--devices=1")
        limit = int(alone["peak"] * 1.1)
        kept = device(path, "--devices=1", f"--memory-limit={limit}B")
        checks.expect(f"{kind}, batch {batch}, a limit of 1.1 times what is laid out", kept and kept["peak"] <= limit, kept)
checks.finish()
