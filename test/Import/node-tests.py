# ONNX's own node tests: every one is imported and interpreted, in one process.
# Those that Kerf refuses are refused with a reason; those that it takes give
# the numbers that come with ONNX. `expected` counts what passes, so that a lost
# operator is noticed.
#
# REQUIRES: kerf-node-tests, onnx
# RUN: %python %s %t
import collections
import pathlib
import shutil
import subprocess
import sys
import warnings

warnings.filterwarnings("ignore")
import numpy as np
from onnx.backend.test.loader import load_model_tests

LEAST = 1141
# Differences that are not faults: why.
KNOWN = {
    # The reference rounds to half precision between all steps; the interpreter does not round.
    "test_attention_4d_gqa_with_past_and_present_fp16",
    "test_attention_4d_gqa_with_past_and_present_fp16_expanded",
}
out = pathlib.Path(sys.argv[1])
shutil.rmtree(out, ignore_errors=True)
count = 0
for test in load_model_tests(kind="node"):
    folder = out / test.name
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(test.model.SerializeToString())
    for kind, arrays in zip(("input", "output"), test.data_sets[0]):
        for index, array in enumerate(arrays):
            if isinstance(array, (np.ndarray, np.generic)) and array.dtype.kind in "fiub":
                np.save(folder / f"{kind}_{index}.npy", np.ascontiguousarray(array).reshape(np.shape(array)))
            else:
                (folder / f"{kind}_{index}.npy").write_text("no array")
    count += 1
run = subprocess.run(["kerf-node-tests", out], capture_output=True, text=True, errors="replace", timeout=1500)
lines = [line.split(" ", 2) for line in run.stdout.splitlines()]
verdicts = collections.Counter(line[0] for line in lines)
print(f"{count} tests: {dict(verdicts)}, exit {run.returncode}")
for why, number in collections.Counter(line[2] for line in lines if line[0] == "refused").most_common():
    print(f"  {number} refused: {why}")
wrong = [line for line in lines if line[0] == "differ" and line[1] not in KNOWN]
for line in wrong:
    print(" ".join(line))
print(run.stderr[-2000:])
complete = len(lines) == count and run.returncode == 0
sys.exit(not complete or bool(wrong) or verdicts["pass"] < LEAST)
