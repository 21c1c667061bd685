# What README.md and the first page of each document show is what the program prints today: every `$ kerf ...` in their
# blocks is run from the root of the sources, in order, and its output compared. A line `...` stands for any lines, and
# `...` in a line for anything; seconds that something took are masked. Files that commands write go to a folder of the
# test, which OUT stands for.
#
# REQUIRES: kerf, kerf-run, onnx
# RUN: %python %s %t %inputs
import pathlib
import re
import shlex
import subprocess
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder

OUT, ROOT = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve().parent.parent
PAGES = ["README.md"]
TOOK = re.compile(r"(planned in|trained .* in|,) [\d.]+ (?:us|ms|s)\b(?= per step| each|;|$)")
checks = Checks()


def shown(text):
    """(command, lines of output) of every command of a page."""
    found = []
    for block in re.findall(r"^```(?:console)?\n(.*?)^```", text, re.M | re.S):
        for part in re.split(r"^(?=\$ )", block, flags=re.M):
            if not part.startswith("$ kerf"):
                continue
            lines = part.rstrip("\n").split("\n")
            command = lines.pop(0)[2:]
            while command.endswith("\\"):
                command = command[:-1] + lines.pop(0).strip()
            found.append((command, lines))
    return found


def pattern(line):
    masked = TOOK.sub(r"\1 SECONDS", line.rstrip())
    return ".*".join(re.escape(part) for part in masked.split("..."))


def matches(lines, output):
    """Whether `output` is `lines`, in which a line `...` is any number of lines."""
    expression = "".join(r"(?:.*\n)*?" if line.strip() == "..." else pattern(line) + "\n" for line in lines)
    text = "".join(TOOK.sub(r"\1 SECONDS", line.rstrip()) + "\n" for line in output.rstrip("\n").split("\n"))
    return re.fullmatch(expression, text) is not None


count = 0
for page in PAGES:
    for command, lines in shown((ROOT / page).read_text()):
        process = subprocess.run(shlex.split(command.replace("OUT", str(OUT))), cwd=ROOT, capture_output=True, text=True)
        said = process.stdout + process.stderr
        checks.expect(f"{page}: {command}", process.returncode == 0 and matches(lines, said.replace(str(OUT), "OUT")),
                      f"exit {process.returncode}, printed\n{said}")
        count += 1
checks.expect("commands are found", count >= 2, f"  {count}")
checks.finish()
