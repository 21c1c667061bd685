# What a plan costs follows from types: constants of every type whose file of external data is absent, read by what would
# be folded if their numbers were there, are planned, trained and inspected, or refused in words.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from kerf_tests import Checks, ending, fresh_folder, in_parallel, kerf

OUT, checks = fresh_folder(sys.argv[1]), Checks()
N = 32
# Bits of an element; of integers of more than a byte shapes are made.
TYPES = {"BOOL": 8, "FLOAT": 32, "FLOAT16": 16, "BFLOAT16": 16, "DOUBLE": 64, "FLOAT8E4M3FN": 8, "INT8": 8, "UINT8": 8, "INT4": 4, "UINT4": 4, "UINT2": 2,
         "INT16": 16, "INT32": 32, "INT64": 64}
SHAPES_ARE_MADE_OF = ("INT16", "INT32", "INT64")


def absent(name, type, shape=(N, N)):
    tensor = T(name=name, data_type=getattr(T, type), dims=shape, data_location=T.EXTERNAL)
    for key, value in (("location", "gone.data"), ("offset", 0), ("length", int(np.prod(shape)) * TYPES[type] // 8)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def whole(**lists):
    return [numpy_helper.from_array(np.asarray(numbers, np.int64), name) for name, numbers in lists.items()]


def node(op, inputs, output="made", **attributes):
    return helper.make_node(op, inputs.split(), [output], **attributes)


def branch():  # a constant of the graph inside
    graph = helper.make_graph([node("Identity", "inner", "out")], "g", [], [helper.make_tensor_value_info("out", T.FLOAT, [N, N])])
    graph.initializer.append(absent("inner", "FLOAT"))
    return graph


SLICE = whole(starts=[0, 0], ends=[16, 16], axes=[0, 1])
# What reads the constant `c`: nodes that end in `made`, of 16 or 32 rows and columns; and further constants.
USES = {
    "Cast": ([node("Cast", "c", to=T.FLOAT)], []),
    "Slice": ([node("Slice", "c starts ends axes")], SLICE),
    "Transpose": ([node("Transpose", "c", perm=[1, 0])], []),
    "Reshape": ([node("Reshape", "c four", "r"), node("Reshape", "r two")], whole(four=[4, 8, 4, 8], two=[N, N])),
    "Gather": ([node("Gather", "c rows")], whole(rows=range(16))),
    "Concat": ([node("Slice", "c starts ends axes", "s"), node("Concat", "s s", "half", axis=0), node("Concat", "half half", axis=1)], SLICE),
    "Expand": ([node("Slice", "c zero one axes", "s"), node("Expand", "s two")], whole(zero=[0, 0], one=[1, N], axes=[0, 1], two=[N, N])),
    "Equal": ([node("Equal", "c c")], []),
    "Where": ([node("Equal", "c c", "e"), node("Where", "e c c")], []),
    "Node": ([node("Constant", "", "c2", value=None), node("Identity", "c2")], []),
}
# Only of some types.
OF_TYPES = {
    ("Not", "BOOL"): ([node("Not", "c")], []),
    ("NotOfSlice", "BOOL"): ([node("Slice", "c starts ends axes", "s"), node("Not", "s")], SLICE),
    ("And", "BOOL"): ([node("Not", "c", "n"), node("Or", "n c", "o"), node("And", "o c")], []),
    ("Condition", "BOOL"): ([node("Where", "c h inf", "m"), node("Softmax", "m", "made")],
                            [numpy_helper.from_array(np.float32(-np.inf), "inf")]),
    ("Neg", "FLOAT"): ([node("Neg", "c", "n"), node("Exp", "n")], []),
    ("If", "FLOAT"): ([node("ReduceMax", "x", "top", keepdims=0), node("Greater", "top top", "is"),
                       helper.make_node("If", ["is"], ["made"], then_branch=branch(), else_branch=branch())], []),
    **{("DequantizeLinear", type): ([node("DequantizeLinear", "c scale")], [numpy_helper.from_array(np.float32(0.1), "scale")])
       for type in ("INT8", "UINT8", "INT4", "UINT4", "FLOAT8E4M3FN")},
}


def check(use, type, nodes, constants):
    nodes = [onnx.NodeProto.FromString(each.SerializeToString()) for each in nodes]
    if use == "Node":
        nodes[0] = helper.make_node("Constant", [], ["c2"], value=absent("", type))
    size = 16 if use in ("Slice", "NotOfSlice") else N
    first = 16 if use in ("Slice", "NotOfSlice", "Gather") else N
    end = [node("MatMul", "x w", "h"), *nodes, node("Cast", "made", "float", to=T.FLOAT)]
    end.append(node("MatMul", "h float", "logits"))
    weight = absent("w", "FLOAT", (N, first))
    graph = helper.make_graph(end, "g", [helper.make_tensor_value_info("x", T.FLOAT, [N, N])], [helper.make_tensor_value_info("logits", T.FLOAT, [N, size])],
                              [weight, *([] if use in ("Node", "If") else [absent("c", type)]), *constants])
    name = f"{use}-{type}"
    model = OUT / f"{name}.onnx"
    model.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13).SerializeToString())
    # Trained is float32 alone.
    for command in (["inspect"], ["plan", "--devices=2"],
                    ["plan", "--devices=cpu:2", "--train", "--loss=mse(logits,labels)", "--optimizer=adamw",
                     *(["--frozen=c|c2"] if type in ("FLOAT16", "BFLOAT16", "DOUBLE") else [])]):
        made = kerf(*command, model)
        refused = made.returncode == 2 and made.stderr.count("error: ") == 1
        told = 'external data "gone.data" is absent, but the model\'s shapes may depend on it' in made.stderr
        fine = refused and told if type in SHAPES_ARE_MADE_OF else made.returncode == 0
        checks.expect(f"{name} {command[0]} {'--train' * ('--train' in command)}", fine, f"{ending(made.returncode)}\n{made.stdout[-300:]}\n{made.stderr}")


def is_defined(use, type):
    return not (use in ("Equal", "Where") and type in ("FLOAT8E4M3FN", "INT4", "UINT4", "UINT2"))


in_parallel([(check, use, type, *made) for use, made in USES.items() for type in TYPES if is_defined(use, type)] + [(check, *key, *made) for key, made in OF_TYPES.items()])
checks.finish()
