# What `kerf report --diff` says of a step's time adds up to the step (run by report.test).
import re
import subprocess
import sys

text = subprocess.run(["kerf", "report", sys.argv[1], "--diff", sys.argv[2]], capture_output=True, text=True, check=True).stdout
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}


def seconds(row):
    line = re.search(rf"^  {re.escape(row)} .*$", text, re.M)
    return [float(number) * UNITS[unit] for number, unit in re.findall(r"([0-9.]+) (ns|us|ms|s)\b", line[0])] if line else [0, 0]


step, *parts = [seconds(row) for row in ("step", "compute", "exposed communication", "neither (starting, waiting)")]
for column in (0, 1):
    total = sum(part[column] for part in parts)
    assert abs(total - step[column]) <= 0.01 * step[column], (column, total, step, text)
