"""Constants, ranges, shapes, branches, the identity."""
import numpy as np
import onnx
import onnx.helper

from ..arrays import BOOL, F32, I32, I64, random_array
from ..evaluate import value_info
from . import spec


def use(g, name):
    """Constants alone make no program: something is computed with them."""
    x = g.operand(dtypes={g.dtype(name)}, low=0, high=5, where=lambda array: array.shape == g.shape(name), fresh=0.3)
    if g.shape(x) != g.shape(name):
        x = g.partner(name)
    if g.dtype(name) == BOOL:
        return g.node("Or", [x, name])
    return g.node("Mul" if g.chance(0.5) else "Add", [x, name])


@spec("Identity", train=True)
def identity(g, op):
    return g.node(op, [g.operand(op)])


@spec("Constant")
def constant(g, op):
    dtype = g.any_of({g.float_type, F32, I64, I32})
    return use(g, g.give(random_array(g.rng, tuple(g.sizes()), dtype), "constant"))


@spec("ConstantOfShape")
def constant_of_shape(g, op):
    value = None
    if g.chance(0.8):
        dtype = g.r.choice((F32, I64, I32, BOOL, F32))
        value = onnx.numpy_helper.from_array(np.asarray(random_array(g.rng, (1,), dtype)))
    if g.chance(0.3):
        shape = g.node("Shape", [g.operand("Identity") if g.opset >= 13 else g.operand("Neg")], pickable=False)
    else:
        shape = g.steer(g.sizes())
    return use(g, g.node(op, [shape], value=value))


@spec("Shape")
def shape(g, op):
    x = g.operand(op)
    start = end = None
    if g.opset >= 15 and g.chance(0.5):
        start, end = g.r.choice((None, g.r.randint(-3, 3))), g.r.choice((None, g.r.randint(-3, 5)))
    return use(g, g.node(op, [x], start=start, end=end))


@spec("Size")
def size(g, op):
    return use(g, g.node(op, [g.operand(op)]))


@spec("Range")
def numbers(g, op):
    dtype = g.r.choice((I64, I64, F32, I32))
    start, delta = g.r.randint(-3, 3), g.r.choice((1, 1, 2, 3, -1, -2))
    limit = start + delta * g.r.randint(0 if g.chance(0.1) else 1, 8) - (1 if g.chance(0.3) and abs(delta) > 1 else 0)
    scale = 0.5 if dtype == F32 and g.chance(0.5) else 1
    return use(g, g.node(op, [g.steer(each * scale, dtype) for each in (start, limit, delta)]))


@spec("EyeLike")
def eye(g, op):
    x = g.operand(op, low=2, high=2)
    dtype = g.r.choice((F32, I64, g.dtype(x), None))
    return use(g, g.node(op, [x], k=g.r.choice((None, 0, 1, -1, 3)),
                         dtype=None if dtype is None else int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))))


@spec("If")
def branch(g, op):
    """Of a condition that is known; both branches read values from outside."""
    x = g.operand("Neg", dtypes=g.dtypes("Neg") & {g.float_type, F32})
    other = g.partner(x)

    def graph(name, *nodes):
        return onnx.helper.make_graph(nodes, name, [], [onnx.helper.make_empty_tensor_value_info(nodes[-1].output[0])])

    make = onnx.helper.make_node
    first, second = (g.name(prefix) for prefix in ("t", "t"))
    inner = g.name("t")
    if g.chance(0.5):
        then = graph("then", make("Abs", [x], [inner]), make("Add", [inner, other], [first]))
    else:
        then = graph("then", make("Mul", [x, other], [first]))
    otherwise = graph("else", make("Sub", [other, x], [second]))
    for each in (then, otherwise):
        result = each.output[0]
        array = np.empty(np.broadcast_shapes(g.shape(x), g.shape(other)), g.dtype(x))
        result.CopyFrom(value_info(result.name, array))
    chosen = g.give(np.array(g.chance(0.5)), g.r.choice(("initializer", "constant")), pickable=False)
    return g.node(op, [chosen], then_branch=then, else_branch=otherwise)
