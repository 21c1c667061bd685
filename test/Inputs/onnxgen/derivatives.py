"""Gradients of `kerf train` against difference quotients of ONNX Runtime in double precision: they share nothing.

One step of SGD with rate 1 leaves w - dL/dw in the trained model. For each weight that moved, dL/dw times a random
direction is compared with (L(w + h d) - L(w - h d)) / 2h. Two steps h that disagree, or slopes to both sides, say that
a kink lies there (or that rounding does): that weight is left out, and so are graphs with operators that ONNX Runtime
has not in double.
"""
import pathlib
import re

import numpy as np
import onnx
import onnx.numpy_helper

from .arrays import F32, F64, is_float
from .case import Case, Given
from .evaluate import Unevaluable
from .running import TIMEOUT, Verdict, save
from .training import judge

STEPS = (1e-4, 2e-5)
RTOL = 2e-3


def prepared(case, evaluator):
    """The case with at most one input, whose first dimension counts samples; None if it has none that could be."""
    given, batch = {}, None
    for name, each in case.given.items():
        kind = each.kind
        if kind == "input":
            if batch is None and each.array.ndim and each.array.shape[0] and is_float(each.array.dtype):
                batch = name
            else:
                kind = "initializer"
        given[name] = Given(each.array, kind, each.form if kind == each.kind else "value")
    if batch is None or any(node.op_type in ("Cast", "CastLike", "If") for node in case.nodes):
        return None, None
    return Case(case.opset, case.nodes, given, case.outputs).pruned().evaluate(evaluator), batch


def loss_at(case, evaluator, changes):
    """The loss in double precision; None where an operator has none."""
    values = {name: each.array.astype(F64) if is_float(each.array.dtype) else each.array
              for name, each in case.given.items()}
    values.update(changes)
    for node in case.nodes:
        values.update(evaluator(node, case.opset, values))
    loss = values["loss"]
    return float(loss) if loss.dtype == F64 and np.isfinite(loss) else None


def quotient(case, evaluator, name, direction):
    """The derivative along `direction`, and how much the two steps disagree; None if it is not defined."""
    base = case.given[name].array.astype(F64)
    slopes = []
    for step in STEPS:
        points = [loss_at(case, evaluator, {name: base + sign * step * direction}) for sign in (1, 0, -1)]
        if None in points:
            return None
        slopes.append((points[0] - points[2]) / (2 * step))
    # At a kink itself (two largest elements of a window) the slopes to both sides differ.
    sides = abs(points[0] - 2 * points[1] + points[2]) / STEPS[-1]
    return slopes[1], max(abs(slopes[0] - slopes[1]), sides)


def train_once(kerf, case, batch, plan, folder):
    """(verdict, {weight: gradient})."""
    folder = pathlib.Path(folder)
    save(case, folder)
    data = folder / "data"
    data.mkdir(exist_ok=True)
    for old in data.glob("*.npy"):
        old.unlink()
    array = case.given[batch].array
    np.save(data / f"{batch}.npy", array)
    (folder / "trained.onnx").unlink(missing_ok=True)
    graph = onnx.load(folder / "model.onnx").graph
    weights = {tensor.name for tensor in graph.initializer}
    norms = any(node.op_type == "BatchNormalization" and {node.input[3], node.input[4]} <= weights for node in graph.node)
    result = kerf("train", folder / "model.onnx", "--loss=loss", "--optimizer=sgd,lr=1", "--steps=1", "--shuffle=off",
                  *(["--batch-norm=frozen"] if norms else []), f"--data={data}", f"--batch-size={array.shape[0]}", *plan,
                  "-o", folder / "trained.onnx", "--threads=1", "--quiet")
    if result.code:
        return judge(result), {}
    gradients = {}
    for tensor in onnx.load(folder / "trained.onnx").graph.initializer:
        # A vector that several nodes read may come apart: w, w.2, ... The derivative of w is the sum of theirs.
        name = tensor.name if tensor.name in case.given else re.sub(r"\.\d+$", "", tensor.name)
        before = case.given[name].array
        if before.dtype == F32:
            moved = before.astype(F64) - onnx.numpy_helper.to_array(tensor).astype(F64)
            gradients[name] = gradients.get(name, 0) + moved
    return Verdict(), {name: moved for name, moved in gradients.items() if moved.any()}


def check_gradients(kerf, evaluator, case, plan, folder):
    """The verdict says in `compared` how many weights there were."""
    case, batch = prepared(case, evaluator)
    if case is None or batch not in case.given:
        return Verdict()
    verdict, gradients = train_once(kerf, case, batch, plan, folder)
    rng, compared, wrong = np.random.default_rng(1), 0, []
    for name, gradient in gradients.items():
        direction = rng.standard_normal(gradient.shape)
        try:
            found = quotient(case, evaluator, name, direction)
        except Unevaluable:
            found = None
        if found is None:
            continue
        slope, doubt = found
        inner = float((gradient * direction).sum())
        scale = float(np.abs(gradient * direction).sum()) + abs(slope)
        rounding = 1e-6 * float(np.abs(case.given[name].array * direction).sum())
        if doubt > RTOL * scale / 4:
            continue
        compared += 1
        if not abs(inner - slope) <= RTOL * scale + rounding:
            wrong.append(f"{name}: gradient times direction is {inner:.7g}, the difference quotient {slope:.7g}")
    if wrong:
        return Verdict("gradient differs", "\n".join(wrong))
    verdict.compared = compared
    return verdict
