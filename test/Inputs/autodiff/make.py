#!/usr/bin/env python3
"""Makes small models and what PyTorch makes of them: losses, norms of gradients and parameters after some steps.

    make.py        writes *.onnx, cases.json and running.json beside this script (committed)

A case of cases.json: {"name", "model", "loss", "optimizer", "steps", "inputs": {name: {"shape", "data"}},
"options": {...}, "losses": [...], "norms": [...], "parameters": {name: [...]}}. Steps see the same inputs.
running.json holds BatchNorm's running statistics of the convolutional net of ../training after 3 steps of SGD, by number of
micro-batches. Needs torch and onnx; the test suite needs neither.
"""
import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from onnx import TensorProto, checker, helper, numpy_helper, save

HERE = pathlib.Path(__file__).parent
random = np.random.default_rng(7)


def array(*shape, scale=1.0):
    return (scale * random.standard_normal(shape)).astype(np.float32)


# Two layers, x [.., 6] -> logits [.., 5]; the parameters of every model.
PARAMETERS = {"w1": array(6, 7, scale=0.5), "b1": array(7), "w2": array(7, 5, scale=0.5), "b2": array(5)}
CLASS_WEIGHTS = np.array([0.5, 2.0, 1.0, 0.25, 1.5], np.float32)


def forward(p, x):
    return torch.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


def write(name, nodes, inputs, outputs, weights):
    """A model of these nodes; a weight is an array or a TensorProto."""
    initializers = [v if isinstance(v, TensorProto) else numpy_helper.from_array(v, k) for k, v in weights]
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    checker.check_model(proto)
    save(proto, HERE / f"{name}.onnx")


def model(name, shape, tail=(), outputs=("logits",), extra_inputs=(), initializers=()):
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h1"]), helper.make_node("Add", ["h1", "b1"], ["h2"]),
             helper.make_node("Tanh", ["h2"], ["h3"]), helper.make_node("MatMul", ["h3", "w2"], ["h4"]),
             helper.make_node("Add", ["h4", "b2"], ["logits"]), *tail]
    write(name, nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape), *extra_inputs],
          [helper.make_tensor_value_info(o, TensorProto.FLOAT, {"logits": [*shape[:-1], 5], "p": [*shape[:-1], 5],
                                                                "columns": [*shape[:-2], 5, shape[-2]]}.get(o, []))
           for o in outputs], (*PARAMETERS.items(), *initializers))


cases = []


def case(name, model_name, text, compute, inputs, optimizer="sgd,lr=0.5", make=None, steps=2, clip=None, options=None,
         trained=None, parameters=None, forward=forward):
    """`compute(logits, inputs)` is the loss; `make(parameters)` the optimizer of torch."""
    make = make or (lambda p: torch.optim.SGD(p.values(), lr=0.5))
    p = {k: torch.tensor(v, requires_grad=trained is None or k in trained) for k, v in (parameters or PARAMETERS).items()}
    values = {k: torch.from_numpy(v) for k, v in inputs.items()}
    update = make({k: v for k, v in p.items() if v.requires_grad})
    losses, norms = [], []
    for _ in range(steps):
        update.zero_grad()
        loss = compute(forward(p, values["x"]), values)
        loss.backward()
        if clip:
            norms.append(float(torch.nn.utils.clip_grad_norm_([v for v in p.values() if v.requires_grad], clip)))
        update.step()
        losses.append(float(loss.detach()))
    options = dict(options or {})
    if clip:
        options["clip_norm"] = clip
    cases.append({
        "name": name, "model": model_name, "loss": text, "optimizer": optimizer, "steps": steps,
        "inputs": {k: {"shape": list(v.shape), "data": v.reshape(-1).tolist()} for k, v in inputs.items()},
        "options": options, "losses": losses, "norms": norms,
        "parameters": {k: v.detach().reshape(-1).tolist() for k, v in p.items() if v.dim() or v.requires_grad}})


