# ONNX's own node tests: every one is imported and interpreted, in one process.
# Those that Kerf refuses are refused with a reason; those that it takes give
# the numbers that come with ONNX. `expected` counts what passes, so that a lost
# operator is noticed.
#
# REQUIRES: kerf-node-tests, onnx
# RUN: %python %s %t %inputs
import collections
import re
import subprocess
import sys

sys.path.insert(0, sys.argv[2])
import node_tests

LEAST = 1746


def only_rounded(name, why):
    """The reference rounds to 16 bits between all steps and the interpreter never: within two units that is no fault."""
    units = 2.0 ** -7 if re.search("bf(loat)?16", name, re.I) else 2.0 ** -10 if "fp16" in name else 0
    numbers = re.search("element \\d+ is (\\S+), expected (\\S+)", why)
    return bool(numbers) and abs(float(numbers[1]) - float(numbers[2])) <= 2 * units * abs(float(numbers[2]))


out = sys.argv[1]
count = len(node_tests.load(out))
run = subprocess.run(["kerf-node-tests", out], capture_output=True, text=True, errors="replace", timeout=1500)
lines = [line.split(" ", 2) for line in run.stdout.splitlines()]
verdicts = collections.Counter(line[0] for line in lines)
print(f"{count} tests: {dict(verdicts)}, exit {run.returncode}")
for why, number in collections.Counter(line[2] for line in lines if line[0] == "refused").most_common():
    print(f"  {number} refused: {why}")
# Where float32 has a tie, the doubles of the interpreter have none.
TIES = ("test_dynamicquantizelinear", "test_dynamicquantizelinear_expanded")
# The doubles of the interpreter hold integers and bits of 53 places.
LONG = ("test_top_k_uint64", "test_bitcast_float64_to_int64", "test_bitcast_int64_to_float64")
wrong = [line for line in lines if line[0] == "differ" and not only_rounded(*line[1:])
         and line[1] not in (*node_tests.KNOWN, *TIES, *LONG)]
for line in wrong:
    print(" ".join(line))
print(run.stderr[-2000:])
complete = len(lines) == count and run.returncode == 0
sys.exit(not complete or bool(wrong) or verdicts["pass"] < LEAST)
