"""Where ONNX Runtime, ONNX's reference implementation and the specification do not agree.

BY_REFERENCE: the reference implementation is what the specification says. UNSETTLED: the specification does not say, or
both deviate from it; no graph has such a node. A condition sees the node, the operator set and the input arrays.
"""
import numpy as np

from .arrays import is_float


def has_nan(_node, _opset, arrays):
    array = arrays[0]
    return is_float(array.dtype) and bool(np.isnan(array.astype(np.float64)).any())


def infinite_slope(_node, _opset, arrays):
    return len(arrays) > 1 and is_float(arrays[1].dtype) and not np.isfinite(arrays[1].astype(np.float64)).all()


def old_mask(node, opset, _arrays):
    return opset < 12 and len(node.output) > 1


BY_REFERENCE = [
    # NumPy's max and min are NaN where an element is; ONNX Runtime's depend on where the NaN stands.
    (("ReduceMax", "ReduceMin"), has_nan, "the largest element of NaNs"),
    # NumPy's argmax is the place of the first NaN; ONNX Runtime's depends on whether the NaN stands first.
    (("ArgMax", "ArgMin"), has_nan, "the place of the largest element among NaNs"),
]
UNSETTLED = [
    # PyTorch and kerf give NaN; ONNX Runtime and the reference take no NaN as the largest element.
    (("MaxPool", "GlobalMaxPool"), has_nan, "the largest element of NaNs in a window"),
    # f(x) = x for x >= 0, but both compute 0 * slope.
    (("PRelu",), infinite_slope, "0 with a slope that is not finite"),
    # From 12 on all true; before it the specification does not say what it holds at inference.
    (("Dropout",), old_mask, "the mask of an old Dropout"),
]
