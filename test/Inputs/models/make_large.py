#!/usr/bin/env python3
"""Builds GPT-2, GPT-3, BERT and ResNet-50 at any size, without PyTorch.

    make_large.py gpt2-124m DIR         DIR/{model.onnx,model.onnx.data,batch1/,batch4/}
    make_large.py gpt2-124m DIR --layers 96 --no-weights

The transformers are grown from the small exported graphs beside this script:
the last layer's nodes are repeated, and every size that stands in a shape, a
constant or a weight is replaced. So the graph is the exporter's, node for node.
ResNet-50 is written down; its 122 nodes are also those of the exporter.
Weights are random (the same for the same name and shape); --no-weights leaves
a hole of the right length in the file, for planning. With onnxruntime
installed its outputs are recorded for each --batch. A folder that is complete
is left alone.
"""
import argparse
import json
import math
import pathlib
import re
import shutil
import sys
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
GPT2 = dict(template="gpt2-odd", scope="model.transformer.h.", layers=12, hidden=768, heads=12, inner=3072,
            vocabulary=50257, positions=1024, tokens=128)
BERT = dict(template="bert-small", scope="model.encoder.layer.", layers=12, hidden=768, heads=12, inner=3072,
            vocabulary=30522, positions=512, tokens=128)
GPT3 = GPT2 | dict(layers=96, hidden=12288, heads=96, inner=49152, positions=2048, tokens=2048)
GPT3_7B = GPT3 | dict(layers=32, hidden=4096, heads=32, inner=16384)  # 6.7 B parameters
MODELS = {"gpt2-124m": GPT2, "gpt3-6.7b": GPT3_7B, "gpt3-175b": GPT3, "bert-base": BERT, "resnet50": dict(hidden=64)}
TEMPLATE_SIZES = {"gpt2-odd": dict(hidden=54, heads=6, inner=200, vocabulary=211, positions=24, tokens=13),
                  "bert-small": dict(hidden=48, heads=4, inner=96, vocabulary=150, positions=24, tokens=16)}


class Weights:
    """Random tensors, written one after another into a file beside the model."""

    def __init__(self, path, empty):
        self.file, self.empty = open(path, "wb"), empty
        self.name = path.name

    def add(self, graph, name, shape, scale, offset=0.0):
        start = -(-self.file.tell() // 64) * 64
        length = 4 * math.prod(shape)
        if self.empty:
            self.file.truncate(start + length)
            self.file.seek(start + length)
        else:
            random = np.random.default_rng(zlib.crc32(name.encode()))
            self.file.seek(start)
            values = random.standard_normal(shape, dtype=np.float32)
            values *= np.float32(scale)
            values += np.float32(offset)
            self.file.write(values.tobytes())
        tensor = graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=shape,
                                       data_location=TensorProto.EXTERNAL)
        for key, value in (("location", self.name), ("offset", start), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))


def fan_in(graph, name, shape):
    """How many terms are added up over this weight; its columns for an embedding."""
    for node in graph.node:
        if name in node.input:
            transposed = any(a.name == "transB" and a.i for a in node.attribute)
            if node.op_type == "Gather" or transposed:
                return shape[1]
    return shape[0]


def scope_of(node, producers):
    scopes = next((p.value for p in node.metadata_props if "name_scopes" in p.key), None)
    if scopes is None:  # a node that the exporter's optimiser made
        return next((scope_of(producers[i], producers) for i in node.input if i in producers), "")
    return scopes


