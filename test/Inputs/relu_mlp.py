#!/usr/bin/env python3
"""relu_mlp.py FOLDER

Writes FOLDER/model.onnx: three layers with ReLU and without biases, so that the
gradient of ReLU is a kernel of its own behind a product.
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZES = [20, 48, 40, 8]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    nodes, weights, x = [], [], "x"
    for i, (columns, rows) in enumerate(zip(SIZES, SIZES[1:])):
        last = i + 2 == len(SIZES)
        weights.append(numpy_helper.from_array(
            (random.standard_normal((rows, columns)) * 0.3).astype(np.float32), f"layers.{i}.weight"))
        product = "logits" if last else f"product_{i}"
        nodes.append(helper.make_node("Gemm", [x, f"layers.{i}.weight"], [product], f"/layers.{i}/Gemm", transB=1))
        if not last:
            nodes.append(helper.make_node("Relu", [product], [f"relu_{i}"], f"/layers.{i}/Relu"))
            x = f"relu_{i}"
    graph = helper.make_graph(
        nodes, "relu-mlp", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", SIZES[0]])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", SIZES[-1]])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / "model.onnx")


if __name__ == "__main__":
    main()
