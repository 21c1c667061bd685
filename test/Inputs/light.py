#!/usr/bin/env python3
"""Lays out the light models of the installed onnx wheel as this suite's models are.

    light.py DIR [NAME ...]            DIR/NAME/{model.onnx,inputs/*.npy,outputs/*.npy}
    light.py --random DIR [NAME ...]   random weights in place of the constant ones,
                                       outputs from ONNX Runtime

The inputs are the ones that onnx's own test runner makes (arange(n)/n), the
outputs those that come with the models. A '/' in a tensor's name becomes '_' in
its file's name. Prints the names. The constant weights make every output equal,
which asserts little; so the random ones.
"""
import pathlib
import shutil
import sys

import numpy as np
import onnx
from onnx import numpy_helper

SOURCE = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"


def lay_out(name, root):
    path = SOURCE / f"light_{name}.onnx"
    folder = root / name
    for kind in ("inputs", "outputs"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, folder / "model.onnx")
    graph = onnx.load(path).graph
    initializers = {i.name for i in graph.initializer}
    for value in graph.input:
        if value.name not in initializers:
            shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            data = (np.arange(count).reshape(shape) / count).astype(np.float32)
            np.save(folder / "inputs" / f"{value.name.replace('/', '_')}.npy", data)
    for index, value in enumerate(graph.output):
        tensor = onnx.TensorProto.FromString(path.with_name(f"light_{name}_output_{index}.pb").read_bytes())
        np.save(folder / "outputs" / f"{value.name.replace('/', '_')}.npy", numpy_helper.to_array(tensor))


def randomise(path):
    """ConstantOfShape nodes become initializers: weights with a sensible spread, positive variances."""
    model = onnx.load(path)
    graph, random = model.graph, np.random.default_rng(5)
    shapes = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    variances = {n.input[4] for n in graph.node if n.op_type == "BatchNormalization"}
    kept = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in shapes:
            kept.append(node)
            continue
        shape = tuple(shapes[node.input[0]])
        value = random.standard_normal(shape, dtype=np.float32)
        value *= np.float32(0.1 if len(shape) < 2 else np.sqrt(2 / np.prod(shape[1:])))
        if node.output[0] in variances:
            value = np.abs(value) + np.float32(1)
        graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
    del graph.node[:]
    graph.node.extend(kept)
    onnx.save(model, path)


def record(folder):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    files = {v.name: folder / "inputs" / f"{v.name.replace('/', '_')}.npy" for v in session.get_inputs()}
    results = session.run(None, {name: np.load(file) for name, file in files.items() if file.exists()})
    for value, result in zip(session.get_outputs(), results):
        np.save(folder / "outputs" / f"{value.name.replace('/', '_')}.npy", result)


def main():
    arguments = sys.argv[1:]
    random = "--random" in arguments
    if random:
        arguments.remove("--random")
    root = pathlib.Path(arguments[0])
    for name in arguments[1:] or sorted(p.stem[len("light_"):] for p in SOURCE.glob("light_*.onnx")):
        lay_out(name, root)
        if random:
            randomise(root / name / "model.onnx")
            record(root / name)
        print(name)


if __name__ == "__main__":
    main()
