"""calibrated.py MACHINE: numbers that a CPU of this century can have, and a curve that rises."""
import json
import sys

machine = json.load(open(sys.argv[1]))
assert machine["devices_per_node"] == 2 and machine["threads_per_device"] == 1, machine
for name, rate in machine["compute"].items():
    assert 1e8 < rate["flops_per_second"] < 1e14, (name, rate)
    assert 1e7 < rate["bytes_per_second"] < 1e13, (name, rate)
    assert 0 < rate["latency_seconds"] < 0.1, (name, rate)
# Matrix products are what machines are made for.
assert machine["compute"]["matmul"]["flops_per_second"] > machine["compute"]["elementwise"]["flops_per_second"]
points = machine["local"]["all_reduce_curve"]["points"]
assert len(points) == 7 and points[0]["buffer_bytes"] == 0
assert all(a["buffer_bytes"] < b["buffer_bytes"] and a["seconds"] <= b["seconds"]
           for a, b in zip(points, points[1:])), points
assert 1 <= machine["ranks_that_saturate_memory"] <= 2
