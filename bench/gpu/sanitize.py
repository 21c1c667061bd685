#!/usr/bin/env python3
"""sanitize.py FOLDER TOOL [--jobs J] [--sanitizer FILE]: compute-sanitizer's TOOL (memcheck, racecheck, initcheck,
synccheck) on one step of every model, operator and training package of FOLDER, J at a time. A line for each package
that fails, with the first lines of what was found; leaves with 1 if there was one."""
import argparse
import concurrent.futures
import pathlib
import subprocess
import sys

from check import scalars


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("tool")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--sanitizer", default="compute-sanitizer")
    parser.add_argument("--lines", type=int, default=12, help="of what was found, for each package")
    arguments = parser.parse_args()
    root = arguments.folder.resolve()
    packages = [p for part in ("packages", "ops", "train") for p in sorted((root / part).glob("*.kerf"))]

    def found(package):
        command = [arguments.sanitizer, "--tool", arguments.tool, "--error-exitcode", "9", root / "kerf-run", package,
                   "--seed=1", "-q", *scalars(package)]
        result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return result.stdout if result.returncode else ""

    failures = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for package, text in zip(packages, pool.map(found, packages)):
            if text:
                failures += 1
                print(f"{package.parent.name}/{package.name} failed\n" + "\n".join(text.splitlines()[:arguments.lines]), flush=True)
    print(f"{arguments.tool}: {failures} of {len(packages)} packages failed")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
