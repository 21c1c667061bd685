"""Single operators as ONNX models: shapes that fill vectors and shapes that do not, every kind of kernel.

`models(folder)` yields name and file; needs onnx and numpy. Sizes are small: every
element is compared, and compute-sanitizer has to get through them.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F = TensorProto.FLOAT


def node(op, inputs, **attributes):
    return helper.make_node(op, inputs, ["z"], name=op, **attributes)


def constant(values, name):
    return numpy_helper.from_array(np.asarray(values), name)


def cases():
    """(name, node, {input: shape or (shape, type)}, constants)"""
    big, odd = (64, 512), (37, 211)
    for shape in (big, odd):
        text = "x".join(map(str, shape))
        for op in ("Relu", "Tanh", "Sigmoid", "Erf", "Exp", "Abs", "Neg", "Sqrt", "Softplus", "HardSwish"):
            yield f"{op.lower()}-{text}", node(op, ["x"]), {"x": shape}, []
        for kind in ("none", "tanh"):
            yield f"gelu-{kind}-{text}", node("Gelu", ["x"], approximate=kind), {"x": shape}, []
        for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
            yield f"{op.lower()}-{text}", node(op, ["x", "y"]), {"x": shape, "y": shape}, []
        yield f"add-row-{text}", node("Add", ["x", "y"]), {"x": shape, "y": shape[1:]}, []
        yield f"add-column-{text}", node("Add", ["x", "y"]), {"x": shape, "y": (shape[0], 1)}, []
        yield f"transpose-{text}", node("Transpose", ["x"], perm=[1, 0]), {"x": shape}, []
        for axis in (0, 1):
            yield f"softmax-{axis}-{text}", node("Softmax", ["x"], axis=axis), {"x": shape}, []
            yield f"logsoftmax-{axis}-{text}", node("LogSoftmax", ["x"], axis=axis), {"x": shape}, []
            for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"):
                yield (f"{op.lower()}-{axis}-{text}", node(op, ["x", "axes"], keepdims=0), {"x": shape},
                       [constant(np.array([axis], np.int64), "axes")])
        yield (f"layernorm-{text}", node("LayerNormalization", ["x", "s", "b"], axis=-1),
               {"x": shape, "s": shape[1:], "b": shape[1:]}, [])
        yield f"concat-{text}", node("Concat", ["x", "y"], axis=1), {"x": shape, "y": (shape[0], 24)}, []
        yield (f"pad-{text}", node("Pad", ["x", "pads"]), {"x": shape},
               [constant(np.array([1, 3, 2, 0], np.int64), "pads")])
        yield (f"slice-{text}", node("Slice", ["x", "from", "to", "axes", "steps"]), {"x": shape},
               [constant(np.array([v], np.int64), n) for n, v in
                (("from", 3), ("to", shape[1] - 2), ("axes", 1), ("steps", 2))])
        yield (f"gather-{text}", node("Gather", ["x", "i"], axis=0), {"x": shape},
               [constant(np.arange(50, dtype=np.int64) * 7 % shape[0], "i")])
        yield f"matmul-{text}", node("MatMul", ["x", "y"]), {"x": shape, "y": (shape[1], 40)}, []
        yield f"gemm-{text}", node("Gemm", ["x", "y", "c"], transB=1), {"x": shape, "y": (40, shape[1]), "c": (40,)}, []
    yield "matmul-batched", node("MatMul", ["x", "y"]), {"x": (2, 6, 33, 16), "y": (2, 6, 16, 33)}, []
    yield "transpose-4d", node("Transpose", ["x"], perm=[0, 2, 1, 3]), {"x": (2, 17, 6, 32)}, []
    for name, image, weights, attributes in (
            ("conv-3x3", (2, 16, 20, 20), (32, 16, 3, 3), dict(pads=[1, 1, 1, 1])),
            ("conv-stride", (2, 16, 21, 19), (24, 16, 3, 3), dict(strides=[2, 2], pads=[1, 1, 1, 1])),
            ("conv-1x1", (2, 32, 14, 14), (64, 32, 1, 1), {}),
            ("conv-groups", (2, 16, 14, 14), (32, 4, 3, 3), dict(group=4, pads=[1, 1, 1, 1])),
            ("conv-dilated", (1, 8, 20, 20), (8, 8, 3, 3), dict(dilations=[2, 2])),
            ("conv-1d", (2, 8, 40), (16, 8, 5), {})):
        yield name, node("Conv", ["x", "w", "b"], **attributes), {"x": image, "w": weights, "b": weights[:1]}, []
    for op in ("MaxPool", "AveragePool"):
        yield (op.lower(), node(op, ["x"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
               {"x": (2, 16, 19, 20)}, [])
    yield "globalaveragepool", node("GlobalAveragePool", ["x"]), {"x": (2, 64, 7, 7)}, []


def rounded_cases():
    """What libraries compute, with --precision=bf16: products and convolutions and what is fused behind them."""
    for name, image, weights, attributes in (
            ("conv-3x3", (2, 16, 20, 20), (32, 16, 3, 3), dict(pads=[1, 1, 1, 1])),
            ("conv-rgb", (2, 3, 32, 32), (16, 3, 3, 3), dict(pads=[1, 1, 1, 1])),
            ("conv-stride", (2, 16, 21, 19), (24, 16, 3, 3), dict(strides=[2, 2], pads=[1, 1, 1, 1])),
            ("conv-stride-deep", (1, 512, 14, 14), (512, 512, 3, 3), dict(strides=[2, 2], pads=[1, 1, 1, 1])),
            ("conv-1x1", (2, 32, 14, 14), (64, 32, 1, 1), {}),
            ("conv-groups", (2, 16, 14, 14), (32, 4, 3, 3), dict(group=4, pads=[1, 1, 1, 1]))):
        convolution = helper.make_node("Conv", ["x", "w", "b"], ["c"], name="Conv", **attributes)
        inputs = {"x": image, "w": weights, "b": weights[:1]}
        yield name, [convolution, node("Identity", ["c"])], inputs
        yield f"{name}-relu", [convolution, node("Relu", ["c"])], inputs
        strides, pads = attributes.get("strides", [1, 1]), attributes.get("pads", [0] * 4)
        size = [(n + pads[0] + pads[2] - weights[2]) // s + 1 for n, s in zip(image[2:], strides)]
        yield (f"{name}-add-relu",
               [convolution, helper.make_node("Add", ["c", "r"], ["a"], name="Add"), node("Relu", ["a"])],
               inputs | {"r": (image[0], weights[0], *size)})
    for m, k, n in ((64, 512, 40), (37, 211, 40)):
        yield f"matmul-{m}x{k}", [node("MatMul", ["x", "y"])], {"x": (m, k), "y": (k, n)}


def rounded_models(folder):
    """Name and file of each of rounded_cases(); weights are inputs."""
    for name, nodes, inputs in rounded_cases():
        yield name, save(folder, name, nodes, inputs, [])


# Trained alone, so that a wrong gradient has a name: the weights of a convolution, and its input.
TRAINED = {"conv": [(8, 3, 1)], "conv-stride": [(8, 3, 2)], "conv-1x1": [(8, 1, 1)],
           "conv-twice": [(8, 3, 1), (12, 3, 1)], "conv-stride-twice": [(8, 3, 1), (12, 3, 2)]}


def trained_models(folder):
    """Small nets of convolutions with logits of 8 classes, for --loss=cross_entropy(logits,labels)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, layers in TRAINED.items():
        random = np.random.default_rng(1)
        nodes, constants, last, channels, size = [], [], "x", 2, 12
        for i, (out, kernel, stride) in enumerate(layers):
            scale = 1 / np.sqrt(channels * kernel * kernel)
            constants.append(constant((random.standard_normal((out, channels, kernel, kernel)) * scale).astype(np.float32),
                                      f"w{i}"))
            nodes.append(helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], name=f"Conv{i}",
                                          pads=[kernel // 2] * 4, strides=[stride] * 2))
            nodes.append(helper.make_node("Tanh", [f"c{i}"], [f"t{i}"], name=f"Tanh{i}"))
            last, channels, size = f"t{i}", out, (size + stride - 1) // stride
        constants.append(constant((random.standard_normal((channels * size * size, 8)) * 0.05).astype(np.float32), "v"))
        nodes += [helper.make_node("Flatten", [last], ["f"], name="Flatten"),
                  helper.make_node("MatMul", ["f", "v"], ["logits"], name="MatMul")]
        graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", F, [8, 2, 12, 12])],
                                  [helper.make_tensor_value_info("logits", F, [8, 8])], constants)
        file = folder / f"{name}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), file)
        yield name, file


def save(folder, name, nodes, inputs, constants):
    folder.mkdir(parents=True, exist_ok=True)
    graph = helper.make_graph(nodes, "op", [helper.make_tensor_value_info(n, F, list(s)) for n, s in inputs.items()],
                              [helper.make_tensor_value_info("z", F, None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    try:
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except Exception as error:  # the list above is wrong
        raise SystemExit(f"{name}: {error}")
    file = folder / f"{name}.onnx"
    onnx.save(model, file)
    return file


def models(folder):
    for name, operator, inputs, constants in cases():
        yield name, save(folder, name, [operator], inputs, constants)
