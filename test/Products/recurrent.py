# RNN, GRU and LSTM: directions, activations with numbers, lengths, initial states, peepholes, clipped and coupled gates,
# both layouts; and Loop, Scan and a computed If. Against ONNX Runtime, on one rank and, every sixth model (with --full
# each), cut at random.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import sys

import numpy as np

sys.path.insert(0, sys.argv.pop(2))
from onnx import TensorProto, helper
from onnx_cases import Suite, covering

suite = Suite("recurrent", sys.argv, pack=12, spread=6)
S, B, I, H = 5, 4, 3, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {
    "RNN": {"default": None, "relu": (["Relu"], None, None), "affine": (["Affine"], [0.7], [0.1])},
    "GRU": {"default": None, "hard": (["HardSigmoid", "ScaledTanh"], [0.25, 1.1], [0.4, 0.8]),
            "soft": (["Sigmoid", "Softsign"], None, None)},
    "LSTM": {"default": None, "leaky": (["Sigmoid", "LeakyRelu", "Tanh"], [0.2], None),
             "elu": (["HardSigmoid", "Tanh", "Elu"], None, None)}}


def recurrent(kind, direction, functions, bias, lengths, initial, more):
    def build(g):
        D = 2 if direction == "bidirectional" else 1
        attributes = {"hidden_size": H, "direction": direction}
        chosen = FUNCTIONS[kind][functions]
        if chosen:
            names, alphas, betas = chosen
            attributes.update(activations=names * D)
            if alphas:
                attributes.update(activation_alpha=alphas * D)
            if betas:
                attributes.update(activation_beta=betas * D)
        operands = [g.x(S, B, I), g.c(D, GATES[kind] * H, I), g.c(D, GATES[kind] * H, H),
                    g.c(D, 2 * GATES[kind] * H) if bias else "",
                    g.given(np.array([S, 3, 1, 4], np.int32)) if lengths else "", g.x(D, B, H, tag=1) if initial else ""]
        if kind == "LSTM":
            operands.append(g.x(D, B, H, tag=2) if initial else "")
            if more == "peepholes":
                operands.append(g.c(D, 3 * H))
            if more == "coupled":
                attributes.update(input_forget=1)
        if more == "linear" and kind == "GRU":
            attributes.update(linear_before_reset=1)
        if more == "clip":
            attributes.update(clip=0.7)
        while operands[-1] == "":
            operands.pop()
        return g.op(kind, *operands, results=3 if kind == "LSTM" else 2, **attributes)
    return build


def fits(row):
    kind, functions, more = row[0], row[2], row[6]
    return ((functions is None or kind is None or functions in FUNCTIONS[kind]) and
            (more is None or kind is None or more in {"RNN": ("", "clip"), "GRU": ("", "clip", "linear"),
                                                      "LSTM": ("", "clip", "peepholes", "coupled")}[kind]))


NAMES = sorted({name for each in FUNCTIONS.values() for name in each})
for row in covering([list(GATES), ["forward", "reverse", "bidirectional"], NAMES, [False, True], [False, True], [False, True],
                     ["", "clip", "linear", "peepholes", "coupled"]], fits):
    suite.case(" ".join(map(str, row)), recurrent(*row))


F = TensorProto.FLOAT


def graph(nodes, inputs, outputs):
    def infos(names):
        return [helper.make_tensor_value_info(name, kind, None if kind == F else []) for name, kind in names]
    return helper.make_graph(nodes, "body", infos(inputs), infos(outputs))


STEP = graph([helper.make_node("Add", ["h", "x"], ["sum"]), helper.make_node("Tanh", ["sum"], ["next"]),
              helper.make_node("Mul", ["next", "x"], ["y"])], [("h", F), ("x", F)], [("next", F), ("y", F)])
for backwards in (0, 1):
    suite.case(f"scan {backwards}", lambda g, b=backwards: g.op(
        "Scan", g.x(4, 6), g.x(5, 4, 6, tag=1), results=2, body=STEP, num_scan_inputs=1, scan_input_directions=[b],
        scan_output_directions=[b]))
suite.case("scan of another axis", lambda g: g.op(
    "Scan", g.x(4, 6), g.x(4, 5, 6, tag=1), results=2, body=STEP, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[-1]))

# Keys grow from iteration to iteration; what is outside is seen; a condition that turns false ends it.
GROW = graph([helper.make_node("Concat", ["k", "step"], ["next"], axis=0), helper.make_node("ReduceSum", ["next"], ["y"]),
              helper.make_node("Less", ["i", "limit"], ["on"])],
             [("i", TensorProto.INT64), ("c", TensorProto.BOOL), ("k", F)], [("on", TensorProto.BOOL), ("next", F), ("y", F)])


def grow(count, limit):
    def build(g):
        step = g.Identity(g.x(1, 6, tag=1))
        bound = g.const(np.array(limit, np.int64))
        body = helper.make_graph([], "body", [], [])
        body.CopyFrom(GROW)
        for node in body.node:
            node.input[:] = [{"step": step, "limit": bound}.get(name, name) for name in node.input]
        return g.op("Loop", g.const(np.array(count, np.int64)), "", g.x(2, 6), results=2, body=body)
    return build


suite.case("loop", grow(4, 100))
suite.case("loop that ends early", grow(9, 3))


def computed(g):
    x = g.x(4, 6)
    total = g.ReduceSum(x, keepdims=0)
    branches = [graph([helper.make_node(kind, [x], ["r"])], [], [("r", F)]) for kind in ("Relu", "Neg")]
    zero = g.const(np.array(0, np.float32))
    return [g.op("If", condition, then_branch=branches[0], else_branch=branches[1])
            for condition in (g.Less(total, zero), g.Greater(total, zero))]


suite.case("a computed if", computed)
suite.finish()
