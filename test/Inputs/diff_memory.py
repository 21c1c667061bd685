# What `kerf report --diff` says of the fullest device adds up to its peak (run by report.test).
import re
import subprocess
import sys

text = subprocess.run(["kerf", "report", sys.argv[1], "--diff", sys.argv[2]], capture_output=True, text=True, check=True).stdout
UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
block = re.search(r"memory of the fullest device.*\n((?:    \S.*\n)*)", text)


def sizes(line):
    return [float(number) * UNITS[unit] for number, unit in re.findall(r"([0-9.]+) (bytes|[KMG]iB)", line)]


peaks = sizes(block[0].splitlines()[0])
parts = [sizes(line) for line in block[1].splitlines()]
assert len(peaks) == 2 and parts, text
for column in (0, 1):
    total = sum(part[column] for part in parts)
    assert abs(total - peaks[column]) <= 0.01 * peaks[column], (column, total, peaks, text)
