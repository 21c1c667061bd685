"""Operator set 6, which ONNX Runtime does not run.

Only what stayed the same in operator set 7 is made, and arithmetic, which broadcast by attribute: the second operand
lies along dimensions axis, axis + 1, ... of the first. Its value is that of operator set 7 with the second operand
reshaped.
"""
import onnx
import onnx.defs

LAST = 6  # the last operator set that is handled here
ARITHMETIC = ("Add", "Sub", "Mul", "Div", "And", "Or", "Xor")


def unchanged(operator):
    """Whether the operator of set 6 is still the one of set 7."""
    try:
        return onnx.defs.get_schema(operator, LAST).since_version == onnx.defs.get_schema(operator, 7).since_version
    except onnx.defs.SchemaError:
        return False


def modern(node, names, arrays):
    """(node of operator set 7, arrays) that mean the same."""
    if node.op_type not in ARITHMETIC:
        return node, arrays
    attributes = {each.name: each.i for each in node.attribute}
    values = dict(zip(names, arrays))
    first, second = (values[name] for name in node.input)
    if attributes.get("broadcast"):
        axis = attributes.get("axis", first.ndim - second.ndim)
        values[node.input[1]] = second.reshape(second.shape + (1,) * (first.ndim - axis - second.ndim))
    plain = onnx.NodeProto()
    plain.CopyFrom(node)
    del plain.attribute[:]
    return plain, [values[name] for name in names]


def along_axis(g, op, x):
    """The node with a second operand along some dimensions of x."""
    rank = g.rank(x)
    if rank == 0 or g.chance(0.3):
        return g.node(op, [x, g.source(g.shape(x), g.dtype(x), low=1, high=4)])
    start = g.r.randrange(rank)
    end = g.r.randint(start + 1, rank)
    other = g.source(g.shape(x)[start:end], g.dtype(x), low=1, high=4, pickable=False)
    axis = start if end != rank or g.chance(0.5) else None
    return g.node(op, [x, other], broadcast=1, axis=axis)
