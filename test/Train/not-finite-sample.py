# One sample with a NaN: the loss is NaN in the step that reads it, as PyTorch's is, through every activation, pool and
# reduction that could hide it, with and without smoothed labels; and with --on-nan=skip that step alone is left out.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, in_parallel, kerf

OUT = fresh_folder(sys.argv[1])
BAD = 6  # the step of sample 21, of batches of 4
checks = Checks()
draw = np.random.default_rng(0)


class Net:
    def __init__(self, shape):
        self.shape, self.nodes, self.initializers = shape, [], []

    def weight(self, *shape):
        self.initializers.append(numpy_helper.from_array(draw.standard_normal(shape).astype(np.float32) * 0.3,
                                                         f"w{len(self.initializers)}"))
        return self.initializers[-1].name

    def node(self, kind, *inputs, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [f"n{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def linear(self, x, columns, rows):
        return self.node("Gemm", x, self.weight(rows, columns), self.weight(rows), transB=1)

    def conv(self, x):
        return self.node("Conv", x, self.weight(4, 2, 3, 3), self.weight(4), pads=[1] * 4)

    def save(self, name, logits):
        self.nodes[-1].output[0] = "logits"
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *self.shape])],
                                  [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 5])], self.initializers)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), OUT / f"{name}.onnx")
        x = draw.standard_normal((40, *self.shape)).astype(np.float32)
        x.reshape(40, -1)[21, 3] = np.nan
        np.savez(OUT / f"{name}.npz", x=x, labels=draw.integers(0, 5, 40))


def activation(kind, **attributes):
    net = Net([10])
    net.save(kind, net.linear(net.node(kind, net.linear("x", 10, 16), **attributes), 16, 5))
    return kind


def image(name, rows, *layers):
    net = Net([2, 6, 6])
    y = net.conv("x")
    for kind, attributes in layers:
        y = net.node(kind, y, **attributes)
    net.save(name, net.linear(net.node("Flatten", y), rows, 5))
    return name


POOL = ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]})
MODELS = [activation(kind) for kind in ("Relu", "LeakyRelu", "Elu", "HardSwish", "HardSigmoid", "Softplus", "Softmax")]
MODELS += [image("conv-relu-pool", 36, ("Relu", {}), POOL), image("conv-pool", 36, POOL),
           image("conv-global-pool", 4, ("GlobalMaxPool", {})), image("conv-max", 4, ("ReduceMax", {"axes": [2, 3]}))]


def run(model, options, onNan):
    log = OUT / f"{model}{len(options)}{onNan}.jsonl"
    result = kerf("train", OUT / f"{model}.onnx", f"--loss=cross_entropy(logits,labels{options})", "--optimizer=sgd,lr=0.1",
                  f"--data={OUT / f'{model}.npz'}", "--batch-size=4", "--steps=9", "--shuffle=off", "--threads=1", "-q",
                  "--no-output", f"--on-nan={onNan}", f"--log={log}")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    if onNan == "stop":
        fine = result.returncode == 5 and f"step {BAD}: the loss is nan; sample 21 of " in result.stderr and len(lines) == BAD - 1
    else:
        fine = result.returncode == 0 and [line["step"] for line in lines if line.get("skipped")] == [BAD]
        fine &= all((line["loss"] is None) == (line["step"] == BAD) for line in lines)
    checks.expect(f"{model}{options} {onNan}", fine, f"{result.returncode} {result.stderr}\n{lines[BAD - 2:BAD + 1]}")


in_parallel([(run, model, options, onNan) for model in MODELS
             for options, onNan in (("", "stop"), ("", "skip"), (",label_smoothing=0.1", "stop"))
             if not options or model in ("Relu", "Elu", "conv-max")])

# A parameter that has become infinite stays so: leaving out steps is no way on, and it is named.
result = kerf("train", OUT / "Elu.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd", "--learning-rate=1e40",
              f"--data={OUT / 'Elu.npz'}", "--batch-size=4", "--steps=1000", "--on-nan=skip", "--no-output", "-q")
checks.expect("no way on", result.returncode == 5 and "is not a finite number" in result.stderr and "after step" in result.stderr,
              result.stderr)

# A mask has infinities by right: where they are all there is, they may be the cause, and so may the learning rate; a NaN comes first.
net = Net([10])
masked = net.node("Softmax", net.node("Add", net.linear("x", 10, 10), "mask"))
net.linear(masked, 10, 5)
net.nodes[-1].output[0] = "logits"
onnx.save(helper.make_model(helper.make_graph(
    net.nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 10]) for name in ("mask", "x")],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 5])], net.initializers),
    opset_imports=[helper.make_opsetid("", 17)], ir_version=9), OUT / "masked.onnx")
x, mask = draw.standard_normal((40, 10)).astype(np.float32), np.zeros((40, 10), np.float32)
mask[::2, 4] = -np.inf
for name, said in (("large", f'sample 20 of {OUT / "large.npz"} has -inf in "mask", which may be the cause if it is no mask\'s; so may a learning rate'),
                   ("nan", f'the loss is nan; sample 21 of {OUT / "nan.npz"} has nan in "x", nothing is written')):
    x[21] = 3.4e38 if name == "large" else np.nan
    np.savez(OUT / f"{name}.npz", x=x, mask=mask, labels=draw.integers(0, 5, 40))
    result = kerf("train", OUT / "masked.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1", f"--data={OUT / f'{name}.npz'}",
                  "--batch-size=4", "--steps=9", "--shuffle=off", "-q", "--no-output")
    checks.expect(f"a mask, {name}", result.returncode == 5 and f"step {BAD}: " in result.stderr and said in result.stderr, result.stderr)
checks.finish()
