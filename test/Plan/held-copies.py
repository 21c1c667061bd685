# A stage holds what its backward pass reads of each micro-batch in work, but no copies: weights in bfloat16 are made again.
# So where all blocks of 64 micro-batches are computed again, a plan that fits a limit is not taken for one that does not.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
checks = Checks()


def plan(limit):
    path = OUT / f"{limit}.json"
    result = kerf("plan", INPUTS / "graphs/gpt2-124m/model.onnx", "--dim=batch=64", "--train", "--loss=cross_entropy(logits,labels)",
                  "--optimizer=adamw", "--precision=bf16", "--machine=h100-4", "--mesh=pp=4", "--micro-batches=64",
                  "--recompute=all", "--zero=none", "--schedule=1f1b", f"--memory-limit={limit}MiB", "-q", "-o", path)
    checks.expect(f"a plan in {limit} MiB", result.returncode == 0, result.stderr)
    return json.loads(path.read_text()) if result.returncode == 0 else None


loose = plan(80 * 1024)
if loose:
    peak = max(each["peak"] for each in loose["memory"]["per_device"])
    near = plan(int(1.2 * peak / 2**20))
    checks.expect("the same plan", near and near["objective"]["cost"] <= loose["objective"]["cost"] * 1.01, near and near["objective"])
    plan(-(-peak // 2**20))
checks.finish()
