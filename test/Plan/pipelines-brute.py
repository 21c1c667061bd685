# Pipelines that train, against a brute force that knows nothing of Kerf: chains of products on machines where nothing but
# products and the network take time. It tries every cut of the layers, every number of micro-batches of the candidates, and
# 1F1B, GPipe and interleaved schedules of 2, 3 and 4 chunks per stage, and simulates each by lists of its own.
#
# No plan is cheaper than the best of these, no bound is above it, and what the search finds is close to it.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import itertools
import json
import pathlib
import random
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
BATCH, FLOPS, NEVER = 64, 1e9, 1e30
CHUNKS = (2, 3, 4)
LOSS = 4  # ops of the loss that may be cut from another, at most


# ---- The brute force -------------------------------------------------------------------------------------------------------
def order(kind, stage, stages, micro, chunks):
    """What a stage does, as (is backward, micro-batch, chunk), in its order."""
    rounds = range(0, micro, stages if kind == "interleaved" else micro)
    size = stages if kind == "interleaved" else micro
    forward = [(False, first + at, chunk) for first in rounds for chunk in range(chunks) for at in range(size)]
    backward = [(True, first + at, chunk) for first in rounds for chunk in reversed(range(chunks)) for at in range(size)]
    if kind == "gpipe":
        return forward + backward
    # So much goes forward before the first goes back; then they alternate, and what is left goes back.
    ahead = stages - stage - 1 if kind == "1f1b" else 2 * (stages - stage - 1) + (chunks - 1) * stages
    result = forward[:ahead]
    for there, back in itertools.zip_longest(forward[ahead:], backward):
        result += [each for each in (there, back) if each]
    return result


def step(kind, stages, micro, chunks, there, back, send):
    """Seconds of a step. By virtual stage: forward, backward, and to send a value on from it or the gradient back to it."""
    lists = [order(kind, stage, stages, micro, chunks) for stage in range(stages)]
    last, arrived, clock, link, at = stages * chunks - 1, {}, [0.0] * stages, {}, [0] * stages
    for virtual in range(last + 1):
        assert sum(each[2] * stages + virtual % stages == virtual for each in lists[virtual % stages]) == 2 * micro
    while any(at[stage] < len(lists[stage]) for stage in range(stages)):
        before = sum(at)
        for stage in range(stages):
            while at[stage] < len(lists[stage]):
                is_back, number, chunk = lists[stage][at[stage]]
                virtual = chunk * stages + stage
                if is_back:
                    needs = [(False, number, virtual)] + ([("back", number, virtual)] if virtual < last else [])
                else:
                    needs = [("there", number, virtual)] if virtual > 0 else []
                if any(need not in arrived for need in needs):
                    break
                begin = max([clock[stage], *(arrived[need] for need in needs)])
                end = clock[stage] = begin + (back if is_back else there)[virtual]
                arrived[is_back, number, virtual] = end
                at[stage] += 1
                to = virtual - 1 if is_back else virtual + 1
                if 0 <= to <= last:
                    # A link carries one message after another.
                    way = stage, to % stages
                    link[way] = max(link.get(way, 0), end) + send[min(virtual, to)]
                    arrived["back" if is_back else "there", number, to] = link[way]
        assert sum(at) > before, "nothing can go on"
    return max(clock)


def best_of(widths, stages, micros, network):
    """The least seconds of all pipelines of these stages, and which one takes them."""
    layers, best = len(widths) - 1, (float("inf"), None)
    latency, bandwidth = network
    for micro in micros:
        seconds = [2 * BATCH // micro * a * b / FLOPS for a, b in itertools.pairwise(widths)]
        kinds = [("1f1b", 1), ("gpipe", 1)] + [("interleaved", v) for v in CHUNKS if micro % stages == 0 and stages * v < layers + LOSS]
        for kind, chunks in kinds:
            # Behind the last layer is the loss, which takes no time: it may be parts of its own, between which little is sent.
            for inner in itertools.combinations(range(1, layers + LOSS), stages * chunks - 1):
                cuts = [0, *(min(cut, layers) for cut in inner), layers]
                parts = [range(begin, end) for begin, end in itertools.pairwise(cuts)]
                there = [sum(seconds[layer] for layer in part) for part in parts]
                # Gradients of the weight and, but for the first layer, of what it reads.
                back = [sum(seconds[layer] * (2 if layer else 1) for layer in part) for part in parts]
                send = [latency + (4 * BATCH // micro * widths[cut] / bandwidth if cut <= layers else 0) for cut in inner]
                busiest = max(sum(there[stage::stages]) + sum(back[stage::stages]) for stage in range(stages))
                if micro * busiest >= best[0]:
                    continue
                best = min(best, (step(kind, stages, micro, chunks, there, back, send), (kind, chunks, micro, cuts)))
    return best


# With equal layers and a free network a step takes (M + p - 1) of a stage's time, and of chunks (M + (p - 1) / v).
for stages, chunks, micro in ((2, 2, 4), (4, 2, 8), (4, 3, 4), (2, 4, 2)):
    count = stages * chunks
    time = step("interleaved", stages, micro, chunks, [1.0] * count, [2.0] * count, [0.0] * count)
    checks.expect(f"closed form of {stages} stages", abs(time - 3 * (micro * chunks + stages - 1)) < 1e-9, time)
    time = step("1f1b", stages, micro, 1, [1.0] * stages, [2.0] * stages, [0.0] * stages)
    checks.expect(f"closed form of {stages} stages, 1F1B", abs(time - 3 * (micro + stages - 1)) < 1e-9, time)


# ---- Kerf ------------------------------------------------------------------------------------------------------------------
def write_model(path, widths):
    layers = range(len(widths) - 1)
    names = ["x", *(f"h{layer}" for layer in layers[1:]), "logits"]
    nodes = [helper.make_node("MatMul", [names[layer], f"w{layer}"], [names[layer + 1]], f"layer{layer}") for layer in layers]
    weights = [numpy_helper.from_array(np.ones((widths[layer], widths[layer + 1]), np.float32), f"w{layer}") for layer in layers]
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, widths[0]])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [BATCH, widths[-1]])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def write_machine(path, devices, network):
    free = {"flops_per_second": NEVER, "bytes_per_second": NEVER}
    compute = {name: free for name in ("elementwise", "row", "gather")}
    compute |= {name: {"flops_per_second": FLOPS, "bytes_per_second": NEVER} for name in ("matmul", "convolution")}
    link = {"latency_seconds": network[0], "bandwidth_bytes_per_second": network[1]}
    path.write_text(json.dumps({"schema": "kerf.machine/2", "name": "chain", "nodes": devices, "devices_per_node": 1,
                                "memory_bytes_per_device": 1 << 40, "ports_per_node": 1, "compute": compute, "local": link, "network": link}))


