# A vector that nodes read in parts is one parameter: PyTorch exports a GRU's weights and biases as one tensor each, and
# puts their thirds into ONNX's order by slices, whose bounds are computed. The trained file has the names of the
# original alone, every third learns, and a step is that of finite differences. Where two layers read a stored tensor in
# the same parts, the exporter has stored equal tensors once, and each layer gets its own.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT, HIDDEN, WIDTH, STEPS = fresh_folder(sys.argv[1]), 5, 6, 4
checks, draw = Checks(), np.random.default_rng(0)
node = helper.make_node


def gru(prefix, x, out, names, width):
    """ONNX's GRU from PyTorch's four tensors, as torch.onnx exports it: [r, z, n] becomes [z, r, n]."""
    nodes = [node("Constant", [], [f"{prefix}{number}"], value_ints=[number]) for number in (0, 2, 3)]
    nodes.append(node("Shape", ["start"], [f"{prefix}size"], start=2))  # what is hidden
    packed = {}
    for kind, stored in names.items():
        parts = []
        for third, (begin, end) in enumerate(((None, 1), (1, 2), (2, 3))):
            bounds = []
            for side, times in (("b", begin), ("e", end)):
                bounds.append(f"{prefix}0" if times is None else f"{prefix}size" if times == 1 else f"{prefix}{kind}{third}{side}")
                if times and times > 1:  # each slice computes its own
                    nodes.append(node("Mul", [f"{prefix}size", f"{prefix}{times}"], [bounds[-1]]))
            parts.append(f"{prefix}{kind}{third}")
            nodes.append(node("Slice", [stored, *bounds, f"{prefix}0"], [parts[-1]]))
        packed[kind] = f"{prefix}{kind}"
        nodes.append(node("Concat", [parts[1], parts[0], parts[2]], [packed[kind]], axis=0))
    nodes.append(node("Concat", [packed["bi"], packed["bh"]], [f"{prefix}b"], axis=0))
    for kind in ("wi", "wh", "b"):
        nodes.append(node("Unsqueeze", [f"{prefix}{kind}", f"{prefix}0"], [f"{prefix}{kind}u"]))
    nodes += [node("GRU", [x, f"{prefix}wiu", f"{prefix}whu", f"{prefix}bu", "", "start"], [f"{prefix}y", ""],
                   hidden_size=HIDDEN, linear_before_reset=1),
              node("Constant", [], [f"{prefix}one"], value_ints=[1]), node("Squeeze", [f"{prefix}y", f"{prefix}one"], [out])]
    return nodes


