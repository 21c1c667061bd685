# A product may be followed by any number of steps: sums of more products than a library call takes operands, chains of more
# functions than it has steps for, with vectors of one number per column between them. A call that would read all other
# products at once would also hold them at once: a sum of many takes little more memory than one of a few.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf
from recurrent_models import Model, operator

OUT = fresh_folder(sys.argv[1])
checks = Checks()
IMAGE = [4, 16, 6, 6]


def summed(path, count, kind):
    """x through `count` products or convolutions of its own, added up one by one."""
    model, total = Model(), None
    for i in range(count):
        weight = model.weight(16, 16) if kind == "MatMul" else model.weight(16, 16, 1, 1)
        model.add(kind, ["x", weight], [f"p{i}"])
        if total:
            model.add("Add", [total, f"p{i}"] if i % 2 else [f"p{i}", total], [f"s{i}"])
        total = f"s{i}" if total else f"p{i}"
    model.add("Tanh", [total], ["y"])
    shape = [64, 16] if kind == "MatMul" else IMAGE
    model.save(path, {"x": shape}, {"y": shape})


def chained(path, count, vectors):
    """A product and `count` functions behind it, each with a vector that is added in front if `vectors`."""
    model, value = Model(), "p"
    model.add("MatMul", ["x", model.weight(16, 16)], ["p"])
    for i in range(count):
        if vectors:
            model.add("Add", [value, model.weight(16)], [f"a{i}"])
            value = f"a{i}"
        model.add("Tanh" if i % 2 else "Relu", [value], [f"f{i}"])
        value = f"f{i}"
    model.add("Identity", [value], ["y"])
    model.save(path, {"x": [64, 16]}, {"y": [64, 16]})


def verified(name, path, *flags):
    result = kerf("verify", path, *flags)
    checks.expect(name, result.returncode == 0 and "verified" in result.stdout, result.stdout + result.stderr)


for kind in ("MatMul", "Conv", "ConvTranspose"):
    for count in (33, 34, 70):
        summed(path := OUT / f"{kind}-{count}.onnx", count, kind)
        verified(f"{count} of {kind}", path)
    verified(f"70 of {kind}, trained", path, "--train", "--loss=mse(y,t)", "--optimizer=sgd,lr=0.1")
    verified(f"70 of {kind} on two ranks", path, "--devices=2", "--mesh=tp=2")
for count, vectors in ((40, False), (20, True), (80, True)):
    chained(path := OUT / f"chain-{count}-{vectors}.onnx", count, vectors)
    verified(f"{count} functions, vectors {vectors}", path)
for kind in ("LSTM", "GRU"):
    operator(kind, True)(path := OUT / f"{kind}.onnx", 70, 4, 8, 8)
    verified(f"{kind} of 70 steps, trained", path, "--train", "--loss=mse(y,t)", "--optimizer=adam")

held = {}
for count in (4, 64):
    summed(path := OUT / f"held-{count}.onnx", count, "MatMul")
    document = json.loads(kerf("plan", path, "--devices=1", "--json").stdout)
    held[count] = document["memory"]["per_device"][0]["activations"]
checks.expect("64 products are not held at once", held[64] <= 2 * held[4], held)
checks.finish()