def grow(sizes, weights):
    """The template's graph with more layers and other sizes."""
    old = TEMPLATE_SIZES[sizes["template"]]
    model = onnx.load(HERE / sizes["template"] / "model.onnx")
    source = model.graph
    producers = {name: node for node in source.node for name in node.output}
    in_layer = lambda node, k: f"'{sizes['scope']}{k}'" in scope_of(node, producers)
    layers = [[n for n in source.node if in_layer(n, k)] for k in (0, 1)]
    entry, exit_ = layers[0][-1].output[0], layers[1][-1].output[0]
    first = next(i for i, n in enumerate(source.node) if in_layer(n, 1))
    assert any(entry in n.input for n in layers[1]) and len(layers[1]) <= len(layers[0])
    assert list(source.node[first:first + len(layers[1])]) == layers[1], "a layer's nodes stand together"

    def weight_of_layer(name, k):
        return name.replace(f"{sizes['scope']}1.", f"{sizes['scope']}{k}.") if sizes["scope"] in name else name

    inside = {name for node in layers[1] for name in node.output}
    initializers = {i.name: i for i in source.initializer}
    used_elsewhere = {i for node in source.node if not in_layer(node, 1) for i in node.input}
    # Exporters also name transposed weights by number: those are a layer's own, too.
    own = {i for node in layers[1] for i in node.input if i in initializers and i not in used_elsewhere
           and initializers[i].data_type == TensorProto.FLOAT and len(initializers[i].dims) == 2}
    own |= {i for node in layers[1] for i in node.input if sizes["scope"] in i}

    graph = onnx.GraphProto(name=source.name)
    nodes, previous = list(source.node[:first]), entry
    copies = {}
    for k in range(1, sizes["layers"]):
        last = k == sizes["layers"] - 1
        rename = {entry: previous}
        rename |= {name: name if last else f"{name}.{k}" for name in inside}
        for name in own:
            rename[name] = weight_of_layer(name, k) if sizes["scope"] in name else f"{name}.{k}"
            copies.setdefault(name, []).append(rename[name])
        for node in layers[1]:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name = node.name if last else f"{node.name}.{k}"
            copy.input[:] = [rename.get(i, i) for i in node.input]
            copy.output[:] = [rename[o] for o in node.output]
            for entry_ in copy.metadata_props:
                entry_.value = re.sub(rf"({re.escape(sizes['scope'])})1\b", rf"\g<1>{k}", entry_.value)
            nodes.append(copy)
        previous = rename[exit_]
    assert previous == exit_
    nodes += source.node[first + len(layers[1]):]
    graph.node.extend(nodes)

    head = lambda s: s["hidden"] // s["heads"]
    new_size = {old["hidden"] * 3: sizes["hidden"] * 3, head(old): head(sizes), old["tokens"] + 1: sizes["tokens"] + 1}
    new_size |= {old[key]: sizes[key] for key in old}
    resize = lambda dims: [new_size.get(d, d) for d in dims]
    for tensor in source.initializer:
        value, shape = numpy_helper.to_array(tensor), resize(tensor.dims)
        if value.ndim == 3 and value.dtype == np.float32:  # looked up at export, but not for large tables
            table, positions = f"{tensor.name}.table", f"{tensor.name}.positions"
            weights.add(graph, table, [sizes["positions"], shape[2]], 1 / math.sqrt(shape[2]))
            graph.initializer.append(numpy_helper.from_array(np.arange(shape[1]).reshape(1, -1), positions))
            graph.node.insert(0, helper.make_node("Gather", [table, positions], [tensor.name],
                                                  f"node_{tensor.name}", axis=0))
            continue
        if value.size > 1 and value.dtype == np.float32:
            for name in copies.get(tensor.name, [tensor.name]):
                if len(shape) == 1:
                    weights.add(graph, name, shape, 0.1, 0.0 if name.endswith("bias") else 1.0)
                else:
                    weights.add(graph, name, shape, 1 / math.sqrt(fan_in(source, tensor.name, shape)))
            continue
        if value.ndim > 1 and shape != list(value.shape):  # positions, and masks that hold everywhere
            value = np.ones(shape, bool) if value.dtype == bool else np.arange(sizes["tokens"]).reshape(shape)
        elif value.ndim and value.dtype == np.int64:  # a shape
            value = np.array(resize(value), np.int64)
        elif value.dtype == np.float32 and abs(value - head(old) ** -0.25) < 1e-6:
            value = np.float32(head(sizes) ** -0.25)
        graph.initializer.append(numpy_helper.from_array(np.asarray(value, value.dtype), tensor.name))
    for field in ("input", "output"):
        for info in getattr(source, field):
            for dim in info.type.tensor_type.shape.dim:
                if dim.HasField("dim_value"):
                    dim.dim_value = new_size.get(dim.dim_value, dim.dim_value)
            getattr(graph, field).append(info)
    model.graph.CopyFrom(graph)
    return model


