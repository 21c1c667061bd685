#!/usr/bin/env python3
"""gaps.py TRACE.csv: idle time of a GPU between the kernels and copies of steps, from `nsys stats --report
cuda_gpu_trace --format csv`. The first half (steps that are enqueued and captured) is left out, and so is what lies
between two steps, where the host looks at the results: gaps of more than 100 times the median."""
import csv
import statistics
import sys

LIMIT = 0.02


def idle(spans):
    """Part of the time in which nothing runs."""
    spans = sorted(spans)
    busy = gap = 0
    end = spans[0][0]
    gaps = []
    for begin, stop in spans:
        if begin > end:
            gaps.append(begin - end)
        busy += max(0, stop - max(begin, end))
        end = max(end, stop)
    usual = statistics.median(gaps) if gaps else 0
    gap = sum(g for g in gaps if g <= 100 * usual)
    return gap / (busy + gap) if busy + gap else 0.0


def main():
    rows = [r for r in csv.reader(open(sys.argv[1])) if r and r[0].strip().isdigit()]
    if not rows:
        sys.exit(f"error: {sys.argv[1]} has no kernels")
    spans = [(int(r[0]), int(r[0]) + int(r[1])) for r in rows]
    part = idle(spans[len(spans) // 2:])
    print(f"idle {part:.2%} of a step: {'below' if part < LIMIT else 'NOT below'} {LIMIT:.0%}")


if __name__ == "__main__":
    assert abs(idle([(0, 98), (100, 198), (200, 300)]) - 4 / 300) < 1e-9
    main()