def losses():
    model("rows", [4, 6])
    model("tokens", [3, 4, 6])
    x, tokens = array(4, 6), array(3, 4, 6)
    labels = np.array([0, 4, 2, 2])
    some = np.array([0, -100, 2, -100])
    grid = random.integers(0, 5, (3, 4))
    grid[1, 2] = grid[0, 0] = -1
    target = array(4, 5)
    chance = random.random((4, 5)).astype(np.float32)
    ce = F.cross_entropy
    case("cross entropy", "rows", "cross_entropy(logits,labels)", lambda y, v: ce(y, v["labels"]),
         {"x": x, "labels": labels})
    case("cross entropy of some", "rows", "cross_entropy(logits,labels)", lambda y, v: ce(y, v["labels"]),
         {"x": x, "labels": some})
    case("cross entropy of tokens", "tokens", "cross_entropy(logits,y,ignore_index=-1)",
         lambda y, v: ce(y.reshape(-1, 5), v["y"].reshape(-1), ignore_index=-1), {"x": tokens, "y": grid})
    # Classes in dimension 1, as PyTorch has them; the same loss.
    model("columns", [3, 4, 6], [helper.make_node("Transpose", ["logits"], ["columns"], perm=[0, 2, 1])],
          ("columns",))
    for text in ("dim=1", "dim=-2"):
        case(f"cross entropy of columns, {text}", "columns", f"cross_entropy(columns,y,ignore_index=-1,{text})",
             lambda y, v: ce(y.transpose(1, 2), v["y"], ignore_index=-1), {"x": tokens, "y": grid})
    case("sum of cross entropies", "rows", "cross_entropy(logits,labels,reduction=sum)",
         lambda y, v: ce(y, v["labels"], reduction="sum"), {"x": x, "labels": some})
    case("smoothed labels", "rows", "cross_entropy(logits,labels,label_smoothing=0.2)",
         lambda y, v: ce(y, v["labels"], label_smoothing=0.2), {"x": x, "labels": some})
    case("mse", "rows", "mse(logits,t)", lambda y, v: F.mse_loss(y, v["t"]), {"x": x, "t": target})
    case("sum of squares", "rows", "mse(logits,t,reduction=sum)",
         lambda y, v: F.mse_loss(y, v["t"], reduction="sum"), {"x": x, "t": target},
         "sgd,lr=0.01", lambda p: torch.optim.SGD(p.values(), lr=0.01))
    case("l1", "rows", "l1(logits,t)", lambda y, v: F.l1_loss(y, v["t"]), {"x": x, "t": target})
    case("bce", "rows", "bce_with_logits(logits,t)",
         lambda y, v: F.binary_cross_entropy_with_logits(y, v["t"]), {"x": x, "t": chance})
    # A prediction that the model already makes as log-probabilities.
    model("log", [4, 6], [helper.make_node("LogSoftmax", ["logits"], ["p"], axis=-1)], ("p",))
    case("nll", "log", "nll(p,labels)", lambda y, v: F.nll_loss(F.log_softmax(y, -1), v["labels"]),
         {"x": x, "labels": some})
    # A scalar output of the graph.
    model("mean", [4, 6], [helper.make_node("Mul", ["logits", "logits"], ["square"]),
                           helper.make_node("ReduceMean", ["square"], ["total"], keepdims=0)], ("total",))
    case("output", "mean", "total", lambda y, v: (y * y).mean(), {"x": x})


def onnx_losses():
    x = array(4, 6)
    labels = np.array([0, 4, 2, 2])
    info = [helper.make_tensor_value_info("labels", TensorProto.INT64, [4])]
    weights = [("class_weights", CLASS_WEIGHTS)]
    for reduction in ("mean", "sum"):
        for weighted in (False, True):
            name = f"softmax_{reduction}{'_weighted' if weighted else ''}"
            model(name, [4, 6], [helper.make_node("SoftmaxCrossEntropyLoss",
                                                  ["logits", "labels"] + ["class_weights"] * weighted, ["loss"],
                                                  reduction=reduction, ignore_index=2)],
                  ("loss",), info, weights * weighted)
            case(name, name, "output(loss)",
                 lambda y, v, w=weighted, r=reduction: F.cross_entropy(
                     y, v["labels"], torch.from_numpy(CLASS_WEIGHTS) if w else None, ignore_index=2, reduction=r),
                 {"x": x, "labels": labels})
    model("nll_weighted", [4, 6], [helper.make_node("LogSoftmax", ["logits"], ["p"], axis=1),
                                   helper.make_node("NegativeLogLikelihoodLoss", ["p", "labels", "class_weights"],
                                                    ["loss"], reduction="mean")], ("loss",), info, weights)
    case("nll_weighted", "nll_weighted", "loss",
         lambda y, v: F.nll_loss(F.log_softmax(y, 1), v["labels"], torch.from_numpy(CLASS_WEIGHTS)),
         {"x": x, "labels": labels})


