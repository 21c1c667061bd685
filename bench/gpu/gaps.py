#!/usr/bin/env python3
"""gaps.py TRACE.json [--top N]: the part of a step in which a GPU does nothing between its first and its last kernel,
and the N kernels that take most of it, from the trace of `kerf-run --trace` (docs/Runtime.md): its last step, which is
replayed as a graph if there were three."""
import argparse
import collections
import json

LIMIT = 0.02


def idle(spans):
    """Part of the time in which nothing runs."""
    spans = sorted(spans)
    busy, end = 0, spans[0][0]
    for begin, stop in spans:
        busy += max(0, stop - max(begin, end))
        end = max(end, stop)
    return 1 - busy / (end - spans[0][0]) if end > spans[0][0] else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace")
    parser.add_argument("--top", type=int, default=25)
    arguments = parser.parse_args()
    events = [e for e in json.load(open(arguments.trace))["traceEvents"] if e["ph"] == "X" and e["pid"] == 1]
    kernels = [e for e in events if e["cat"] == "kernel"]
    if not kernels:
        print(f"idle gaps were not measured: {arguments.trace} has no kernels of a GPU (CUPTI: docs/CudaRuntime.md)")
        return
    first, last = min(e["ts"] for e in kernels), max(e["ts"] + e["dur"] for e in kernels)
    inside = [e for e in events if e["ts"] >= first and e["ts"] + e["dur"] <= last]
    part = idle([(e["ts"], e["ts"] + e["dur"]) for e in inside])
    print(f"idle {part:.2%} of a step of {(last - first) * 1e-3:.3f} ms: {'below' if part < LIMIT else 'NOT below'} {LIMIT:.0%}")
    names = collections.defaultdict(list)
    for event in inside:
        names[event["name"]].append(event["dur"])
    print(f"{len(inside)} kernels, copies and fills; by time:")
    for name, times in sorted(names.items(), key=lambda item: -sum(item[1]))[:arguments.top]:
        print(f"{sum(times) * 1e-3:10.3f} ms {sum(times) / (last - first):6.1%} {len(times):5} x {name}")


if __name__ == "__main__":
    assert abs(idle([(0, 98), (100, 198), (200, 300)]) - 4 / 300) < 1e-9
    main()
