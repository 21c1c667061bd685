# Every node of the products of operators that came in as forms of others (com.microsoft, recurrent cells, loops, quantized
# values, spectra), with an input left out, an input of another rank, size or type, or an attribute that has any number: it
# is taken or refused with a reason, and never a crash, an internal error or a hang. Each node three times, with --full
# (changed-nodes-full.test) six.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs 3
import pathlib
import random
import runpy
import shutil
import sys

tests = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
import onnx_cases
from onnx import AttributeProto, helper

from kerf_commands import Commands

OUT = pathlib.Path(sys.argv[1])
shutil.rmtree(OUT, ignore_errors=True)
OUT.mkdir(parents=True)
CHANGES = int(sys.argv[3]) if len(sys.argv) > 3 else 6
NUMBERS = (-1, 0, 1, 2, 3, 7, -2, 1000, 2**31, -2**63, 2**63 - 1)
TYPES = (onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL, onnx.TensorProto.UINT8,
         onnx.TensorProto.FLOAT16)


def cases_of(path):
    """(name, function that builds) of the cases of a product."""
    found, finish, arguments = [], onnx_cases.Suite.finish, sys.argv
    onnx_cases.Suite.finish = lambda suite: found.extend((case[0], case[1], suite) for case in suite.cases)
    sys.argv = [str(path), str(OUT), sys.argv[2]]
    try:
        runpy.run_path(str(path))
    finally:
        onnx_cases.Suite.finish, sys.argv = finish, arguments
    return found


def change(model, rng):
    """One thing of a model that its author did not mean."""
    graph = model.graph
    kind = rng.choice(("input", "inputs", "shape", "type", "attribute", "attribute", "constant"))
    node = rng.choice(graph.node)
    if kind == "input" and node.input:
        node.input[rng.randrange(len(node.input))] = ""
    elif kind == "inputs" and node.input:
        del node.input[rng.randrange(len(node.input)):]
    elif kind == "shape" and graph.input:
        shape = rng.choice(graph.input).type.tensor_type.shape
        what = rng.randrange(3)
        if what == 0 and shape.dim:
            del shape.dim[rng.randrange(len(shape.dim))]
        elif what == 1:
            shape.dim.add().dim_value = rng.choice((1, 2, 5))
        elif shape.dim:
            rng.choice(shape.dim).dim_value = rng.choice((0, 1, 2, 3, 8, 1000))
    elif kind == "type" and graph.input:
        rng.choice(graph.input).type.tensor_type.elem_type = rng.choice(TYPES)
    elif kind == "attribute" and node.attribute:
        attribute = rng.choice(node.attribute)
        if attribute.type == AttributeProto.INT:
            attribute.i = rng.choice(NUMBERS)
        elif attribute.type == AttributeProto.INTS:
            attribute.ints[:] = [rng.choice(NUMBERS) for _ in range(rng.randrange(5))]
        elif attribute.type == AttributeProto.FLOAT:
            attribute.f = rng.choice((-1.0, 0.0, 1e30, float("nan"), float("inf")))
        elif attribute.type in (AttributeProto.STRING, AttributeProto.STRINGS):
            attribute.s = b"other"
            attribute.strings[:] = [b"Other"] * len(attribute.strings)
        elif attribute.type == AttributeProto.GRAPH:
            part = rng.choice((attribute.g.node, attribute.g.input, attribute.g.output))
            if part:
                del part[rng.randrange(len(part))]
    elif kind == "constant" and graph.initializer:
        tensor = rng.choice(graph.initializer)
        shape = [rng.choice((0, 1, 2, 3, 8)) for _ in range(rng.randrange(4))]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.full(shape, rng.choice((0, 1, 3))).astype(dtype), tensor.name))


cases = [case for name in ("microsoft", "recurrent", "quantized") for case in cases_of(tests / "Products" / f"{name}.py")]
wrong, codes = [], {}
with Commands(timeout=60) as kerf:
    for number, (name, build, suite) in enumerate(cases):
        rng = random.Random(number)
        original, _, results, _ = suite.build([(name, build, ())])
        for value in original.graph.output:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        for attempt in range(CHANGES):
            model = onnx.ModelProto()
            model.CopyFrom(original)
            for _ in range(rng.choice((1, 1, 2))):
                change(model, rng)
            path = OUT / f"{number}-{attempt}.onnx"
            path.write_bytes(model.SerializeToString())
            run = kerf("plan", path, "--devices=2", "-q")
            codes[run.code] = codes.get(run.code, 0) + 1
            if run.code not in (0, 2, 3, 4) or (run.code and "error: " not in run.stderr):
                wrong.append(f"{name}: {path.name}: exit {run.code}: {run.stderr.strip()[:300]}")
            else:
                path.unlink()
print(f"{len(cases)} cases, exit codes {dict(sorted(codes.items()))}")
print("\n".join(wrong))
sys.exit(bool(wrong) or len(cases) < 150 or min(codes.get(0, 0), codes.get(3, 0)) < 50)