def save(name, layers, arrays, batch=8):
    """`layers`: for each the names of its four tensors."""
    nodes = [node("Constant", [], ["zero"], value_float=0.0), node("Constant", [], ["hidden"], value_ints=[1, batch, HIDDEN]),
             node("Expand", ["zero", "hidden"], ["start"]), node("Transpose", ["x"], ["in0"], perm=[1, 0, 2])]
    x = "in0"
    for i, names in enumerate(layers):
        nodes += gru(f"l{i}_", x, f"in{i + 1}", names, WIDTH)
        x = f"in{i + 1}"
    nodes += [node("Constant", [], ["last"], value_int=-1), node("Gather", [x, "last"], ["y"], axis=0)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, STEPS, WIDTH])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, HIDDEN])],
                              [numpy_helper.from_array(array, key) for key, array in arrays.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    onnx.save(model, OUT / f"{name}.onnx")


def train(name, rate, *flags):
    result = kerf("train", OUT / f"{name}.onnx", "--loss=mse(y,t)", f"--optimizer=sgd,lr={rate}", f"--data={OUT / 'data.npz'}",
                  "--batch-size=8", "--steps=1", "--shuffle=off", "-o", OUT / f"{name}.trained.onnx", *flags)
    checks.expect(f"{name} trains", result.returncode == 0, result.stderr)
    if result.returncode:
        checks.finish()
    graph = onnx.load(OUT / f"{name}.trained.onnx").graph
    return result, {t.name: numpy_helper.to_array(t) for t in graph.initializer}


def loss(arrays, layers, x, target):
    """In double, by PyTorch's formula of a GRU."""
    sigmoid = lambda value: 1 / (1 + np.exp(-value))
    for names in layers:
        wi, wh, bi, bh = (arrays[names[kind]].astype(np.float64) for kind in ("wi", "wh", "bi", "bh"))
        h, out = np.zeros((len(x), HIDDEN)), []
        for t in range(x.shape[1]):
            (ir, iz, i_n), (hr, hz, hn) = (np.split(a, 3, axis=1) for a in (x[:, t] @ wi.T + bi, h @ wh.T + bh))
            r, z = sigmoid(ir + hr), sigmoid(iz + hz)
            h = (1 - z) * np.tanh(i_n + r * hn) + z * h
            out.append(h)
        x = np.stack(out, axis=1)
    return np.mean((x[:, -1] - target) ** 2)


x, target = draw.standard_normal((8, STEPS, WIDTH)).astype(np.float32), draw.standard_normal((8, HIDDEN)).astype(np.float32)
np.savez(OUT / "data.npz", x=x, t=target)
shapes = {"gru.weight_ih_l0": (3 * HIDDEN, WIDTH), "gru.weight_hh_l0": (3 * HIDDEN, HIDDEN), "gru.bias_ih_l0": (3 * HIDDEN,),
          "gru.bias_hh_l0": (3 * HIDDEN,)}
first = {name: (0.4 * draw.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
layer = dict(zip(("wi", "wh", "bi", "bh"), shapes, strict=True))

save("gru", [layer], first)
result, trained = train("gru", 1)
checks.expect("no parameter comes apart", set(trained) == set(first) and "by itself" not in result.stderr, f"{sorted(trained)}\n{result.stderr}")
for name in shapes:
    step = (first[name] - trained[name]).astype(np.float64)  # the gradient, at a rate of 1
    expected = np.zeros(step.shape)
    for at in np.ndindex(step.shape):
        sides = []
        for sign in (1, -1):
            moved = {key: value.astype(np.float64) for key, value in first.items()}
            moved[name][at] += sign * 1e-5
            sides.append(loss(moved, [layer], x.astype(np.float64), target))
        expected[at] = (sides[0] - sides[1]) / 2e-5
    checks.expect(f"a step of {name}", np.allclose(step, expected, rtol=1e-3, atol=1e-6), f"{step}\n{expected}")

# Two layers of zeros that are stored once.
second = {"wi": "gru.weight_ih_l1", "wh": "gru.weight_hh_l1", "bi": "gru.bias_ih_l0", "bh": "gru.bias_hh_l0"}
two = {**first, "gru.weight_ih_l1": (0.4 * draw.standard_normal((3 * HIDDEN, HIDDEN))).astype(np.float32),
       "gru.weight_hh_l1": (0.4 * draw.standard_normal((3 * HIDDEN, HIDDEN))).astype(np.float32)}
for name in ("gru.bias_ih_l0", "gru.bias_hh_l0"):
    two[name] = np.zeros(3 * HIDDEN, np.float32)
save("two", [layer, second], two)
result, trained = train("two", 1)
checks.expect("each layer has its own", set(trained) == {*two, "gru.bias_ih_l0.2", "gru.bias_hh_l0.2"}, sorted(trained))
checks.expect("which is said", 'trained for each by itself: "gru.bias_ih_l0" (2 parameters), "gru.bias_hh_l0" (2 parameters); --tied=NAME'
              in result.stderr, result.stderr)
for name in ("gru.bias_ih_l0", "gru.bias_ih_l0.2"):
    checks.expect(f"all of {name} learns", np.all(trained[name] != 0), trained[name])
checks.expect("apart", not np.allclose(trained["gru.bias_ih_l0"], trained["gru.bias_ih_l0.2"]))
result, trained = train("two", 1, "--tied=gru.bias.*")
checks.expect("tied", set(trained) == set(two) and "by itself" not in result.stderr, f"{sorted(trained)}\n{result.stderr}")
checks.finish()
