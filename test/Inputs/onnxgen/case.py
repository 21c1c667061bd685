"""A graph with all its values: what is run, compared, shrunk and written as text.

Given values are inputs, initializers or Constant nodes. Nodes stand in an order in which they can be evaluated. Outputs
are compared only where rounding cannot decide them: `stable_outputs` runs the graph again with every computed value
moved by some units of rounding, and drops what moves by more than a tenth of the tolerance.
"""
import collections
import dataclasses

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

from .arrays import HALVES, UNIT, is_float, wide
from .evaluate import free_names, ir_version, value_info

# Operators that move, choose or compare values without rounding: computed the same by everybody.
EXACT = set("""Abs And ArgMax ArgMin Cast CastLike Ceil Clip Concat Constant ConstantOfShape DepthToSpace Dropout Equal
Expand EyeLike Flatten Floor Gather GatherElements GatherND GlobalMaxPool Greater GreaterOrEqual Identity IsInf IsNaN
Less LessOrEqual Max MaxPool Min Neg Not OneHot Or Pad ReduceMax ReduceMin Relu Reshape Round Scatter TopK Shape Sign Size Slice
SpaceToDepth Split Squeeze Tile Transpose Trilu Unsqueeze Where Xor""".split())
# Operators that give 0 for what is smaller than rounding (ONNX Runtime: the sigmoid of -20).
SATURATING = {"Sigmoid", "Swish"}
# Of 16 bits: give 0 for what a kernel keeps in 32 (the remainder by it is NaN, or is not).
SATURATING_HALVES = SATURATING | {"Pow"}
RTOL, ATOL = 1e-3, 1e-4  # the second of the largest finite magnitude of the output


@dataclasses.dataclass
class Given:
    array: np.ndarray
    kind: str  # input, initializer or constant
    form: str = "value"  # the attribute of a Constant node; typed: as a list of numbers, not as bytes


@dataclasses.dataclass
class Case:
    opset: int
    nodes: list = dataclasses.field(default_factory=list)
    given: dict = dataclasses.field(default_factory=dict)
    outputs: list = dataclasses.field(default_factory=list)
    values: dict = dataclasses.field(default_factory=dict)
    # Output -> how far it moved when its operands did; filled by stable_outputs.
    moved: dict = dataclasses.field(default_factory=dict)

    def used(self):
        """The nodes that outputs need, and the names that they read."""
        needed, nodes = set(self.outputs), []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                nodes.append(node)
                needed.update(free_names(node))
        return nodes[::-1], needed

    def pruned(self):
        nodes, needed = self.used()
        given = {name: each for name, each in self.given.items() if name in needed}
        return Case(self.opset, nodes, given, list(self.outputs))

    def evaluate(self, evaluator):
        self.values = {name: each.array for name, each in self.given.items()}
        for node in self.nodes:
            self.values.update(evaluator(node, self.opset, self.values))
        return self

    def perturbed(self, evaluator, rng):
        """All values, where everything that rounds is moved. Sums of 16 bits may round their terms: given values of
        that kind are moved where they enter a sum."""
        values = {name: each.array for name, each in self.given.items()}
        moved = {name: nudge(rng, array) for name, array in values.items() if array.dtype in HALVES}
        for node in self.nodes:
            exact = node.op_type in EXACT
            results = evaluator(node, self.opset, values if exact else collections.ChainMap(moved, values))
            for name, array in results.items():
                saturating = SATURATING_HALVES if array.dtype in HALVES else SATURATING
                values[name] = array if exact else nudge(rng, array, node.op_type in saturating)
        return values

    def stable_outputs(self, evaluator, rng, runs=3):
        """Keeps the outputs that rounding cannot change by more than a tenth of what is tolerated."""
        moved = {name: np.zeros(self.values[name].shape) for name in self.outputs}
        stable = list(self.outputs)
        if any(array.dtype in HALVES for array in self.values.values()):
            runs *= 3
        for _ in range(runs):
            values = self.perturbed(evaluator, rng)
            for name in list(stable):
                other, array = values[name], self.values[name]
                if not same_kind(other, array):
                    stable.remove(name)
                    continue
                moved[name] = np.maximum(moved[name], distance(other, array))
                largest = magnitude(array)
                limit = np.maximum(0.05 * largest, 1e-30) if array.dtype in HALVES else tolerance(array) / 10
                if (moved[name] > limit).any():
                    stable.remove(name)
        self.outputs = stable
        self.moved = {name: moved[name] for name in stable}
        return self

    def model(self):
        inputs, initializers, constants = [], [], []
        for name, each in self.given.items():
            if each.kind == "input":
                inputs.append(value_info(name, each.array))
            elif each.kind == "initializer":
                initializers.append(tensor(name, each.array, typed=each.form == "typed"))
            else:
                constants.append(constant_node(name, each))
        outputs = [value_info(name, self.values[name]) for name in self.outputs]
        graph = onnx.helper.make_graph(constants + self.nodes, "graph", inputs, outputs, initializers)
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", self.opset)],
                                      ir_version=ir_version(self.opset), producer_name="random-graphs")


