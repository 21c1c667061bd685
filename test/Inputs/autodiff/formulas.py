#!/usr/bin/env python3
"""Adds to cases.json what needs no PyTorch: losses and optimizers by the formulas of its documentation, in doubles.

    formulas.py        rewrites cases.json beside this script (committed); run it after make.py

The model is that of make.py, x -> tanh(x w1 + b1) w2 + b2, and its gradient is written out. Losses and optimizers
that make.py has too are computed first: where they differ from PyTorch's numbers nothing is written.
"""
import json
import pathlib

import numpy as np
from onnx import load, numpy_helper

HERE = pathlib.Path(__file__).parent
NAMES = ("w1", "b1", "w2", "b2")


def cross_entropy(y, labels):
    p = np.exp(y - y.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    picked = np.eye(y.shape[-1])[labels]
    return -np.mean(np.log((p * picked).sum(-1))), (p - picked) / len(y)


def mse(y, t):
    return np.mean((y - t) ** 2), 2 * (y - t) / y.size


def huber(delta):
    def loss(y, t):
        d = y - t
        small = np.abs(d) < delta
        value = np.where(small, d * d / 2, delta * (np.abs(d) - delta / 2))
        return np.mean(value), np.where(small, d, delta * np.sign(d)) / y.size
    return loss


def sgd(lr):
    return lambda w, g, state: w - lr * g


def adagrad(lr, decay=0.0, eps=1e-10, initial=0.0):
    def step(w, g, state):
        g = g + decay * w
        state["sum"] = state.get("sum", initial) + g * g
        return w - lr * g / (np.sqrt(state["sum"]) + eps)
    return step


def rmsprop(lr, decay=0.0, alpha=0.99, eps=1e-8, momentum=0.0):
    def step(w, g, state):
        g = g + decay * w
        state["v"] = alpha * state.get("v", 0) + (1 - alpha) * g * g
        change = g / (np.sqrt(state["v"]) + eps)
        if momentum:
            change = state["buffer"] = momentum * state.get("buffer", 0) + change
        return w - lr * change
    return step


def run(x, target, loss, step, steps):
    """The losses of `steps` steps, and the parameters after them."""
    model = load(HERE / "rows.onnx")
    p = {i.name: numpy_helper.to_array(i).astype(np.float64) for i in model.graph.initializer}
    states, losses = {name: {} for name in NAMES}, []
    for _ in range(steps):
        h = np.tanh(x @ p["w1"] + p["b1"])
        value, dy = loss(h @ p["w2"] + p["b2"], target)
        dh = (dy @ p["w2"].T) * (1 - h * h)
        gradients = {"w1": x.T @ dh, "b1": dh.sum(0), "w2": h.T @ dy, "b2": dy.sum(0)}
        p = {name: step(p[name], gradients[name], states[name]) for name in NAMES}
        losses.append(float(value))
    return losses, {name: p[name].reshape(-1).tolist() for name in NAMES}


def main():
    path = HERE / "cases.json"
    cases = json.loads(path.read_text())
    known = {case["name"]: case for case in cases}
    inputs = known["mse"]["inputs"]

    def values(inputs):
        return [np.reshape(value["data"], value["shape"]) for value in inputs.values()]

    def check(name, loss, step):
        case = known[name]
        losses, parameters = run(*values(case["inputs"]), loss, step, case["steps"])
        np.testing.assert_allclose(losses, case["losses"], rtol=1e-6)
        for key in NAMES:
            np.testing.assert_allclose(parameters[key], case["parameters"][key], rtol=1e-5, atol=1e-6)

    def add(name, text, loss, optimizer, step, steps):
        losses, parameters = run(*values(inputs), loss, step, steps)
        known[name] = {"name": name, "model": "rows", "loss": text, "optimizer": optimizer, "steps": steps,
                       "inputs": inputs, "options": {}, "losses": losses, "norms": [], "parameters": parameters}

    check("mse", mse, sgd(0.5))
    check("cross entropy", cross_entropy, sgd(0.5))
    check("adagrad", cross_entropy, adagrad(0.01))
    check("adagrad,lr=0.1,wd=0.05,eps=1e-3,initial=0.1", cross_entropy, adagrad(0.1, 0.05, 1e-3, 0.1))
    add("huber", "huber(logits,t)", huber(1.0), "sgd,lr=0.5", sgd(0.5), 2)
    add("huber, delta", "huber(logits,t,delta=0.3)", huber(0.3), "sgd,lr=0.5", sgd(0.5), 2)
    add("rmsprop", "mse(logits,t)", mse, "rmsprop", rmsprop(0.01), 5)
    options = "rmsprop,lr=0.02,wd=0.05,alpha=0.9,eps=1e-3,momentum=0.8"
    add(options, "mse(logits,t)", mse, options, rmsprop(0.02, 0.05, 0.9, 1e-3, 0.8), 5)
    text = json.dumps(list(known.values()), separators=(",", ":"))
    path.write_text(text.replace('{"name"', '\n{"name"') + "\n")


main()
