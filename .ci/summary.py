#!/usr/bin/env python3
"""summary.py LIT.json PASSED FAILED: the last lines of ./check, and its verdict.

Adds lit's results to the counts of the checks before it. A test that could not
be run, timed out or passed against its expectation has failed; a missing or
empty result file is a failure, too. Skipped tests are counted aloud. In front
of that: the seconds that the tests of each folder took, all workers together,
the longest tests, and once more, where the eye falls, what the failed ones said.
"""
import collections
import json
import sys

path, passed, failed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
try:
    with open(path) as file:
        tests = json.load(file)["tests"]
except (OSError, ValueError) as error:
    print(f"no results of lit: {error}")
    tests, failed = [], failed + 1
LONGEST = 10


def seconds(test):
    return test.get("elapsed") or 0.0


folders = collections.Counter()
for test in tests:
    folders["/".join(test["name"].split(" :: ", 1)[1].split("/")[:-1]) or "."] += seconds(test)
for folder, total in folders.most_common():
    if total >= 1:
        print(f"{total:7.0f} s  {folder}")
for test in sorted(tests, key=seconds, reverse=True)[:LONGEST]:
    if seconds(test) >= 10:
        print(f"{seconds(test):7.0f} s  {test['name'].split(' :: ', 1)[1]}")
FINE = {"PASS", "FLAKYPASS", "XFAIL", "UNSUPPORTED", "SKIPPED", "EXCLUDED"}
LINES = 30
for test in tests:
    if test["code"] not in FINE:
        # What the test itself printed, without lit's frame; its first check that failed, or else the end.
        lines = [line.removeprefix("# | ") for line in test.get("output", "").splitlines() if line.strip()]
        first = next((i for i, line in enumerate(lines) if line.startswith("FAILED")), max(0, len(lines) - LINES))
        print(f"{test['code']}: {test['name']}")
        print("".join(f"    {line[:400]}\n" for line in lines[first:first + LINES]), end="")
codes = collections.Counter(test["code"] for test in tests)
good = codes.pop("PASS", 0) + codes.pop("FLAKYPASS", 0)
known = codes.pop("XFAIL", 0)
skipped = codes.pop("UNSUPPORTED", 0) + codes.pop("SKIPPED", 0) + codes.pop("EXCLUDED", 0)
passed += good
failed += sum(codes.values())
if not good:
    failed += 1
    print("no test of lit has passed")
for code, count in (("expected to fail", known), ("skipped, for want of a device, a library or --full", skipped)):
    if count:
        print(f"{count} {code}")
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