FAST, SLOW, SLUGGISH = (0, NEVER), (1e-6, 2e8), (2e-4, 5e7)
draw = random.Random(7)
CASES = []
for stages, layers, network in ((2, 8, FAST), (2, 8, SLOW), (2, 6, SLOW), (4, 8, FAST), (4, 9, SLOW), (2, 4, SLUGGISH), (4, 8, SLUGGISH),
                                (3, 9, SLOW), (2, 8, SLUGGISH)):
    CASES += [(stages, [64] * (layers + 1), network), (stages, [draw.choice((32, 64, 96, 128)) for _ in range(layers + 1)], network)]
chosen, distances = set(), []
for stages, widths, network in CASES:
    model, machine = OUT / "model.onnx", OUT / "machine.json"
    write_model(model, widths)
    write_machine(machine, stages, network)
    base = ["plan", model, f"--machine={machine}", "--train", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1", "--json"]
    allowed = [count for count in (stages // 2, stages, 2 * stages, 4 * stages) if count > 1 and BATCH % count == 0] + [1]
    if len(allowed) == 1:
        allowed = [max(count for count in range(1, 4 * stages + 1) if BATCH % count == 0), 1]
    found = {}
    for flags, micros in ([([f"--mesh=pp={stages}"], allowed), ([], allowed)]
                          + [([f"--mesh=pp={stages}", f"--micro-batches={micro}"], [micro]) for micro in allowed[:2]]):
        name = f"{stages} stages of {widths}, network {network}, {' '.join(flags)}"
        result = kerf(*base, *flags)
        checks.expect(f"{name} is planned", result.returncode == 0, result.stderr[:1000])
        if result.returncode:
            continue
        plan = json.loads(result.stdout)
        objective, schedule = plan["objective"], plan["schedule"]
        micros = tuple(micros)
        if micros not in found:
            found[micros] = best_of(widths, stages, micros, network)
        best, how = found[micros]
        said = f"{schedule['kind']} of {schedule.get('chunks', 1)} chunks, {schedule['micro_batches']} micro-batches: {objective['cost']}, " \
               f"bound {objective['lower_bound']}, by brute force {best}, {how}"
        # Costs are rounded to picoseconds.
        checks.expect(f"{name}: the bound holds", objective["lower_bound"] <= best * (1 + 1e-9), said)
        if flags:
            chosen.add(schedule["kind"])
            checks.expect(f"{name}: nothing is cheaper than the best", objective["cost"] >= best * (1 - 1e-9), said)
            checks.expect(f"{name}: the interleaved rule is said", ("interleaved 1F1B of 2, 3 or 4 chunks" in objective["candidates"]), objective)
            distances.append((objective["cost"] / best, name, said))
        checks.expect(f"{name}: it is close", objective["cost"] <= best * 1.08, said)
print(f"above the best: {sum(each[0] - 1 for each in distances) / len(distances):.2%} in the mean, {max(distances)[0] - 1:.2%} at most, "
      f"none {sum(each[0] < 1 + 1e-9 for each in distances)} of {len(distances)}", max(distances))
checks.expect("close in the mean", sum(each[0] - 1 for each in distances) < 0.01 * len(distances), distances)
checks.expect("both kinds are chosen", {"interleaved", "1f1b"} <= chosen, chosen)
checks.finish()
