"""How a node of each operator is made. `SPECS` maps an operator to (first operator set, function).

A function takes the graph (onnxgen.graph.Graph) and the operator's name, picks or makes operands, draws attributes and
adds the node; it raises Skip where the graph has nothing that fits.
"""
SPECS = {}
# Operators whose results training can differentiate, and that keep the size of what passes through.
DIFFERENTIABLE = set()


def spec(*operators, since=1, train=False):
    def register(function):
        for operator in operators:
            assert operator not in SPECS, operator
            SPECS[operator] = (since, function)
            if train:
                DIFFERENTIABLE.add(operator)
        return function
    return register


from . import attention, contractions, elementwise, indexing, losses, rows, shapes, sources, windows  # noqa: E402,F401
