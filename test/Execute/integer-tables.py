# Tables of integers of which a part is constant and a part computed, as exporters write x[arange(n), i]: joined, cut and
# gathered along every dimension, then used as indices. What import knows of such a table is where it stands in it, whatever
# its rank; ONNX Runtime says what the model gives. By hand as PyTorch writes them, of few rows and of more than import
# looks into, and 60 at random.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from kerf_commands import Commands
from kerf_tests import Checks, fresh_folder

OUT = fresh_folder(sys.argv[1])
checks = Checks()
node = helper.make_node
random = np.random.default_rng(11)
I64 = np.int64


def compare(kerf, name, nodes, inputs, constants):
    """The output y, on one rank and on two, against ONNX Runtime."""
    shapes = [helper.make_tensor_value_info(each, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for each, value in inputs.items()]
    graph = helper.make_graph(nodes, name, shapes, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(np.asarray(value), each) for each, value in constants.items()])
    path = OUT / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    expected = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, inputs)[0]
    np.savez(OUT / f"{name}.npz", **inputs)
    for ranks in (1, 2):
        run = kerf("run", path, f"--input=@{OUT / name}.npz", f"--devices=cpu:{ranks}", f"--output-dir={OUT / name}")
        if checks.expect(f"{name} on {ranks}", run.code == 0, run.stderr):
            got = np.load(OUT / name / "y.npy")
            checks.expect(f"{name} on {ranks}: values", got.shape == expected.shape and np.allclose(got, expected, 1e-5, 1e-6),
                          f"{got}\n{expected}")


def column(index):
    return np.arange(index, dtype=I64)[:, None]


def by_hand(kerf, rows):
    x = random.standard_normal((rows, 10, 3)).astype(np.float32)
    i = random.integers(0, 10, rows)
    last = {"last": np.array([-1])}
    table = [node("Unsqueeze", ["i", "last"], ["u"]), node("Concat", ["c", "u"], ["table"], axis=-1)]
    names = {"c": column(rows), **last}
    compare(kerf, f"gather-{rows}", [*table, node("GatherND", ["x", "table"], ["y"])], {"x": x, "i": i}, names)
    compare(kerf, f"swapped-{rows}", [table[0], node("Concat", ["u", "c"], ["table"], axis=1), node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
                                      node("GatherND", ["t", "table"], ["y"])], {"x": x, "i": i}, names)
    add = random.standard_normal((rows, 3)).astype(np.float32)
    compare(kerf, f"scatter-{rows}", [*table, node("ScatterND", ["x", "table", "add"], ["y"], reduction="add")],
            {"x": x, "i": i, "add": add}, names)
    compare(kerf, f"second-{rows}", [*table, node("Slice", ["table", "one", "two", "one"], ["cut"]), node("Squeeze", ["cut", "one"], ["list"]),
                                     node("Gather", ["x", "list"], ["y"], axis=1)], {"x": x, "i": i},
            {**names, "one": np.array([1]), "two": np.array([2])})


def at_random(kerf, number):
    """Joins and cuts of constant and computed tables; the numbers in pairs are places of a table of 5 x 5."""
    nodes, constants, inputs, known = [], {}, {"x": random.standard_normal((5, 5)).astype(np.float32)}, {}

    def leaf(shape):
        value = random.integers(0, 5, shape)
        name = f"v{len(known)}"
        (inputs if random.random() < 0.5 else constants)[name] = value
        known[name] = value
        return name

    def made(kind, values, array, **attributes):
        name = f"v{len(known)}"
        nodes.append(node(kind, values, [name], **attributes))
        known[name] = array
        return name

    def ints(name, values):
        constants[name] = np.array(values, I64)
        return name

    at = leaf(tuple(random.integers(1, 4, random.integers(1, 4))))
    for _ in range(random.integers(2, 6)):
        value = known[at]
        kind = random.integers(0, 5)
        dim = int(random.integers(0, max(value.ndim, 1)))
        if kind == 0 and value.ndim:
            shape = list(value.shape)
            shape[dim] = int(random.integers(1, 3))
            other = leaf(tuple(shape))
            pair = [at, other] if random.random() < 0.5 else [other, at]
            at = made("Concat", pair, np.concatenate([known[each] for each in pair], dim), axis=dim)
        elif kind == 1 and value.ndim:
            begin, step = int(random.integers(0, value.shape[dim])), int(random.integers(1, 3))
            cut = (slice(None),) * dim + (slice(begin, None, step),)
            tag = len(known)
            at = made("Slice", [at, ints(f"b{tag}", [begin]), ints(f"e{tag}", [99]), ints(f"d{tag}", [dim]), ints(f"s{tag}", [step])], value[cut])
        elif kind == 2 and value.ndim:
            places = random.integers(0, value.shape[dim], int(random.integers(1, 4)))
            at = made("Gather", [at, ints(f"g{len(known)}", places)], np.take(value, places, dim), axis=dim)
        elif kind == 3 and value.ndim > 1:
            order = random.permutation(value.ndim)
            at = made("Transpose", [at], value.transpose(order), perm=[int(each) for each in order])
        else:
            shape = [value.size] if random.random() < 0.5 else [1, value.size, 1]
            at = made("Reshape", [at, ints(f"r{len(known)}", shape)], value.reshape(shape))
    flat = made("Reshape", [at, ints("flat", [-1, 1])], known[at].reshape(-1, 1))
    both = made("Concat", [flat, ints("zeros", np.full_like(known[flat], 2))] if number % 2 else [flat, flat],
                np.concatenate([known[flat], known[flat]], 1), axis=1)
    compare(kerf, f"random-{number}", [*nodes, node("GatherND", ["x", both], ["y"])], inputs, constants)


with Commands() as kerf:
    for rows in (3, 4, 64, 65):
        by_hand(kerf, rows)
    for number in range(60):
        at_random(kerf, number)
checks.finish()
