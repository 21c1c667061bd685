# A step under a memory limit may keep states, gradients and parameters in parts and compute blocks again, in any
# combination: what is chosen costs no more than the best of all combinations, each asked for by hand.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
from kerf_tests import Checks, kerf

checks = Checks()


def cost(model, limit, *flags):
    """Of the best plan that is found; infinity: none."""
    result = kerf("plan", INPUTS / f"training/{model}/model.onnx", "--dim=batch=64", "--machine=h100-8", "--mesh=dp=8", "--train",
                  "--loss=cross_entropy(logits,labels)", "--optimizer=adamw", f"--memory-limit={limit}KiB", "--json", *flags)
    checks.expect(f"{model} {limit} {flags}: a plan, or none that fits", result.returncode in (0, 4), result.stderr)
    return json.loads(result.stdout)["objective"]["cost"] if result.returncode == 0 else float("inf")


for model, limit in (("llama", 410), ("gpt2", 400), ("gpt2", 610)):
    found = {(zero, every): cost(model, limit, f"--zero={zero}", f"--recompute={every}")
             for zero in ("none", "1", "2", "3") for every in ("none", "2", "all")}
    best = min(found, key=found.get)
    checks.expect(f"{model} {limit}: both at once are best", "none" not in best, str(found))
    chosen = cost(model, limit)
    checks.expect(f"{model} {limit}: the best combination", chosen <= found[best] * (1 + 1e-9), f"{chosen}, {best}: {found[best]}")

checks.finish()
