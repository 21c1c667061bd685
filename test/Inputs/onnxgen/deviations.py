"""Where ONNX Runtime, ONNX's reference implementation and the specification do not agree.

BY_REFERENCE: the reference implementation is what the specification says. UNSETTLED: the specification does not say, or
both deviate from it; no graph has such a node. A condition sees the node, the operator set and the input arrays.
"""
import numpy as np

from .arrays import HALVES, is_float


def has_nan(_node, _opset, arrays):
    array = arrays[0]
    return is_float(array.dtype) and bool(np.isnan(array.astype(np.float64)).any())


def infinite_slope(_node, _opset, arrays):
    return len(arrays) > 1 and is_float(arrays[1].dtype) and not np.isfinite(arrays[1].astype(np.float64)).all()


def old_mask(node, opset, _arrays):
    return opset < 12 and len(node.output) > 1


def infinite_weight(node, _opset, arrays):
    padded = any(each.name == "auto_pad" or each.name == "pads" and any(each.ints) for each in node.attribute)
    return padded and infinite_slope(node, _opset, arrays)


def infinite_parameters(_node, _opset, arrays):
    return any(is_float(each.dtype) and not np.isfinite(each.astype(np.float64)).all() for each in arrays[1:])


def infinite_rows(node, opset, arrays):
    return len(node.output) > 1 and infinite_input(node, opset, arrays)


def infinite_input(_node, _opset, arrays):
    return is_float(arrays[0].dtype) and not np.isfinite(arrays[0].astype(np.float64)).all()


def nan_of_scattered(node, _opset, arrays):
    reduction = next((each.s for each in node.attribute if each.name == "reduction"), b"none")
    return reduction in (b"min", b"max") and any(has_nan(node, _opset, [arrays[i]]) for i in (0, 2))


def resampled_not_finite(node, _opset, arrays):
    mode = next((each.s for each in node.attribute if each.name == "mode"), b"nearest")
    return mode in (b"linear", b"cubic") and is_float(arrays[0].dtype) and not np.isfinite(arrays[0].astype(np.float64)).all()


def empty_input(_node, _opset, arrays):
    return not arrays[0].size


def no_variance(node, opset, arrays):
    """Rows that are almost constant: the mean of squares less the square of the mean can become negative."""
    if infinite_input(node, opset, arrays):
        return True
    axes = next((tuple(each.ints) for each in node.attribute if each.name == "axes"), (0, 2, 3))
    return constant_rows(arrays[0].astype(np.float64), axes)


def constant_rows(values, axes):
    return bool(values.size and (values.var(axes) <= 1e-3 * (values.mean(axes)**2 + 1e-6)).any())


def half_rows(node, _opset, arrays):
    """Rows of 16 bits without variance: what is left of rounding is enlarged by 1 / sqrt(epsilon)."""
    values = arrays[0].astype(np.float64)
    if arrays[0].dtype not in HALVES or values.ndim < 3:
        return False
    attributes = {each.name: each.i for each in node.attribute}
    if "num_groups" in attributes:
        values = values.reshape(values.shape[0], attributes["num_groups"], -1)
    return constant_rows(values, tuple(range(2, values.ndim)))


def folded_rows(_node, _opset, arrays):
    """Rows of little variance beside their mean, in 32 bits."""
    values = arrays[0]
    return values.dtype == np.float32 and values.ndim > 2 and constant_rows(values.astype(np.float64),
                                                                           tuple(range(2, values.ndim)))


def doubles_without_end(node, opset, arrays):
    return arrays[0].dtype == np.float64 and infinite_input(node, opset, arrays)


def masked_doubles(node, _opset, arrays):
    return arrays[0].dtype == np.float64 and len(node.input) > 3 and bool(node.input[3])


def far_below(_node, _opset, arrays):
    return arrays[0].dtype == np.float32 and bool((arrays[0] < -18).any())


def large_halves(_node, _opset, arrays):
    return arrays[0].dtype in HALVES and bool((arrays[0].astype(np.float64) > 11).any())


def causal_with_past(node, _opset, _arrays):
    causal = any(each.name == "is_causal" and each.i for each in node.attribute)
    return causal and len(node.input) > 4 and bool(node.input[4])


