"""A case as text that people read and that is read back: ONNX's own syntax below a header of comments.

    # Conv -> Transpose -> Add: the added constant was read with the strides of the untransposed result
    # plan: --devices=cpu:2 --solver=random --seed=3
    # initializer w2
    # constant s3 int64 [2] 1 -1
    <ir_version: 8, opset_import: ["" : 13]>
    graph (float[1,2,4] x1, float[3,2,1] w2, int64[2] s3) => (float[1,4,3] v4) { ... }

Every given value stands among the graph's inputs; the header says which are initializers or Constant nodes. Values that
it does not spell out are canonical (arrays.canonical). Types and shapes are written in full.
"""
import numpy as np
import onnx
import onnx.helper
import onnx.parser
import onnx.printer

from .arrays import canonical
from .case import Case, Given
from .evaluate import ir_version, value_info


def to_text(case, title="", plans=()):
    lines = [f"# {line}" for line in title.splitlines()]
    lines += ["# plan: " + " ".join(plan) for plan in plans]
    for name, each in case.given.items():
        array = each.array
        usual = np.array_equal(array, canonical(name, array.shape, array.dtype), equal_nan=array.dtype.kind == "f")
        if usual and each.kind == "input":
            continue
        words = [each.kind if each.form == "value" else f"{each.kind}:{each.form}", name]
        if not usual:
            words += [str(array.dtype), str(list(array.shape)).replace(" ", "")]
            words += [shortest(value) for value in array.reshape(-1)]
        lines.append("# " + " ".join(words))
    graph = onnx.helper.make_graph(
        case.nodes, "graph", [value_info(name, each.array) for name, each in case.given.items()],
        [value_info(name, case.values[name]) for name in case.outputs])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", case.opset)],
                                   ir_version=ir_version(case.opset))
    return "\n".join(lines) + "\n" + onnx.printer.to_text(model) + "\n"


def shortest(value):
    """The fewest digits that read back as the same value of its type."""
    return str(value.item() if value.dtype.kind in "iub" else value)


def from_text(text):
    """(case, title, plans); the case's values are still to be computed."""
    header = [line[2:] for line in text.splitlines() if line.startswith("# ")]
    model = onnx.parser.parse_model("\n".join(line for line in text.splitlines() if not line.startswith("#")))
    case = Case(model.opset_import[0].version, list(model.graph.node))
    for info in model.graph.input:
        tensor = info.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        shape = tuple(dim.dim_value for dim in tensor.shape.dim)
        case.given[info.name] = Given(canonical(info.name, shape, np.dtype(dtype)), "input")
    case.outputs = [info.name for info in model.graph.output]
    title, plans = [], []
    for line in header:
        words = line.split()
        kind, _, form = words[0].partition(":")
        if words[0] == "plan:":
            plans.append(words[1:])
        elif kind in ("input", "initializer", "constant") and len(words) > 1 and words[1] in case.given:
            given = case.given[words[1]]
            array = given.array
            if len(words) > 2:
                array = read_values(words[4:], array.dtype).reshape(array.shape)
            case.given[words[1]] = Given(array, kind, form or "value")
        else:
            title.append(line)
    return case, "\n".join(title), plans


def read_values(words, dtype):
    if dtype == bool:
        return np.array([word == "True" for word in words], bool)
    if dtype.kind in "iu":
        return np.array([int(word) for word in words], dtype)
    return np.array([float(word) for word in words]).astype(dtype)
