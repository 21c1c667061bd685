"""The value of one ONNX node: ONNX Runtime without optimizations, in a session of its own.

A session of one node fuses nothing and folds nothing, so a graph that is evaluated node by node is what the operators'
definitions say, and every intermediate value is known. bfloat16, which has few kernels, is computed in float32 and
rounded once for each node, and so is float64 where it has none; what is left is computed by ONNX's reference
implementation.
"""
import collections
import warnings

import numpy as np
import onnx
import onnx.helper
import onnx.shape_inference
import onnxruntime

from . import legacy
from .arrays import BF16, F32, F64
from .deviations import BY_REFERENCE, UNSETTLED

warnings.filterwarnings("ignore")
class Unevaluable(Exception):
    """Nobody can say what the node gives: the generator tries something else."""


def free_names(node):
    """The values that a node reads: inputs, and what its subgraphs capture; each once, in order."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            made = {each.name for each in attribute.g.initializer}
            for inner in attribute.g.node:
                names += [name for name in free_names(inner) if name not in made]
                made.update(inner.output)
            names += [each.name for each in attribute.g.output if each.name not in made]
    return list(dict.fromkeys(names))


def value_info(name, array):
    return onnx.helper.make_tensor_value_info(
        name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def ir_version(opset):
    return max(8, onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)]))


def one_node_model(node, opset, names, arrays):
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "node", [value_info(*each) for each in zip(names, arrays)], outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)],
                                  ir_version=ir_version(opset))


def _options():
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


class Evaluator:
    """Runs nodes; sessions are kept for the perturbed runs that follow."""

    def __init__(self):
        self.options, self.sessions = _options(), {}
        self.by_reference = collections.Counter()

    def __call__(self, node, opset, values):
        """{output name: array} of a node whose inputs stand in `values`."""
        names = free_names(node)
        arrays = [values[name] for name in names]
        for operators, condition, why in UNSETTLED:
            if node.op_type in operators and condition(node, opset, arrays):
                raise Unevaluable(why)
        if opset <= legacy.LAST:
            node, arrays = legacy.modern(node, names, arrays)
            opset = legacy.LAST + 1
        narrow = BF16 if any(each.dtype == BF16 for each in arrays) else None
        results = None
        if not narrow:
            results = self._run(node, opset, names, arrays)
            if results is None and any(each.dtype == F64 for each in arrays):
                narrow = F64
        if narrow:
            results = self._run(node, opset, names, [each.astype(F32) if each.dtype == narrow else each
                                                     for each in arrays])
            typed = node.op_type in ("Cast", "If") or any(each.name == "dtype" for each in node.attribute)
            if results is not None and not typed:
                with np.errstate(all="ignore"):
                    results = [each.astype(narrow) if each.dtype == F32 else each for each in results]
        if results is None:
            results = self._reference(node, opset, names, arrays)
        return dict(zip([name for name in node.output if name], results))

    def _run(self, node, opset, names, arrays):
        """None if ONNX Runtime has no kernel for these types."""
        key = (node.SerializeToString(), opset, tuple((each.dtype.str, each.shape) for each in arrays))
        if key not in self.sessions:
            if len(self.sessions) > 256:
                self.sessions.clear()
            self.sessions[key] = self._session(node, opset, names, arrays)
        session = self.sessions[key]
        if session is None or any(node.op_type in operators and condition(node, opset, arrays)
                                  for operators, condition, _ in BY_REFERENCE):
            return None
        try:
            results = session.run(None, dict(zip(names, arrays)))
        except Exception as error:
            raise Unevaluable(str(error)) from error
        return checked(results)

    def _session(self, node, opset, names, arrays):
        model = one_node_model(node, opset, names, arrays)
        try:
            return onnxruntime.InferenceSession(model.SerializeToString(), self.options,
                                                providers=["CPUExecutionProvider"])
        except Exception as error:
            if "NOT_IMPLEMENTED" not in str(error):
                raise Unevaluable(str(error)) from error
            return None

    def _reference(self, node, opset, names, arrays):
        from onnx.reference import ReferenceEvaluator
        self.by_reference[node.op_type] += 1
        model = one_node_model(node, opset, names, arrays)
        try:
            with np.errstate(all="ignore"):
                results = checked(ReferenceEvaluator(model).run(None, dict(zip(names, arrays))))
            # NumPy widens some sums of integers.
            types = [info.type.tensor_type.elem_type for info in onnx.shape_inference.infer_shapes(model).graph.output]
            return [each.astype(onnx.helper.tensor_dtype_to_np_dtype(dtype)) if dtype else each
                    for each, dtype in zip(results, types)]
        except Exception as error:
            raise Unevaluable(str(error)) from error


def checked(results):
    if not all(isinstance(each, (np.ndarray, np.generic)) for each in results):
        raise Unevaluable("not a tensor")
    return [np.asarray(each) for each in results]