BY_REFERENCE = [
    # NumPy's max and min are NaN where an element is; ONNX Runtime's depend on where the NaN stands.
    (("ReduceMax", "ReduceMin", "ReduceLogSumExp"), has_nan, "the largest element of NaNs"),
    # NumPy's minimum of NaN and a number is NaN; ONNX Runtime keeps NaN only where it comes.
    (("ScatterND",), nan_of_scattered, "the smallest of NaNs"),
    # NaN has no sign: NumPy and ONNX Runtime in float32 give NaN, in 16 bits ONNX Runtime gives 0.
    (("Sign",), has_nan, "the sign of NaN"),
    # NumPy's mean of nothing is NaN, its sum 0; ONNX Runtime's mean is 0.
    (("ReduceMean", "ReduceSum", "ReduceProd", "ReduceLogSum", "ReduceL1", "ReduceL2", "ReduceSumSquare",
      "ReduceLogSumExp"), empty_input, "reductions of nothing"),
    # Query i sees keys up to i plus the length of the past; ONNX Runtime leaves the past out.
    (("Attention",), causal_with_past, "causal masks beside a past"),
    # A row that sees nothing is 0; in double ONNX Runtime expands the function, which gives NaN.
    (("Attention",), masked_doubles, "rows that see nothing, in double"),
    # NaN and infinity less infinity are NaN; ONNX Runtime gives numbers and infinities in double.
    (("LogSoftmax", "SoftmaxCrossEntropyLoss"), doubles_without_end, "the logarithm of a softmax of NaN and infinity, in double"),
    # ONNX Runtime's logistic function in float32 is the same for all numbers below some.
    (("Sigmoid",), far_below, "the logistic function far below 0"),
    # NumPy's argmax is the place of the first NaN; ONNX Runtime's depends on whether the NaN stands first.
    (("ArgMax", "ArgMin"), has_nan, "the place of the largest element among NaNs"),
]
UNSETTLED = [
    (("ArgMax", "ArgMin"), lambda _node, _opset, arrays: not arrays[0].size, "the place of the largest of no elements"),
    # The specification says it from 20 on; ONNX Runtime leaves dimensions away.
    (("ReduceMax", "ReduceMin"), empty_input, "the largest of no elements"),
    # PyTorch and kerf give NaN; ONNX Runtime and the reference take no NaN as the largest element.
    (("MaxPool", "GlobalMaxPool"), has_nan, "the largest element of NaNs in a window"),
    # NaN is kept by the reference only where it was, by ONNX Runtime only where it comes; kerf does as ScatterND's reference.
    (("ScatterElements",), nan_of_scattered, "the smallest of NaNs"),
    # Where an output lies on an element the others multiply its neighbours by 0, ONNX Runtime along all dimensions, the
    # reference, which has numbers in place of infinities, along those that change; kerf leaves them away.
    (("Resize",), resampled_not_finite, "zero times what is not finite"),
    # f(x) = x for x >= 0, but both compute 0 * slope.
    (("PRelu",), infinite_slope, "0 with a slope that is not finite"),
    # Whether the zeros of padding are multiplied with such a weight differs between libraries.
    (("Conv",), infinite_weight, "padding times infinity"),
    # ONNX Runtime folds scale, mean and bias into x * a + b, which makes NaN of infinities.
    (("InstanceNormalization", "BatchNormalization", "GroupNormalization"), infinite_parameters, "infinite parameters"),
    # ONNX Runtime's sum over channels rolls: it subtracts what leaves the window, which leaves NaN for infinities.
    (("LRN",), infinite_input, "squares of infinity"),
    # The mean of infinity and numbers is infinity; ONNX Runtime's running mean is NaN.
    (("LayerNormalization",), infinite_rows, "the mean of infinity"),
    (("MeanVarianceNormalization",), no_variance, "no variance, by a formula that cancels"),
    (("InstanceNormalization", "GroupNormalization"), half_rows, "no variance, in 16 bits"),
    # ONNX Runtime folds mean, scale and bias into x * a + b, whose parts cancel; the reference is as exact as kerf.
    (("InstanceNormalization",), folded_rows, "rows of little variance, by a formula that cancels"),
    # log(exp(x) + 1), computed in 16 bits by both, is infinity where it is x.
    (("Softplus",), large_halves, "numbers whose exponential float16 does not hold"),
    # From 12 on all true; before it the specification does not say what it holds at inference.
    (("Dropout",), old_mask, "the mask of an old Dropout"),
]