def more_onnx_losses():
    """Every reduction, weights of classes and ignored labels over [n, classes] and [n, classes, d], and the
    logarithms as a second output. What is not one number is weighted and added up."""
    flat, grid = np.array([0, 4, 2, 2]), random.integers(0, 5, (3, 4))
    grid[0, 1] = grid[2, 3] = -1
    weigh = {"flat": array(4), "grid": array(3, 4)}
    scores = {"flat": array(4, 5), "grid": array(3, 5, 4)}
    x = {"flat": array(4, 6), "grid": array(3, 4, 6)}
    labels, class_weights = {"flat": flat, "grid": grid}, torch.from_numpy(CLASS_WEIGHTS)
    for kind in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"):
        softmax = kind.startswith("Softmax")
        for shape in ("flat", "grid"):
            for reduction in ("none", "sum", "mean"):
                weighted, ignored = (shape == "grid", {"flat": 2, "grid": -1}[shape])
                if reduction == "sum":
                    weighted = not weighted
                name = f"{'softmax' if softmax else 'nll'}_{shape}_{reduction}"
                y = "logits"
                nodes = []
                if shape == "grid":
                    nodes.append(helper.make_node("Transpose", [y], ["turned"], perm=[0, 2, 1]))
                    y = "turned"
                if not softmax:
                    nodes.append(helper.make_node("LogSoftmax", [y], ["logs"], axis=1))
                    y = "logs"
                outputs = ["loss"] + ["log_prob"] * softmax
                nodes.append(helper.make_node(kind, [y, "labels"] + ["class_weights"] * weighted, outputs,
                                              reduction=reduction, ignore_index=ignored, name="the_loss"))
                total = "loss"
                if reduction == "none":
                    nodes += [helper.make_node("Mul", ["loss", "weigh"], ["weighed"]),
                              helper.make_node("ReduceSum", ["weighed"], ["one"], keepdims=0)]
                    total = "one"
                if softmax:
                    nodes += [helper.make_node("Mul", ["log_prob", "score"], ["scored"]),
                              helper.make_node("ReduceSum", ["scored"], ["other"], keepdims=0),
                              helper.make_node("Add", [total, "other"], ["total"])]
                    total = "total"
                constants = [helper.make_node("Constant", [], [k], value=numpy_helper.from_array(v)) for k, v in
                             ([("weigh", weigh[shape])] if reduction == "none" else [])
                             + ([("score", scores[shape])] if softmax else [])]
                info = helper.make_tensor_value_info("labels", TensorProto.INT64, labels[shape].shape)
                model(name, x[shape].shape, [*constants, *nodes], (total,), [info],
                      [("class_weights", CLASS_WEIGHTS)] * weighted)

                def compute(y, v, shape=shape, reduction=reduction, weighted=weighted, ignored=ignored, softmax=softmax):
                    y = y if shape == "flat" else y.transpose(1, 2)
                    logs = F.log_softmax(y, 1)
                    loss = F.nll_loss(logs, v["labels"], class_weights if weighted else None, ignore_index=ignored,
                                      reduction=reduction)
                    if reduction == "none":
                        loss = (loss * torch.from_numpy(weigh[shape])).sum()
                    return loss + (logs * torch.from_numpy(scores[shape])).sum() if softmax else loss

                case(name, name, total, compute, {"x": x[shape], "labels": labels[shape]}, "sgd,lr=0.05",
                     lambda p: torch.optim.SGD(p.values(), lr=0.05),
                     options={"frozen": [node.output[0] for node in constants]} if constants else None)


def small_weights():
    """A bias and a slope of one element, packed float_data, and a scalar that is named."""
    parameters = {"w": array(6, 1), "b": array(1), "slope": np.array([0.25], np.float32),
                  "shift": np.array(0.5, np.float32)}
    packed = [(k, helper.make_tensor(k, TensorProto.FLOAT, v.shape, v.reshape(-1).tolist()))
              for k, v in parameters.items()]
    info = helper.make_tensor_value_info
    write("small_weights",
          [helper.make_node("MatMul", ["x", "w"], ["h1"]), helper.make_node("Add", ["h1", "b"], ["h2"]),
           helper.make_node("PRelu", ["h2", "slope"], ["h3"]), helper.make_node("Add", ["h3", "shift"], ["h4"]),
           helper.make_node("Mul", ["h4", "two"], ["y"])],
          [info("x", TensorProto.FLOAT, [8, 6])], [info("y", TensorProto.FLOAT, [8, 1])],
          [*packed, ("two", np.array(2, np.float32))])
    compute = lambda y, v: F.mse_loss(y, v["t"])
    forward = lambda p, x: (F.prelu(x @ p["w"] + p["b"], p["slope"]) + p["shift"]) * 2
    inputs = {"x": array(8, 6), "t": array(8, 1)}
    for name, options, trained in (("small weights", {}, ["w", "b", "slope"]),
                                   ("a scalar", {"trainable": ["w", "shift"]}, ["w", "shift"])):
        case(name, "small_weights", "mse(y,t)", compute, inputs, "sgd,lr=0.05",
             lambda p: torch.optim.SGD(p.values(), lr=0.05), 3, options=options, trained=trained,
             parameters=parameters, forward=forward)


