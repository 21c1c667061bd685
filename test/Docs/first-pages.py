# What README.md and the first page of each document (all before its second `## `) show is what the programs do today.
# Every command of their `sh` and `console` blocks is run, in order, and must end with 0, or with the code that a comment
# behind it says (`# exit code 2`). In a `console` block what stands behind a command `$ ...` is its output: a line `...`
# stands for any lines, `...` in a line for anything, and seconds that something took are masked.
#
# A page has a folder of its own, with the entries of the source tree, model.onnx and train.npz.
#
# REQUIRES: kerf, kerf-run, onnx
# RUN: %python %s %t %inputs
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder

OUT, ROOT = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve().parent.parent
PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md"))]
GIVEN = {"model.onnx": "test/Inputs/training/mlp/model.onnx", "train.npz": "test/Inputs/training/mlp/data.npz"}
# Commands that are not run here, and why: page, expression, reason.
NOT_RUN = [
    ("README.md", r"\./demo|\./check", "they set a machine up and build for minutes; this test is a part of the second"),
    ("docs/Building.md", r"cmake --preset", "it builds everything and runs this suite"),
    ("docs/MultiNode.md", r"node[01]\$ ", "it needs two hosts; test/Runtime/processes.py runs these in two network namespaces"),
]
if not shutil.which("mpirun"):
    NOT_RUN.append(("docs/MultiNode.md", r"\$ mpirun|&& cmp .* mpi/", "there is no mpirun"))
# Blocks of Python stand in a file that has a test of its own.
PYTHON = {"docs/Train.md": "examples/pytorch/train.py"}
TOOK = re.compile(r"(planned in|trained .* in|,) [\d.]+ (?:us|ms|s)\b(?= per step| each|;|$)")
# Containers run as root, and two cores are fewer than four ranks.
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
checks = Checks()


def blocks(text):
    """(language, lines) of every block of a first page."""
    page = "\n## ".join(re.split(r"\n## ", text)[:2])
    return [(language, block.splitlines()) for language, block in re.findall(r"^```(\S*).*\n((?:.*\n)*?)^```", page, re.M)]


def commands(language, lines):
    """(prompt and command, code, lines of output or None) of a block."""
    found = []
    lines = list(lines)
    while lines:
        line = lines.pop(0)
        prompt = re.match(r"\w*\$ ", line)
        if language == "console" and not prompt:
            found[-1][2].append(line)
            continue
        while line.endswith("\\"):
            line = line[:-1] + lines.pop(0).strip()
        code = re.search(r"# exit code (\d+)$", line)
        found.append((line if prompt else f"$ {line}", int(code[1]) if code else 0, [] if language == "console" else None))
    return found


def pattern(line):
    masked = TOOK.sub(r"\1 SECONDS", line.rstrip())
    return ".*".join(re.escape(part) for part in masked.split("..."))


def matches(lines, output):
    """Whether `output` is `lines`, in which a line `...` is any number of lines."""
    expression = "".join(r"(?:.*\n)*?" if line.strip() == "..." else pattern(line) + "\n" for line in lines)
    text = "".join(TOOK.sub(r"\1 SECONDS", line.rstrip()) + "\n" for line in output.rstrip("\n").split("\n"))
    return re.fullmatch(expression, text) is not None


def folder_of(page):
    folder = fresh_folder(OUT / page.replace("/", "-"))
    for entry in ROOT.iterdir():
        if not entry.name.startswith((".", "build")):
            (folder / entry.name).symlink_to(entry)
    for name, path in GIVEN.items():
        shutil.copy(ROOT / path, folder / name)
    return folder


passed_over, count = set(), 0
for page in PAGES:
    folder = folder_of(page)
    for language, lines in blocks((ROOT / page).read_text()):
        if language == "python":
            rest = iter((ROOT / PYTHON[page]).read_text().splitlines())
            checks.expect(f"{page}: Python of {PYTHON[page]}", all(line in rest for line in lines if line), "\n".join(lines))
        if not language:
            checks.expect(f"{page}: commands stand in blocks of sh or console", not any(re.match(r"\$ |kerf|\./", line) for line in lines),
                          "\n".join(lines))
        if language not in ("sh", "console"):
            continue
        for command, code, shown in commands(language, lines):
            reason = [entry for entry in NOT_RUN if entry[0] == page and re.search(entry[1], command)]
            if reason:
                passed_over.update(reason)
                continue
            run = subprocess.run(["bash", "-c", command.removeprefix("$ ")], cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            checks.expect(f"{page}: {command}", run.returncode == code and (shown is None or matches(shown, run.stdout)),
                          f"exit code {run.returncode}, expected {code}, printed\n{run.stdout}")
            count += 1
for entry in NOT_RUN:
    checks.expect(f"{entry[0]} has what is not run: {entry[1]}", entry in passed_over)
    print(f"not run: {entry[0]} {entry[1]}: {entry[2]}")
readme = (ROOT / "README.md").read_text().splitlines()
first = next((number for number, line in enumerate(readme, 1) if line.startswith("$ ")), 1000)
checks.expect("README.md is a page of 90 lines, whose first result begins in its first half", len(readme) <= 90 and first <= 45,
              f"  {len(readme)} lines, first result in {first}")
checks.expect("commands are found", count > 20, f"  {count}")
checks.finish()