def tensor(name, array, typed=False):
    """A TensorProto; `typed` stores lists of numbers in place of raw bytes, as some exporters do."""
    if typed:
        return onnx.helper.make_tensor(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape,
                                       array.reshape(-1).tolist())
    return onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def constant_node(name, given):
    array, form = given.array, given.form
    if form in ("value", "typed"):
        form, value = "value", tensor(name, array, typed=form == "typed")
    elif form.endswith("s"):
        value = array.tolist()
    else:
        value = array.item()
    return onnx.helper.make_node("Constant", [], [name], **{form: value})


def nudge(rng, array, zeros=False):
    """Each value moved by about sixteen units of rounding of float32 (halves: by one of theirs), and by what sums of
    elements as large as the largest leave behind; `zeros` as well."""
    if not is_float(array.dtype) or not array.size:
        return array
    unit = UNIT[array.dtype] if array.dtype in HALVES else 1e-6
    noise = UNIT[array.dtype] / 8 if array.dtype in HALVES else 2e-7
    values = wide(array)
    with np.errstate(all="ignore"):
        moved = values * (1 + unit * rng.uniform(-1, 1, array.shape))
        left = noise * magnitude(array) * rng.uniform(-1, 1, array.shape)
        moved = moved + np.where((values == 0) & (not zeros), 0, left)
        return np.where(np.isfinite(values), moved, values).astype(array.dtype)


def magnitude(array):
    """The largest finite magnitude; 0 of nothing."""
    values = np.abs(wide(array))
    values = values[np.isfinite(values)]
    return float(values.max()) if values.size else 0.0


def tolerance(array):
    with np.errstate(all="ignore"):
        values = np.abs(np.nan_to_num(wide(array), nan=0.0, posinf=0.0, neginf=0.0))
    return ATOL * magnitude(array) + RTOL * values + 1e-37


def same_kind(found, expected):
    """NaN where NaN, the same infinities; integers equal."""
    if not is_float(expected.dtype):
        return np.array_equal(found, expected)
    a, b = wide(found), wide(expected)
    return (np.array_equal(np.isnan(a), np.isnan(b)) and
            np.array_equal(np.where(np.isinf(a), a, 0), np.where(np.isinf(b), b, 0)))


def distance(found, expected):
    """Element by element; 0 where neither is finite."""
    if not is_float(expected.dtype):
        return np.zeros(expected.shape)
    a, b = wide(found), wide(expected)
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), 0)


def difference(found, expected, moved):
    """None if `found` is what is expected, else (kind of difference, sentence). `moved`: see Case.moved."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return "type", f"{found.dtype}{list(found.shape)}, expected {expected.dtype}{list(expected.shape)}"
    if not is_float(expected.dtype):
        wrong = found != expected
        kind = "integers"
    else:
        a, b = wide(found), wide(expected)
        wrong = (np.isnan(a) != np.isnan(b)) | (np.where(np.isinf(a), a, 0) != np.where(np.isinf(b), b, 0))
        kind = "specials"
        if not wrong.any():
            limit = tolerance(expected)
            if expected.dtype in HALVES:
                unit = UNIT[expected.dtype]
                limit = 2 * unit * (np.abs(np.nan_to_num(b, posinf=0, neginf=0)) + 0.5 * magnitude(expected)) \
                    + 4 * moved + 1e-7
            wrong, kind = distance(found, expected) > limit, "numbers"
    if not wrong.any():
        return None
    at = tuple(int(each) for each in np.argwhere(wrong)[0])
    return kind, (f"{int(wrong.sum())} of {wrong.size} differ, first at {list(at)}: {found[at]} instead of "
                  f"{expected[at]} (largest magnitude {magnitude(expected):.4g})")
