"""Recurrent operators as PyTorch exports them, for tests of what their unrolled steps become."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F = TensorProto.FLOAT
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


class Model:
    def __init__(self):
        self.random, self.nodes, self.weights = np.random.default_rng(11), [], []

    def constant(self, value):
        self.weights.append(numpy_helper.from_array(np.asarray(value), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def weight(self, *shape):
        return self.constant((self.random.standard_normal(shape) / 3).astype(np.float32))

    def add(self, kind, inputs, outputs, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=f"{kind}_{len(self.nodes)}", **attributes))

    def save(self, path, inputs, result, kind=F):
        infos = [[helper.make_tensor_value_info(name, kind, shape) for name, shape in each.items()] for each in (inputs, result)]
        made = helper.make_graph(self.nodes, "steps", *infos, self.weights)
        onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def operator(kind, batch_first, directions=1, **attributes):
    """One operator, as PyTorch exports it where the batch comes first."""
    def build(path, steps, batch, inputs, hidden):
        m = Model()
        shape = [batch, steps, inputs] if batch_first else [steps, batch, inputs]
        x = "x"
        if batch_first:
            m.add("Transpose", ["x"], ["xt"], perm=[1, 0, 2])
            x = "xt"
        gates = GATES[kind] * hidden
        m.add(kind, [x, m.weight(directions, gates, inputs), m.weight(directions, gates, hidden), m.weight(directions, 2 * gates)],
              ["ys"], hidden_size=hidden, direction="bidirectional" if directions == 2 else "forward", **attributes)
        m.add("Transpose", ["ys"], ["yt"], perm=[2, 0, 1, 3] if batch_first else [0, 2, 1, 3])
        m.add("Reshape", ["yt", m.constant(np.int64([shape[0], -1, directions * hidden]))], ["r"])
        m.add("MatMul", ["r", m.weight(directions * hidden, 5)], ["y"])
        m.save(path, {"x": shape}, {"y": [*shape[:2], 5]})
        return shape
    return build
