#!/usr/bin/env python3
"""make_corpus.py KERF CORPUS: small seeds of every format that Kerf reads.

Models of a few hundred bytes for the kinds of nodes that the importer treats
apart, plans, packages' manifests and machines as KERF writes them, and arrays,
archives and checkpoints by NumPy. What a fuzzer has found is added by hand and
stays: this script writes its own names alone.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

KERF, CORPUS = sys.argv[1], pathlib.Path(sys.argv[2])
ROOT = pathlib.Path(__file__).resolve().parents[1]
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
info, node = helper.make_tensor_value_info, helper.make_node
random = np.random.default_rng(0)


def save(kind, name, data):
    folder = CORPUS / kind
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def constant(name, value, dtype=np.float32):
    return numpy_helper.from_array(np.array(value, dtype), name)


def weight(name, *shape):
    return constant(name, random.standard_normal(shape) * 0.3)


def model(name, nodes, inputs, initializers=(), outputs=None, opset=20, functions=(), domains=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs or [info(nodes[-1].output[0], F, None)], list(initializers))
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))
    save("onnx", name + ".onnx", made.SerializeToString())


def models():
    x = [info("x", F, ["batch", 6])]
    model("gemm", [node("Gemm", ["x", "w", "b"], ["h"], "fc", transB=1), node("Relu", ["h"], ["y"])], x,
          [weight("w", 4, 6), weight("b", 4)])
    image = [info("x", F, ["batch", 3, 7, 7])]
    model("conv", [node("Conv", ["x", "w", "b"], ["h"], strides=[2, 2], pads=[1, 1, 1, 1], group=1),
                   node("BatchNormalization", ["h", "s", "s", "m", "v"], ["n"]),
                   node("MaxPool", ["n"], ["p"], kernel_shape=[2, 2], ceil_mode=1), node("Flatten", ["p"], ["y"])],
          image, [weight("w", 4, 3, 3, 3), weight("b", 4), weight("s", 4), weight("m", 4), constant("v", [1, 1, 1, 1])])
    model("pool", [node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], count_include_pad=1, auto_pad="SAME_UPPER")], image)
    model("shapes", [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Unsqueeze", ["n", "axis"], ["n1"]),
                     node("Concat", ["n1", "rest"], ["to"], axis=0), node("Reshape", ["x", "to"], ["r"]),
                     node("Slice", ["r", "from", "until", "axes", "steps"], ["c"]), node("Transpose", ["c"], ["t"], perm=[0, 2, 1]),
                     node("Expand", ["t", "wide"], ["e"]), node("Pad", ["e", "pads"], ["y"], mode="constant")],
          x, [constant("zero", 0, np.int64), constant("axis", [0], np.int64), constant("rest", [2, 3], np.int64),
              constant("from", [1, -1], np.int64), constant("until", [2, -99], np.int64), constant("axes", [1, 2], np.int64),
              constant("steps", [1, -1], np.int64), constant("wide", [2, 3, 5], np.int64),
              constant("pads", [0, 0, 1, 0, 1, 0], np.int64)])
    model("attention", [node("LayerNormalization", ["x", "g", "g"], ["n"], axis=-1), node("MatMul", ["n", "w"], ["q"]),
                        node("Transpose", ["q"], ["k"], perm=[0, 2, 1]), node("MatMul", ["q", "k"], ["a"]),
                        node("Softmax", ["a"], ["p"], axis=-1), node("MatMul", ["p", "q"], ["y"])],
          [info("x", F, [2, 3, 6])], [weight("g", 6), weight("w", 6, 6)])
    model("gather", [node("Gather", ["table", "ids"], ["e"]), node("ReduceMean", ["e", "last"], ["m"], keepdims=0),
                     node("ScatterND", ["m", "at", "new"], ["y"])],
          [info("ids", I, ["batch", 3])],
          [weight("table", 9, 4), constant("last", [-1], np.int64), constant("at", [[0, 1]], np.int64), constant("new", [2])])
    model("embedding", [node("Gather", ["table", "ids"], ["e"]), node("ReduceMean", ["e", "last"], ["y"], keepdims=0)],
          [info("ids", I, ["batch", 3])], [weight("table", 9, 4), constant("last", [-1], np.int64)])
    then = helper.make_graph([node("Add", ["x", "one"], ["t"])], "then", [], [info("t", F, None)])
    other = helper.make_graph([node("Neg", ["x"], ["e"])], "else", [], [info("e", F, None)])
    model("if", [node("If", ["yes"], ["y"], then_branch=then, else_branch=other)], x,
          [constant("yes", True, bool), constant("one", [1])])
    body = helper.make_graph([node("Identity", ["go"], ["on"]), node("Add", ["h", "x"], ["more"])], "body",
                             [info("i", I, []), info("go", B, []), info("h", F, None)],
                             [info("on", B, []), info("more", F, None)])
    model("loop", [node("Loop", ["three", "yes", "x"], ["y"], body=body)], x,
          [constant("three", 3, np.int64), constant("yes", True, bool)])
    twice = helper.make_function("local", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])],
                                 [helper.make_opsetid("", 20)])
    model("function", [node("Twice", ["x"], ["y"], domain="local")], x, functions=[twice], domains=["local"])
    model("recurrent", [node("LSTM", ["x", "w", "r"], ["y"], hidden_size=2)], [info("x", F, [3, 1, 2])],
          [weight("w", 1, 8, 2), weight("r", 1, 8, 2)])
    model("resize", [node("Resize", ["x", "", "scales"], ["r"], mode="linear", coordinate_transformation_mode="half_pixel"),
                     node("Split", ["r"], ["y", "z"], axis=1, num_outputs=2)], image, [constant("scales", [1, 1, 2, 2])])
    model("einsum", [node("Einsum", ["x", "w"], ["h"], equation="bi,oi->bo"), node("TopK", ["h", "k"], ["y", "i"]),
                     node("Cast", ["i"], ["z"], to=F)], x, [weight("w", 4, 6), constant("k", [2], np.int64)])
    model("where", [node("Greater", ["x", "zero"], ["c"]), node("Where", ["c", "x", "zero"], ["w"]),
                    node("Clip", ["w", "zero"], ["y"])], x, [constant("zero", 0)])
    outside = weight("w", 4, 6)
    outside.ClearField("raw_data")
    outside.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.data"), ("offset", "0"), ("length", "96")):
        outside.external_data.add(key=key, value=value)
    model("external", [node("Gemm", ["x", "w"], ["y"], transB=1)], x, [outside])
    loss = [node("Gemm", ["x", "w"], ["h"], transB=1), node("Dropout", ["h", "p", "yes"], ["d"]),
            node("SoftmaxCrossEntropyLoss", ["d", "labels"], ["y"], reduction="mean")]
    model("training", loss, [*x, info("labels", I, ["batch"])], [weight("w", 4, 6), constant("p", 0.5), constant("yes", True, bool)])


def kerf(*arguments):
    subprocess.run([KERF, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def compiled():
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        mlp = ROOT / "test/Inputs/models/mlp/model.onnx"
        for name, options in {"one": [], "two": ["--devices=cpu:2", "--mesh=tp=2"],
                              "pipeline": ["--devices=cpu:4", "--mesh=pp=2,tp=2", "--micro-batches=2"]}.items():
            kerf("plan", mlp, "--dim", "batch=8", *options, "-o", out / "plan.json")
            save("plan", name + ".json", (out / "plan.json").read_text())
            kerf("compile", mlp, "--dim", "batch=8", *options, "-o", out / f"{name}.kerf")
            save("manifest", name + ".json", (out / f"{name}.kerf/manifest.json").read_text())
        for name in ("conv", "attention", "embedding"):
            dim = [] if name == "attention" else ["--dim", "batch=2"]
            kerf("compile", CORPUS / "onnx" / f"{name}.onnx", *dim, "-o", out / f"{name}.kerf")
            save("manifest", name + ".json", (out / f"{name}.kerf/manifest.json").read_text())
        kerf("compile", CORPUS / "onnx/gemm.onnx", "--dim", "batch=4", "--train", "--loss=mse(y,target)",
             "--optimizer=adamw", "--devices=cpu:2", "--mesh=dp=2", "-o", out / "training.kerf")
        save("manifest", "training.json", (out / "training.kerf/manifest.json").read_text())


def machines():
    text = (ROOT / "docs/CostModel.md").read_text()
    begin = text.rindex("{", 0, text.index('"schema": "kerf.machine/1"'))
    save("machine", "two-boxes.json", text[begin:text.index("```", begin)])
    machine = json.loads(text[begin:text.index("```", begin)])
    save("machine", "one.json", json.dumps({**machine, "nodes": 1, "cores_per_node": 4, "threads_per_device": 2,
                                            "ranks_that_saturate_memory": 1.5}))


def npy(array, fortran=False):
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file.name, np.asfortranarray(array) if fortran else array)
        return pathlib.Path(file.name).read_bytes()


def arrays():
    for kind in ("npy", "constant"):
        save(kind, "matrix.npy", npy(np.arange(6, dtype=np.float32).reshape(2, 3)))
        save(kind, "fortran.npy", npy(np.arange(24, dtype=np.int64).reshape(2, 3, 4), fortran=True))
        save(kind, "scalar.npy", npy(np.float64(3)))
        save(kind, "empty.npy", npy(np.zeros((0, 5), bool)))
        save(kind, "half.npy", npy(np.ones(3, np.float16)))
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        with tempfile.TemporaryFile() as file:
            with zipfile.ZipFile(file, "w", method) as archive:
                for member, array in (("x", np.arange(12, dtype=np.float32).reshape(4, 3)), ("labels", np.arange(4)),
                                      ("f", np.asfortranarray(np.ones((4, 2), np.int32)))):
                    entry = zipfile.ZipInfo(member + ".npy")
                    entry.compress_type = method
                    with archive.open(entry, "w", force_zip64=member == "f") as stream:
                        stream.write(npy(array, np.isfortran(array)))
            file.seek(0)
            save("npz", name + ".npz", file.read())


def tensors(kind, name, entries, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for key, array in entries.items():
        kinds = {"float32": "F32", "int64": "I64", "float16": "F16", "bool": "BOOL"}
        header[key] = {"dtype": kinds[str(array.dtype)], "shape": list(array.shape),
                       "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 64)
    save(kind, name, struct.pack("<Q", len(text)) + text + data)


def checkpoints():
    some = {"w": np.ones((2, 3), np.float32), "count": np.arange(2), "flag": np.zeros((), bool)}
    tensors("safetensors", "some.safetensors", some)
    tensors("safetensors", "none.safetensors", {}, {"format": "pt"})
    facts = {"format": "kerf.checkpoint/1", "step": "12", "updates": "11", "epoch": "1", "index": "2", "seed": "1",
             "batch_size": "4", "samples": "40", "data": "0" * 16, "batches_per_epoch": "10", "shuffle": "on",
             "last_batch": "drop", "xxh3": "0" * 16}
    tensors("checkpoint", "step12.safetensors", some, facts)


models()
machines()
arrays()
checkpoints()
compiled()
