# Values that lie so close to a border of HardSwish that rounding decides on which side they are: the gradient has a jump
# there, `kerf verify --train` counts the elements and calls nothing wrong; with a fault it still does. So with the rest of a
# division, and in a net of convolutions with BatchNorm and ReLU, in which some value is always near 0, and biases have
# gradients of 0 but for rounding.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
rng = np.random.default_rng(1)
ROWS, INNER, COLUMNS = 8, 257, 4
x = rng.standard_normal((ROWS, INNER)).astype(np.float32)
w = rng.standard_normal((INNER, COLUMNS)).astype(np.float32)
# x @ w + b + a is 3, the border, but for rounding: b brings it near, a to the nearest number.
b = (3 - x.astype(np.float64) @ w.astype(np.float64)).astype(np.float32)
a = (3 - (x.astype(np.float64) @ w.astype(np.float64) + b)).astype(np.float32)
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "w"], ["product"], name="product"), helper.make_node("Add", ["product", "b"], ["near"]),
     helper.make_node("Add", ["near", "a"], ["border"]), helper.make_node("HardSwish", ["border"], ["y"])],
    "border", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, INNER])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [ROWS, COLUMNS])],
    [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b"), numpy_helper.from_array(a, "a")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / "model.onnx")
np.save(OUT / "x.npy", x)
flags = ["verify", OUT / "model.onnx", "--train", "--loss=mse(y,t)", "--optimizer=sgd,lr=0.1", "--trainable=w", f"--input=x=@{OUT / 'x.npy'}",
         "--steps=1"]
for mesh in ([], ["--devices=2", "--mesh=tp=2"]):
    result = kerf(*flags, *mesh)
    checks.expect(f"{mesh}: rounding decides", result.returncode == 0 and "that rounding alone decides" in result.stdout, result.stdout + result.stderr)
    result = kerf(*flags, *mesh, "--damage=product")
    checks.expect(f"{mesh}: a fault is none of that", result.returncode == 1 and "NOT equal" in result.stdout, result.stdout + result.stderr)

# The rest r of a division jumps where rounding decides on which side of a multiple a value is; r (3 - r) does not, its slope does.
rest = [helper.make_node("Mod", ["border", "three"], ["r"], name="rest", fmod=1), helper.make_node("Sub", ["three", "r"], ["left"], name="left"),
        helper.make_node("Mul", ["r", "left"], ["y"])]
jumps = onnx.load(OUT / "model.onnx")
del jumps.graph.node[-1]
jumps.graph.node.extend(rest)
jumps.graph.initializer.append(numpy_helper.from_array(np.full(1, 3, np.float32), "three"))
onnx.save(jumps, OUT / "rest.onnx")
for damage in ([], ["--damage=left"]):
    result = kerf(flags[0], OUT / "rest.onnx", *flags[2:], *damage)
    checks.expect(f"a rest {damage}", (result.returncode == 1 and "NOT equal" in result.stdout) if damage
                  else (result.returncode == 0 and "that rounding alone decides" in result.stdout), result.stdout + result.stderr)


def written(name, widths, side, scale, bias):
    """Convolutions with BatchNorm and ReLU on images of `side`; weights of `scale`, else of 1 divided by the root of their number."""
    parameters, nodes, value, channels = [], [], "image", 3
    rng = np.random.default_rng(0)
    for i, width in enumerate(widths):
        for weight, numbers in ((f"c{i}.weight", (scale or (9 * channels) ** -0.5) * rng.standard_normal((width, channels, 3, 3))),
                                (f"c{i}.bias", bias * rng.standard_normal(width)), (f"n{i}.weight", np.ones(width)), (f"n{i}.bias", np.zeros(width)),
                                (f"n{i}.mean", np.zeros(width)), (f"n{i}.var", np.ones(width))):
            parameters.append(numpy_helper.from_array(numbers.astype(np.float32), weight))
        nodes += [helper.make_node("Conv", [value, f"c{i}.weight", f"c{i}.bias"], [f"c{i}"], name=f"conv{i}", pads=[1] * 4),
                  helper.make_node("BatchNormalization", [f"c{i}", f"n{i}.weight", f"n{i}.bias", f"n{i}.mean", f"n{i}.var"], [f"n{i}"]),
                  helper.make_node("Relu", [f"n{i}"], [f"r{i}"])]
        value, channels = f"r{i}", width
    parameters.append(numpy_helper.from_array((rng.standard_normal((3, channels, 1, 1)) / 3).astype(np.float32), "head"))
    nodes.append(helper.make_node("Conv", [value, "head"], ["logits"]))
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, side, side])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3, side, side])], parameters)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), OUT / f"{name}.onnx")
    return ["verify", OUT / f"{name}.onnx", "--train", "--loss=cross_entropy(logits,labels,dim=1)", "--dim=batch=4"]