def optimizers():
    inputs = {"x": array(4, 6), "labels": np.array([1, 4, 0, 2])}
    optim = torch.optim
    table = {
        "sgd,lr=0.1": lambda p: optim.SGD(p.values(), lr=0.1),
        "sgd,lr=0.1,wd=0.05": lambda p: optim.SGD(p.values(), lr=0.1, weight_decay=0.05),
        "momentum,lr=0.1": lambda p: optim.SGD(p.values(), lr=0.1, momentum=0.9),
        "sgd,lr=0.1,momentum=0.8,nesterov,wd=0.05":
            lambda p: optim.SGD(p.values(), lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.05),
        "sgd,lr=0.1,momentum=0.8,dampening=0.3":
            lambda p: optim.SGD(p.values(), lr=0.1, momentum=0.8, dampening=0.3),
        "sgd,lr=0.1,momentum=0.8,dampening=0.5,wd=0.05,no_decay=b[12]":
            lambda p: optim.SGD([{"params": [p["w1"], p["w2"]]}, {"params": [p["b1"], p["b2"]], "weight_decay": 0}],
                                lr=0.1, momentum=0.8, dampening=0.5, weight_decay=0.05),
        "adam,lr=0.02": lambda p: optim.Adam(p.values(), lr=0.02),
        "adam,lr=0.02,wd=0.1,beta1=0.8,beta2=0.95,eps=1e-3":
            lambda p: optim.Adam(p.values(), lr=0.02, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-3),
        "adamw,lr=0.02": lambda p: optim.AdamW(p.values(), lr=0.02),
        "adamw,lr=0.02,wd=0.3,no_decay=b[12]":
            lambda p: optim.AdamW([{"params": [p["w1"], p["w2"]]}, {"params": [p["b1"], p["b2"]], "weight_decay": 0}],
                                  lr=0.02, weight_decay=0.3),
        "adagrad": lambda p: optim.Adagrad(p.values()),
        "adagrad,lr=0.1,wd=0.05,eps=1e-3,initial=0.1":
            lambda p: optim.Adagrad(p.values(), lr=0.1, weight_decay=0.05, eps=1e-3, initial_accumulator_value=0.1),
    }
    compute = lambda y, v: F.cross_entropy(y, v["labels"])
    for text, make in table.items():
        case(text, "rows", "cross_entropy(logits,labels)", compute, inputs, text, make, steps=5)
    sgd = lambda p: optim.SGD(p.values(), lr=0.1)
    case("clipped", "rows", "cross_entropy(logits,labels)", compute, inputs, "sgd,lr=0.1", sgd, 3, clip=0.1)
    case("not clipped", "rows", "cross_entropy(logits,labels)", compute, inputs, "sgd,lr=0.1", sgd, 3, clip=100.0)
    case("trainable", "rows", "cross_entropy(logits,labels)", compute, inputs, "sgd,lr=0.1", sgd, 3,
         options={"trainable": ["w.*"]}, trained=["w1", "w2"])
    case("frozen", "rows", "cross_entropy(logits,labels)", compute, inputs, "sgd,lr=0.1", sgd, 3,
         options={"frozen": ["w1", "b1"]}, trained=["w2", "b2"])


def running_statistics():
    sys.path.insert(0, str(HERE.parent / "training"))
    import make as training
    name, table = "conv-batch-norm", {}
    _, _, batch, (inputs, labels), rate, _ = training.CASES[name]
    for count in (1, 2, 4):
        net = training.make(name)
        update = torch.optim.SGD(net.parameters(), lr=rate)
        for step in range(3):
            update.zero_grad()
            for rows in np.split(np.arange(step * batch, step * batch + batch) % len(inputs), count):
                y, t = net(torch.from_numpy(inputs[rows])), torch.from_numpy(labels[rows])
                (F.cross_entropy(y, t, reduction="sum") / batch).backward()
            update.step()
        table[count] = {k: v.tolist() for k, v in net.state_dict().items() if "running" in k}
    (HERE / "running.json").write_text(json.dumps(table) + "\n")


losses()
onnx_losses()
optimizers()
more_onnx_losses()
small_weights()
running_statistics()
(HERE / "cases.json").write_text(json.dumps(cases, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")
