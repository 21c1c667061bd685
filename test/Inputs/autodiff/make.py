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


def model(name, shape, tail=(), outputs=("logits",), extra_inputs=(), initializers=()):
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h1"]), helper.make_node("Add", ["h1", "b1"], ["h2"]),
             helper.make_node("Tanh", ["h2"], ["h3"]), helper.make_node("MatMul", ["h3", "w2"], ["h4"]),
             helper.make_node("Add", ["h4", "b2"], ["logits"]), *tail]
    weights = [numpy_helper.from_array(v, k) for k, v in (*PARAMETERS.items(), *initializers)]
    graph = helper.make_graph(
        nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape), *extra_inputs],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, [*shape[:-1], 5] if o in ("logits", "p") else [])
         for o in outputs], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    checker.check_model(proto)
    save(proto, HERE / f"{name}.onnx")


cases = []


def case(name, model_name, text, compute, inputs, optimizer="sgd,lr=0.5", make=None, steps=2, clip=None, options=None,
         trained=None):
    """`compute(logits, inputs)` is the loss; `make(parameters)` the optimizer of torch."""
    make = make or (lambda p: torch.optim.SGD(p.values(), lr=0.5))
    p = {k: torch.tensor(v, requires_grad=trained is None or k in trained) for k, v in PARAMETERS.items()}
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
        "parameters": {k: v.detach().reshape(-1).tolist() for k, v in p.items()}})


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


def optimizers():
    inputs = {"x": array(4, 6), "labels": np.array([1, 4, 0, 2])}
    optim = torch.optim
    table = {
        "sgd,lr=0.1": lambda p: optim.SGD(p.values(), lr=0.1),
        "sgd,lr=0.1,wd=0.05": lambda p: optim.SGD(p.values(), lr=0.1, weight_decay=0.05),
        "momentum,lr=0.1": lambda p: optim.SGD(p.values(), lr=0.1, momentum=0.9),
        "sgd,lr=0.1,momentum=0.8,nesterov,wd=0.05":
            lambda p: optim.SGD(p.values(), lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.05),
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
running_statistics()
(HERE / "cases.json").write_text(json.dumps(cases, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")
