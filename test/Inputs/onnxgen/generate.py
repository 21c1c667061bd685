"""Graph k of a seed: the same whatever else is generated.

Graph k must contain operator k modulo the number of operators, so that a few hundred graphs contain them all; what
surrounds it follows a theme (images, transformers, elementwise, shapes, everything), since faults hide in neighbours.
"""
import random

import numpy as np

from . import legacy
from .arrays import BF16, F16, F32, F64
from .graph import Graph, Skip
from .specs import DIFFERENTIABLE, SPECS
from .specs.attention import written_out

OPSETS = (6, 7, 8, 9, 10, 11, 11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 18, 19, 20, 21, 21, 22, 23, 23, 24, 25, 26)
ELEMENTWISE = """Add Sub Mul Div Add Mul Relu Sigmoid Tanh Exp Sqrt Clip Max Min Where Neg Abs Pow LeakyRelu Gelu
HardSwish Softplus Erf Cast Sum PRelu Elu Round Reciprocal""".split()
SHAPES = """Transpose Reshape Slice Concat Split Squeeze Unsqueeze Expand Pad Tile Flatten Gather Transpose
Reshape Trilu Identity""".split()
THEMES = {
    "image": """Conv Conv Conv ConvTranspose Resize BatchNormalization Relu MaxPool AveragePool GlobalAveragePool Add Mul Clip Transpose
Concat LRN InstanceNormalization GroupNormalization Flatten Reshape Pad Slice Sigmoid PRelu LeakyRelu DepthToSpace
SpaceToDepth ReduceMean Gemm MatMul Softmax""".split(),
    "transformer": """MatMul MatMul MatMul Gemm Add Add Mul LayerNormalization RMSNormalization Softmax Transpose
Reshape Gelu Tanh Relu Attention RotaryEmbedding Split Slice Concat Gather ReduceMean Einsum Sqrt Div Pow Where Trilu
LogSoftmax Swish Sigmoid Unsqueeze""".split(),
    "elementwise": ELEMENTWISE + ["Transpose", "Reshape", "ReduceSum", "Softmax"],
    "shape": SHAPES + SHAPES + ["Add", "Mul", "MatMul", "ReduceSum", "Relu"],
    "rows": """ReduceSum ReduceMean ReduceMax ReduceL2 ReduceLogSumExp Softmax LogSoftmax ArgMax CumSum
LayerNormalization LpNormalization MeanVarianceNormalization Transpose Add Mul Sub Exp Reshape Relu MatMul""".split(),
    "indices": """Gather GatherElements GatherND ScatterElements ScatterND TopK OneHot CumSum ArgMax ArgMin Add Mul Mod Cast Equal Less Where Slice
Not And Or Concat Reshape Transpose ReduceSum ReduceMax""".split(),
    "all": sorted(SPECS),
}
FUSED = ["attention"]  # idioms of several nodes


def available(operators, opset):
    """The operators that this operator set has, in ONNX and in kerf."""
    import onnx.defs
    found = []
    for operator in operators:
        try:
            deprecated = onnx.defs.get_schema(operator, opset).deprecated
        except onnx.defs.SchemaError:
            continue
        if deprecated:
            continue
        old = opset <= legacy.LAST and operator not in legacy.ARITHMETIC and not legacy.unchanged(operator)
        if SPECS[operator][0] <= opset and not old:
            found.append(operator)
    return found


def random_graph(seed, k, evaluator):
    """The case of this number; None if nothing came of it."""
    r = random.Random(f"graph {seed} {k}")
    rng = np.random.default_rng(r.getrandbits(64))
    required = sorted(SPECS)[k % len(SPECS)]
    opset = r.choice([each for each in OPSETS if available([required], each)] or [OPSETS[-1]])
    float_type = r.choices((F32, F64, F16, BF16), (82, 6, 6, 6 if opset >= 13 else 0))[0]
    g = Graph(r, rng, evaluator, opset, float_type, specials=r.random() < 0.2, empty=r.random() < 0.02,
              weights=r.choice((0.15, 0.5, 0.5, 0.85)), large=r.random() < 0.08)
    theme = available(THEMES[r.choice(sorted(THEMES))], opset)
    count = r.choice((1, 2, 3, 4, 4, 5, 6, 7, 9, 11))
    place = r.randrange(count)
    if r.random() < 0.05 and float_type != BF16 and opset >= 11:
        attempt(lambda: written_out(g))
    for index in range(count):
        for _ in range(5):
            operator = required if index == place else r.choice(theme) if r.random() < 0.85 else r.choice(
                available(sorted(SPECS), opset))
            if attempt(lambda op=operator: SPECS[op][1](g, op)):
                break
    if not g.case.nodes:
        return None
    return settle(g)


def training_graph(seed, k, evaluator):
    """A graph of differentiable operators with float32 weights and a scalar output `loss`."""
    r = random.Random(f"training {seed} {k}")
    rng = np.random.default_rng(r.getrandbits(64))
    required = r.choice(sorted(DIFFERENTIABLE))
    opset = r.choice([each for each in OPSETS if each >= 11 and available([required], each)] or [OPSETS[-1]])
    g = Graph(r, rng, evaluator, opset, F32, weights=0.7, training=True)
    theme = THEMES[r.choice(("image", "transformer", "elementwise", "rows", "shape", "all"))]
    theme = [each for each in available(theme, opset) if each in DIFFERENTIABLE]
    count = r.choice((2, 3, 4, 5, 6))
    for index in range(count):
        for _ in range(5):
            operator = required if index == count // 2 else r.choice(theme)
            if attempt(lambda op=operator: SPECS[op][1](g, op)):
                break
    leaves = [name for node in g.case.nodes for name in node.output
              if name and name not in g.read and g.dtype(name) == F32 and g.array(name).size]
    terms = []
    for leaf in leaves:
        def add(leaf=leaf):
            y = g.node("Mul", [leaf, g.weight(g.shape(leaf)) if g.chance(0.7) else leaf], pickable=False)
            terms.append(g.node("ReduceMean", [y], pickable=False, keepdims=0))
        attempt(add)
    if not terms:
        return None
    loss = terms[0]
    try:
        for term in terms[1:]:
            loss = g.node("Add", [loss, term], pickable=False)
        g.node("Identity", [loss], pickable=False)
    except Skip:
        return None
    g.case.nodes[-1].output[0] = "loss"
    g.case.outputs = ["loss"]
    case = g.case.pruned().evaluate(evaluator)
    if not np.isfinite(case.values["loss"]) or not any(
            each.kind == "initializer" and each.array.dtype == F32 for each in case.given.values()):
        return None
    return case


def attempt(action):
    try:
        action()
        return True
    except Skip:
        return False


def settle(g):
    """The case with the outputs that can be compared; None if there are none."""
    from .evaluate import Unevaluable
    case = g.finish()
    try:
        case.stable_outputs(g.evaluator, g.rng)
    except Unevaluable:
        return None
    if not case.outputs:
        return None
    moved, outputs = case.moved, case.outputs
    case = case.pruned().evaluate(g.evaluator)
    case.moved, case.outputs = moved, outputs
    return case if case.nodes else None