flags = written("net", (8, 16, 8), 32, None, 1) + ["--optimizer=adamw,lr=1e-3"]
for seed in (6, 7, 11, 127):
    result = kerf(*flags, f"--seed={seed}")
    checks.expect(f"seed {seed}: verified", result.returncode == 0 and "that rounding alone decides" in result.stdout, result.stdout + result.stderr)
result = kerf(*flags, "--seed=6", "--damage=conv1")
checks.expect("a fault in the net", result.returncode == 1 and "NOT equal" in result.stdout, result.stdout + result.stderr)

# A program that is compiled for one device, which stands for a reference that takes long, cannot tell what rounding decides:
# where it differs, the reference is asked all the same.
slow = [*flags, "--devices=2", "--mesh=dp=2", "--seed=6"]
TELLS = "the program compiled for one device differs; this reference tells what rounding decides"
result = kerf(*slow, "--reference-seconds=0.01")
checks.expect("a slow reference", result.returncode == 0 and TELLS in result.stdout and "reference unfused" in result.stdout,
              result.stdout + result.stderr)
result = kerf(*slow, "--reference=compiled")
checks.expect("two compiled programs", result.returncode == 1 and "--reference=unfused tells what rounding decides" in result.stdout, result.stdout)

# In bfloat16 hundreds of gradients may have either sign: some element of the program has one that no run of the reference shows.
flags = written("wide", (16, 32, 16), 16, 0.05, 0.1) + ["--optimizer=adamw,lr=1e-2", "--precision=bf16"]
for seed in (5, 6, 24):
    result = kerf(*flags, f"--seed={seed}")
    checks.expect(f"bf16, seed {seed}: verified", result.returncode == 0 and "that rounding alone decides" in result.stdout, result.stdout + result.stderr)
result = kerf(*flags, "--seed=6", "--damage=conv1")
checks.expect("bf16, a fault", result.returncode == 1 and "NOT equal" in result.stdout, result.stdout + result.stderr)

# Keypoints as expected positions: behind a softmax over 4,096 pixels the gradient of the convolution's bias is 0 but for rounding,
# and what makes it so is a sum (of each probability times its gradient) that is itself next to nothing of the numbers added up.
rng = np.random.default_rng(2)
parameters = [numpy_helper.from_array(numbers.astype(kind), name) for name, numbers, kind in (
    ("weight", rng.standard_normal((6, 3, 3, 3)) / 9, np.float32), ("bias", rng.standard_normal(6) / 9, np.float32),
    ("positions", np.linspace(-1, 1, 4096), np.float32), ("rows", np.array([0, 6, 4096]), np.int64), ("last", np.array([-1]), np.int64))]
graph = helper.make_graph(
    [helper.make_node("Conv", ["image", "weight", "bias"], ["heat"], name="conv", pads=[1] * 4), helper.make_node("Reshape", ["heat", "rows"], ["row"]),
     helper.make_node("Softmax", ["row"], ["p"], name="softmax"), helper.make_node("Mul", ["p", "positions"], ["parts"]),
     helper.make_node("ReduceSum", ["parts", "last"], ["y"], keepdims=0)],
    "keypoints", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 64, 64])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 6])], parameters)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / "keypoints.onnx")
flags = ["verify", OUT / "keypoints.onnx", "--dim=batch=4", "--train", "--loss=mse(y,t)", "--trainable=weight", "--trainable=bias", "--steps=2"]
for optimizer in ("adam", "rmsprop"):
    for seed in range(4):
        result = kerf(*flags, f"--optimizer={optimizer}", f"--seed={seed}")
        checks.expect(f"keypoints, {optimizer}, seed {seed}: verified", result.returncode == 0 and "verified" in result.stdout,
                      result.stdout + result.stderr)
    for damage in ("conv", "softmax"):
        result = kerf(*flags, f"--optimizer={optimizer}", f"--damage={damage}")
        checks.expect(f"keypoints, {optimizer}: a fault of {damage}", result.returncode == 1 and "NOT equal" in result.stdout,
                      result.stdout + result.stderr)
checks.finish()
