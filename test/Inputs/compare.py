#!/usr/bin/env python3
"""compare.py FOUND EXPECTED [--rtol R] [--atol A]: two folders of .npy files.

Every array of EXPECTED must stand in FOUND with its type and shape, and every
element within atol + rtol |expected|, integers and booleans exactly. Prints a line for each; exit code 1 on a
difference.
"""
import argparse
import pathlib
import sys

import numpy as np


def is_exact(array):
    return array.dtype.kind in "biu"


def compare(found, expected, rtol, atol):
    """(whether they agree, a sentence about it)"""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False, f"{found.dtype}{list(found.shape)}, expected {expected.dtype}{list(expected.shape)}"
    if not expected.size:
        return True, "empty"
    with np.errstate(invalid="ignore"):
        difference = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    wrong = ~(difference <= atol + rtol * np.abs(expected.astype(np.float64)))
    if is_exact(expected):
        wrong = found != expected
    wrong &= ~((found == expected) | (np.isnan(found) & np.isnan(expected)))
    worst = np.unravel_index(np.argmax(np.where(np.isnan(difference), np.inf, difference)), expected.shape)
    text = (f"{expected.size} elements, largest difference {difference[worst]:.3g} at {[int(i) for i in worst]} "
            f"({found[worst]:.7g} against {expected[worst]:.7g})")
    return not wrong.any(), text + (f"; {wrong.sum()} outside atol {atol} + rtol {rtol}" if wrong.any() else "")


def difference(found, expected, rtol, atol):
    """Empty if two arrays agree, else the first element that does not; NaN and infinities agree with themselves."""
    if found.dtype != expected.dtype:
        return f"type {found.dtype}, expected {expected.dtype}"
    if found.shape != expected.shape:
        return f"shape {list(found.shape)}, expected {list(expected.shape)}"
    a, b = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        fine = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= atol + rtol * np.abs(b))
    if is_exact(expected):
        fine = found == expected
    if np.all(fine):
        return ""
    at = tuple(int(i) for i in np.argwhere(~fine)[0])
    shown = (str if is_exact(expected) else "{:.6g}".format)
    return (f"{int(np.sum(~fine))} of {fine.size} elements of {list(found.shape)}, the first at {list(at)} is "
            f"{shown(found[at])}, expected {shown(expected[at])}")


def largest(array):
    """The largest finite magnitude; 0 of an empty array."""
    values = np.abs(array.astype(np.float64))
    return np.max(values, initial=0, where=np.isfinite(values))


def compare_folders(found, expected, rtol=1e-3, atol=1e-5):
    """[(name, agree, sentence)] for every array that is expected."""
    results = []
    for path in sorted(pathlib.Path(expected).glob("*.npy")):
        other = pathlib.Path(found) / path.name
        if other.exists():
            results.append((path.stem, *compare(np.load(other), np.load(path), rtol, atol)))
        else:
            results.append((path.stem, False, f"{other} is missing"))
    return results or [(str(expected), False, "nothing to compare with")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("found")
    parser.add_argument("expected")
    parser.add_argument("--rtol", type=float, default=1e-3)
    parser.add_argument("--atol", type=float, default=1e-5)
    arguments = parser.parse_args()
    results = compare_folders(arguments.found, arguments.expected, arguments.rtol, arguments.atol)
    for name, agree, text in results:
        print(f"{'equal  ' if agree else 'differs'}  {name}: {text}")
    sys.exit(not all(agree for _, agree, _ in results))


if __name__ == "__main__":
    main()