def resnet50(sizes, weights):
    graph = onnx.GraphProto(name="main_graph")

    def conv(value, name, inputs, outputs, size, stride=1, relu=True, scale=math.sqrt(2)):
        weights.add(graph, f"{name}.weight", [outputs, inputs, size, size], scale / math.sqrt(inputs * size * size))
        weights.add(graph, f"{name}.weight_bias", [outputs], 0.1)
        pad = size // 2
        graph.node.append(helper.make_node(
            "Conv", [value, f"{name}.weight", f"{name}.weight_bias"], [f"{name}.out"], f"node_{name}", group=1,
            auto_pad="NOTSET", pads=[pad] * 4, strides=[stride] * 2, dilations=[1, 1], kernel_shape=[size] * 2))
        return activation("Relu", [f"{name}.out"], f"{name}.relu") if relu else f"{name}.out"

    def activation(kind, inputs, output, **attributes):
        graph.node.append(helper.make_node(kind, inputs, [output], f"node_{output}", **attributes))
        return output

    width = sizes["hidden"]
    value = conv("image", "conv1", 3, width, 7, 2)
    value = activation("MaxPool", [value], "max_pool2d", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4,
                       dilations=[1, 1], ceil_mode=0, storage_order=0, auto_pad="NOTSET")
    channels = width
    for layer, blocks in enumerate((3, 4, 6, 3)):
        planes = width << layer
        for block in range(blocks):
            name, stride = f"layer{layer + 1}.{block}", 2 if layer and not block else 1
            out = conv(value, f"{name}.conv1", channels, planes, 1)
            out = conv(out, f"{name}.conv2", planes, planes, 3, stride)
            out = conv(out, f"{name}.conv3", planes, 4 * planes, 1, relu=False, scale=0.5)
            if not block:
                value = conv(value, f"{name}.downsample.0", channels, 4 * planes, 1, stride, relu=False, scale=1)
            channels = 4 * planes
            value = activation("Relu", [activation("Add", [out, value], f"{name}.add")], f"{name}.relu")
    for name, data in (("axes", [-1, -2]), ("shape", [-1, channels])):
        graph.initializer.append(numpy_helper.from_array(np.array(data, np.int64), name))
    value = activation("ReduceMean", [value, "axes"], "mean", keepdims=1, noop_with_empty_axes=0)
    value = activation("Reshape", [value, "shape"], "view", allowzero=1)
    weights.add(graph, "fc.weight", [1000, channels], 1 / math.sqrt(channels))
    weights.add(graph, "fc.bias", [1000], 0.1)
    activation("Gemm", [value, "fc.weight", "fc.bias"], "logits", transB=1, alpha=1.0, beta=1.0, transA=0)
    graph.input.append(helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 224, 224]))
    graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1000]))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def inputs_of(graph, sizes, batch):
    random = np.random.default_rng(batch)
    for value in graph.input:
        shape = [batch] + [d.dim_value for d in value.type.tensor_type.shape.dim][1:]
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            yield value.name, random.standard_normal(shape, dtype=np.float32)
        elif value.name == "input_ids":
            yield value.name, random.integers(0, sizes["vocabulary"], shape)
        else:  # a mask or token types: sentences of different lengths
            lengths = random.integers(shape[1] // 2, shape[1] + 1, (batch, 1))
            yield value.name, (np.arange(shape[1]) < lengths).astype(np.int64)


def record(folder, model, sizes, batch):
    """Inputs, and what ONNX Runtime makes of them."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    inputs = dict(inputs_of(model.graph, sizes, batch))
    results = session.run(None, inputs)
    for kind, arrays in (("inputs", inputs), ("outputs", {o.name: r for o, r in zip(session.get_outputs(), results)})):
        target = folder / f"batch{batch}" / kind
        target.mkdir(parents=True, exist_ok=True)
        for name, value in arrays.items():
            np.save(target / f"{name}.npy", value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=MODELS)
    parser.add_argument("folder", type=pathlib.Path)
    for size in ("layers", "hidden", "heads", "inner", "vocabulary", "tokens"):
        parser.add_argument(f"--{size}", type=int)
    parser.add_argument("--batch", type=int, action="append", help="record outputs for this batch size")
    parser.add_argument("--no-weights", action="store_true")
    arguments = parser.parse_args()
    sizes = dict(MODELS[arguments.name])
    sizes |= {key: value for key, value in vars(arguments).items() if key in sizes and value is not None}
    if sizes.get("layers", 2) < 2 or sizes["hidden"] % sizes.get("heads", 1):
        sys.exit("error: at least 2 layers, and the heads must divide the hidden size")
    batches = [] if arguments.no_weights else arguments.batch or [1, 4]
    want = json.dumps([sizes, batches, arguments.no_weights], sort_keys=True)
    stamp = arguments.folder / "made.json"
    if stamp.exists() and stamp.read_text() == want:
        return
    shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True)
    weights = Weights(arguments.folder / "model.onnx.data", arguments.no_weights)
    model = (resnet50 if arguments.name == "resnet50" else grow)(sizes, weights)
    weights.file.close()
    (arguments.folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    for batch in batches:
        record(arguments.folder, model, sizes, batch)
    stamp.write_text(want)


if __name__ == "__main__":
    main()
