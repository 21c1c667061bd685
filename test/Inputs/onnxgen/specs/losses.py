"""Losses of class scores and labels. Training takes no gradient of the weights of classes: nothing else reads them."""
import numpy as np

from ..arrays import FLOATS, I32, I64
from ..graph import Skip
from . import spec


@spec("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", train=True)
def class_loss(g, op):
    x = g.operand(op, low=2, high=4, dtypes=g.dtypes(op) & set(FLOATS), where=lambda array: array.shape[1] > 0)
    shape = g.shape(x)
    classes = shape[1]
    if not classes or not g.array(x).size:
        raise Skip
    labels = g.rng.integers(0, classes, (shape[0], *shape[2:]))
    ignore = None
    if g.chance(0.3):
        ignore = g.r.choice((-1, 0, classes - 1, -100))
        labels = np.where(g.rng.random(labels.shape) < 0.2, ignore, labels)
        if (labels == ignore).all():
            raise Skip
    labels = g.give(labels.astype(g.r.choice((I64, I32))), "input" if g.chance(0.8) else None, pickable=False)
    weights = None
    if g.chance(0.4):
        weights = g.source([classes], g.dtype(x), low=0.1, high=2.0, specials=False, pickable=not g.training)
    outputs = 1
    if op == "SoftmaxCrossEntropyLoss" and g.chance(0.3):
        outputs = [True, True]
    reduction = g.r.choice((None, "mean", "sum", "none"))
    return g.node(op, [x, labels, weights], outputs, reduction=reduction, ignore_index=ignore)
