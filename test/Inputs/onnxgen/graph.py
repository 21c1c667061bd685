"""A graph that grows node by node, every node evaluated at once.

Operands are picked among the values so far, recent ones first, so that chains arise (what a compiler fuses); or they
are made: inputs, initializers, Constant nodes. A spec that cannot go on raises Skip; what it made is left unused and
is pruned at the end.
"""
import numpy as np
import onnx.defs
import onnx.helper

from .arrays import (ALL, BF16, BOOL, F16, F32, F64, FLOATS, HALVES, I32, I64, INTEGERS, is_float, random_array,
                     sprinkle)
from .case import Case, Given, magnitude
from .evaluate import Unevaluable, free_names

SIZES = (1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16)
LARGE_SIZES = (1, 2, 8, 16, 17, 31, 32, 33, 48, 64, 65, 100)


class Skip(Exception):
    """The operator does not fit here."""


class Graph:
    def __init__(self, r, rng, evaluator, opset, float_type, specials=False, empty=False, weights=0.5, training=False,
                 large=False):
        """`r` chooses, `rng` draws elements; `weights` is how often a source is no input. When training, inputs are
        drawn by kerf, which knows the range of labels but not of indices: those are constants."""
        self.r, self.rng, self.evaluator = r, rng, evaluator
        self.case = Case(opset)
        self.opset, self.float_type, self.specials, self.weights = opset, float_type, specials, weights
        self.choices, self.most_elements = (LARGE_SIZES, 60000) if large else (SIZES, 6000)
        self.pool = [r.choice(self.choices) for _ in range(4)]
        if r.random() < 0.5:
            self.pool[0] = r.choice((1, 2, 4, 6, 8))
        self.empty, self.training = empty, training
        self.order = []  # the values that operands are picked from
        self.read = set()  # what nodes read
        self.count = 0

    # ---- values

    def name(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def array(self, name):
        return self.case.values[name]

    def shape(self, name):
        return tuple(self.array(name).shape)

    def rank(self, name):
        return self.array(name).ndim

    def dtype(self, name):
        return self.array(name).dtype

    def chance(self, probability):
        return self.r.random() < probability

    def size(self):
        if self.empty and self.chance(0.15):
            return 0
        return self.r.choice(self.pool) if self.chance(0.6) else self.r.choice(self.choices)

    def sizes(self, rank=None, low=0, high=5):
        if rank is None:
            rank = self.r.choice([each for each in (0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5) if low <= each <= high])
        shape = [self.size() for _ in range(rank)]
        if shape and self.chance(0.4):
            shape[0] = self.pool[0]
        while np.prod(shape, dtype=np.int64) > self.most_elements // 2:
            shape[self.r.randrange(rank)] = self.r.choice((1, 2, 3))
        return shape

    # ---- sources

    def give(self, array, kind=None, prefix=None, pickable=True):
        """A graph input, an initializer or a Constant node."""
        array = np.asarray(array)
        if kind is None:
            known = self.training and array.dtype in INTEGERS
            kind = self.r.choice(("initializer", "initializer", "constant"))
            if not self.chance(self.weights) and not known:
                kind = "input"
        name = self.name(prefix or {"input": "x", "initializer": "w", "constant": "c"}[kind])
        form = "value"
        listed = kind == "constant" and self.opset >= 12 and array.ndim <= 1 and array.dtype in (F32, I64)
        if listed and self.chance(0.4):
            form = "value_" + ("float" if array.dtype == F32 else "int") + ("s" if array.ndim else "")
            if form.endswith("s") and not array.size:
                form = "value"  # an empty list has no type
        elif kind != "input" and array.dtype in (F32, F64, I64, I32, BOOL) and self.chance(0.12):
            form = "typed"
        self.case.given[name] = Given(array, kind, form)
        self.case.values[name] = array
        if pickable:
            self.order.append(name)
        return name

    def source(self, shape, dtype=None, low=None, high=None, kind=None, specials=None, pickable=True):
        dtype = np.dtype(dtype or self.float_type)
        array = random_array(self.rng, tuple(shape), dtype, low, high)
        if (self.specials if specials is None else specials) and is_float(dtype) and self.chance(0.3):
            array = sprinkle(self.rng, array)
        return self.give(array, kind, pickable=pickable)

    def weight(self, shape, dtype=None, **options):
        """What is usually a parameter; now and then an input."""
        kind = "input" if self.chance(0.15) else "initializer" if self.chance(0.85) else "constant"
        return self.source(shape, dtype, kind=kind, pickable=self.chance(0.1), **options)

    def steer(self, numbers, dtype=I64):
        """Integers that steer a shape: known when the model is read."""
        return self.give(np.array(numbers, dtype), self.r.choice(("initializer", "constant")), "s", pickable=False)

    # ---- operands

    def find(self, fits, eager=0.8):
        """A value so far for which `fits(array)`, recent ones first: most often a result that nothing reads yet, so
        that nodes form chains. None if none is taken."""
        for name in reversed(self.order):
            chance = 0.2 if name in self.case.given else 0.3 if name in self.read else eager
            if self.chance(chance) and fits(self.array(name)):
                return name
        return None

    def operand(self, op=None, index=0, dtypes=None, low=0, high=5, where=None, make=None, fresh=0.07):
        """A value of a type that input `index` of `op` takes, of rank low..high; a new source if none is found."""
        dtypes = dtypes or self.dtypes(op, index)

        def fits(array):
            return array.dtype in dtypes and low <= array.ndim <= high and (where is None or where(array))

        name = None if self.chance(fresh) else self.find(fits)
        if name:
            return name
        dtype = self.any_of(dtypes)
        return make(dtype) if make else self.source(self.sizes(low=low, high=high), dtype)

    def any_of(self, dtypes):
        """Mostly the graph's float type, if it is among them."""
        if self.float_type in dtypes and not self.chance(0.15):
            return self.float_type
        others = [each for each in ALL if each in dtypes and not (each in FLOATS and each != self.float_type)]
        if others:
            return self.r.choice(others + [each for each in others if each in (I64, BOOL)])
        if self.float_type in dtypes:
            return self.float_type
        if not dtypes:
            raise Skip
        return sorted(dtypes, key=str)[0]

    def dtypes(self, op, index=0):
        """The types of input `index` of the operator, as ONNX declares them, that graphs here have."""
        schema = onnx.defs.get_schema(op, self.opset)
        declared = schema.inputs[min(index, len(schema.inputs) - 1)]
        known = {f"tensor({name})": np.dtype(dtype) for name, dtype in TYPE_NAMES.items()}
        found = {known[each] for each in declared.types if each in known}
        if BF16 in found and self.float_type != BF16:
            found.discard(BF16)
        if self.float_type == BF16:
            # ONNX Runtime lacks bfloat16; float32 takes its place, wherever old operator sets have no bfloat16.
            found -= {F16, F64}
        return found

    def partner(self, name, dtype=None, low=None, high=None):
        """A second operand that broadcasts with `name`, smaller or larger, old or new."""
        shape, dtype = self.shape(name), np.dtype(dtype or self.dtype(name))

        def fits(array):
            return array.dtype == dtype and broadcasts(shape, array.shape, self.most_elements)

        if low is None and self.chance(0.45):
            other = self.find(fits)
            if other:
                return other
        wish = list(shape)
        form = self.r.random()
        if form < 0.3:
            pass
        elif form < 0.6:
            wish = [1 if self.chance(0.4) else size for size in wish[self.r.randint(0, len(wish)):]]
        elif form < 0.75:
            wish = [] if self.chance(0.5) else [1] * self.r.randint(0, max(1, len(wish)))
        elif form < 0.85 and len(wish) > 1:
            keep = self.r.randrange(len(wish))  # a vector along one dimension
            wish = [size if dim == keep else 1 for dim, size in enumerate(wish)][self.r.randint(0, keep):]
        else:
            wish = [self.size() if size == 1 and self.chance(0.7) else size for size in wish]
            while len(wish) < 5 and self.chance(0.4):
                wish.insert(0, self.size())
        if np.prod(wish, dtype=np.int64) > self.most_elements:
            raise Skip
        return self.source(wish, dtype, low, high)

    # ---- nodes

    def node(self, op, inputs, outputs=1, pickable=True, **attributes):
        """Adds a node and gives the name of its output (a list if there are several). None among `outputs` leaves an
        output out."""
        wanted = [True] * outputs if isinstance(outputs, int) else list(outputs)
        names = [self.name("v") if each else "" for each in wanted]
        attributes = {key: value for key, value in attributes.items() if value is not None and value != []}
        inputs = [each or "" for each in inputs]
        while inputs and not inputs[-1]:
            inputs.pop()
        node = onnx.helper.make_node(op, inputs, names, **attributes)
        try:
            results = self.evaluator(node, self.opset, self.case.values)
        except Unevaluable as error:
            raise Skip(str(error)) from error
        for array in results.values():
            self.check(array)
        self.case.nodes.append(node)
        self.case.values.update(results)
        self.read.update(free_names(node))
        if pickable:
            self.order += results
        return names[0] if len(names) == 1 else names

    def check(self, array):
        """What would overflow soon says nothing."""
        if array.dtype not in ALL or array.size > 4 * self.most_elements or array.ndim > 8:
            raise Skip
        if array.dtype in INTEGERS and array.size:
            if max(abs(int(array.max())), abs(int(array.min()))) > 2 ** (8 * array.dtype.itemsize - 2):
                raise Skip
        if is_float(array.dtype) and magnitude(array) > (500 if array.dtype in HALVES else 1e7):
            raise Skip
        if array.size and array.dtype in FLOATS and np.isnan(array.astype(np.float64)).all() and self.chance(0.9):
            raise Skip

    def finish(self, extra=0.12):
        """Outputs: what no node reads, and some of the rest."""
        made = [name for node in self.case.nodes for name in node.output if name]
        self.case.outputs = [name for name in made if name not in self.read or self.chance(extra)]
        return self.case.pruned().evaluate(self.evaluator)


TYPE_NAMES = {"float": F32, "double": F64, "float16": F16, "bfloat16": BF16, "bool": BOOL, "int64": "i8", "int32": "i4",
              "int16": "i2", "int8": "i1", "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8"}


def broadcasts(first, second, most):
    try:
        return int(np.prod(np.broadcast_shapes(first, second), dtype=np.int64)) <= most
    except ValueError:
        return False
