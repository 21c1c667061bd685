#!/usr/bin/env python3
"""Lays out the light models of the installed onnx wheel as this suite's models are.

    light.py DIR [NAME ...]     DIR/NAME/{model.onnx,inputs/*.npy,outputs/*.npy}

The inputs are the ones that onnx's own test runner makes (arange(n)/n), the
outputs those that come with the models. A '/' in a tensor's name becomes '_' in
its file's name. Prints the names.
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


def main():
    names = sys.argv[2:] or sorted(p.stem[len("light_"):] for p in SOURCE.glob("light_*.onnx"))
    for name in names:
        lay_out(name, pathlib.Path(sys.argv[1]))
        print(name)


if __name__ == "__main__":
    main()
